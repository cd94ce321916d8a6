//! The KV cache: its memory in blocks, and the users of the blocks.

mod blocks;
mod kv;

pub(crate) use self::{
    blocks::{Block, Blocks, Hash},
    kv::{Kv, Table},
};
