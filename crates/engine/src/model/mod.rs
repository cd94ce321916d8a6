//! A transformer of the Llama family: its shape, its weights, and one pass through them.

mod attention;
mod config;
mod forward;
mod layer;
mod names;
mod rope;

pub(crate) use self::{
    config::Config,
    forward::{Span, Transformer},
};
