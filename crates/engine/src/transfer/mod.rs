//! Prefill and decode apart: the keys and values of a prompt leave the engine that computed them and enter another one.
//!
//! Who has computed a prompt keeps its blocks (`shelf`), and its answer says where they are, in the words of vLLM's NIXL
//! connector. Who goes on fetches them over TCP (`fetch`, `serve`). Before anything moves, both prove that they know the same
//! secret and say what their blocks look like (`wire`); blocks of another model are refused.

mod config;
mod exchange;
mod fetch;
mod serve;
mod shelf;
mod wire;

pub(crate) use self::{
    config::{Connector, Settings},
    exchange::{Exchange, Handing, Imported, Share, share},
    serve::serve,
    shelf::Shelf,
    wire::{Shape, probe as wire_probe},
};
