//! Disaggregated prefill and decode: the keys and values of a prompt move from the engine that computed them to another
//! engine.
//!
//! The engine that has computed a prompt keeps its blocks (`shelf`). Its response contains their location, in the fields of
//! vLLM's NIXL connector. The other engine fetches them over TCP (`fetch`, `serve`). Before the transfer, both engines prove
//! that they know the same secret, and exchange the shapes of their blocks (`wire`). Blocks of another model are refused.

mod config;
mod exchange;
mod fetch;
mod idle_timeout;
mod serve;
mod shelf;
mod wire;

pub(crate) use self::{
    config::{Connector, Settings},
    exchange::{Exchange, ImportedBlocks, PrefillHandoff, Share, share},
    serve::serve,
    shelf::Shelf,
    wire::{Shape, probe as wire_probe},
};
