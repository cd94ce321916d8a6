//! LoRA adapters: small matrices that are added to the model's matrices for requests that name the adapter.

mod adapter;
mod registry;
mod settings;
mod usage;

pub(crate) use self::{
    adapter::Adapter,
    registry::{AdapterError, Adapters},
    settings::probe,
    usage::{AdapterLease, Usage},
};
