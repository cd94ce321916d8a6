//! LoRA adapters: small matrices that are added to those of the model, for the requests that name them.

mod adapter;
mod registry;
mod settings;
mod usage;

pub(crate) use self::{
    adapter::{Adapter, Target},
    registry::{AdapterError, Adapters},
    settings::probe,
    usage::{Usage, Used},
};
