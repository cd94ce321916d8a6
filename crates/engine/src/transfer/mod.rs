//! Disaggregated prefill and decode: the keys and values of a prompt move from the engine that computed them to another
//! engine.
//!
//! The engine that has computed a prompt leases its blocks (`leases`). Its response contains their location, in the fields of
//! vLLM's NIXL connector. The other engine fetches them over TCP (`fetch`, `serve`). Before the transfer, both engines prove
//! that they know the same secret, and exchange the shapes of their blocks (`wire`). Blocks of another model are refused.

mod config;
mod connector;
mod fetch;
mod idle_timeout;
mod leases;
mod serve;
mod wire;

pub(crate) use self::{
    config::{KvTransferConfig, Settings},
    connector::{Connector, ImportedBlocks, PrefillHandoff, RequestTransfers, prepare},
    leases::Leases,
    serve::serve,
    wire::{Shape, probe as wire_probe},
};
