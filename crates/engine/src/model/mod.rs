//! A transformer of the Llama family: its shape, its weights, and its forward pass.

mod attention;
mod config;
mod exponential;
mod forward;
mod layer;
mod names;
mod rope;

pub(crate) use self::{
    attention::dot, config::Config, forward::Transformer, layer::Span, names::Projection, rope::Pairs,
};
