//! The KV cache: memory in blocks, and who has which of them.

mod blocks;
mod kv;

pub(crate) use self::{
    blocks::{Block, Blocks, Hash},
    kv::{Kv, Table},
};
