//! A model that computes its answers on the CPU.
//!
//! The crate is a [`longboat_serving::Model`]: the HTTP API is the same as the simulator's. A model is read from a folder with
//! safetensors or from a GGUF file (`weights`), its tokenizer and chat template from the same place (`text`). One thread
//! computes (`worker`). Each of its passes goes through the model once (`model`) for a token of every running answer and
//! for pieces of new prompts (`batch`). Keys and values live in blocks, which prompts with the same beginning share
//! (`cache`). Those of a prompt can leave for another engine, or come from one (`transfer`).
//!
//! Matrices of 4 and 8 bits are multiplied by kernels of our own where the processor has AVX2 (`kernels`), all others by
//! candle. Everything between the matrices is plain arithmetic on slices, since candle's own models keep their caches to
//! themselves.

mod args;
mod batch;
mod cache;
mod check;
mod embedder;
mod engine;
mod error;
mod kernels;
mod lora;
mod memory;
mod model;
mod pooling;
mod render;
mod sample;
mod sequence;
mod server;
mod shape;
mod text;
mod transfer;
mod weights;
mod worker;

pub use args::{Args, HELP, VERSION};
pub use check::check;
pub use engine::Engine;
pub use error::LoadError;
pub use server::{EngineError, render, run, serve};

/// Parsers of files that anybody may have written, for the fuzz targets.
#[doc(hidden)]
pub mod fuzz {
    use crate::{lora, shape, text, transfer, weights};

    /// What is fed with bytes.
    pub type Target = fn(&[u8]);

    /// Each target by its name.
    pub const ALL: [(&str, Target); 8] = [
        ("engine_adapter", adapter),
        ("engine_gguf", gguf),
        ("engine_kv", kv),
        ("engine_regex", regex),
        ("engine_safetensors", safetensors),
        ("engine_template", template),
        ("engine_tokenizer", tokenizer),
        ("engine_vocabulary", vocabulary),
    ];

    /// The header of a GGUF file.
    pub fn gguf(bytes: &[u8]) {
        weights::gguf_probe(bytes);
    }

    /// A regular expression that answers must match.
    pub fn regex(bytes: &[u8]) {
        shape::probe(bytes);
    }

    /// A chat template.
    pub fn template(bytes: &[u8]) {
        text::template_probe(bytes);
    }

    /// A `tokenizer.json`.
    pub fn tokenizer(bytes: &[u8]) {
        text::tokenizer_probe(bytes);
    }

    /// The vocabulary of a GGUF file.
    pub fn vocabulary(bytes: &[u8]) {
        text::vocabulary_probe(bytes);
    }

    /// The settings of a LoRA adapter.
    pub fn adapter(bytes: &[u8]) {
        lora::probe(bytes);
    }

    /// A message of an engine that asks for KV cache, or has it; and `--kv-transfer-config`.
    pub fn kv(bytes: &[u8]) {
        transfer::wire_probe(bytes);
    }

    /// The header of a safetensors file.
    pub fn safetensors(bytes: &[u8]) {
        weights::safetensors_probe(bytes);
    }
}
