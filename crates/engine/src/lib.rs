//! A model server that computes on the CPU.
//!
//! The crate implements [`longboat_serving::Model`], so its HTTP API is the same as the simulator's. A model is read from a
//! folder with safetensors files or from a GGUF file (`weights`). Its tokenizer and chat template come from the same place
//! (`text`). One thread computes (`worker`). Each forward pass goes through the model once (`model`), for one token of every
//! running answer and for parts of new prompts (`batch`). Keys and values are stored in blocks, which prompts with the same
//! beginning share (`cache`). The blocks of a prompt can be sent to another engine or received from one (`transfer`).
//!
//! Matrices of 4 and 8 bits are multiplied by the crate's own kernels if the processor has AVX2 (`kernels`), and all others
//! by candle. The operations between the matrices are plain arithmetic on slices, because candle's own models do not give
//! access to their KV caches.
//!
//! Without the feature `llguidance` there is nothing here (`Cargo.toml` says why).
#![cfg(feature = "llguidance")]

mod args;
mod batch;
mod blocking;
mod cache;
mod check;
mod embedder;
mod engine;
mod error;
mod gauges;
mod inbox;
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

pub use args::{Args, HELP};
pub use check::check;
pub use engine::Engine;
pub use error::LoadError;
pub use longboat_serving::ENGINE_VERSION;
pub use server::{EngineError, render, run, serve};
pub use text::{TEMPLATE_ROLE, render_template};

/// Parsers of untrusted files, for the fuzz targets.
#[doc(hidden)]
pub mod fuzz {
    use longboat_serving::Shape;

    use crate::{lora, shape, text, transfer, weights};

    /// A fuzz target: a function that receives bytes.
    pub type Target = fn(&[u8]);

    /// Each target by its name.
    pub const ALL: [(&str, Target); 10] = [
        ("engine_adapter", adapter),
        ("engine_gguf", gguf),
        ("engine_grammar", grammar),
        ("engine_kv", kv),
        ("engine_regex", regex),
        ("engine_safetensors", safetensors),
        ("engine_schema", schema),
        ("engine_template", template),
        ("engine_tokenizer", tokenizer),
        ("engine_vocabulary", vocabulary),
    ];

    /// Parses the header of a GGUF file.
    pub fn gguf(bytes: &[u8]) {
        weights::gguf_probe(bytes);
    }

    /// A regular expression that answers must match.
    pub fn regex(bytes: &[u8]) {
        shape::probe(bytes, |text| Some(Shape::Regex(text)));
    }

    /// A grammar that answers must match.
    pub fn grammar(bytes: &[u8]) {
        shape::probe(bytes, |text| Some(Shape::Grammar(text)));
    }

    /// A JSON schema that answers must match.
    pub fn schema(bytes: &[u8]) {
        shape::probe(bytes, |text| serde_json::from_str(&text).ok().map(Shape::Json));
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

    /// Parses a message of the KV cache transfer, and `--kv-transfer-config`.
    pub fn kv(bytes: &[u8]) {
        transfer::wire_probe(bytes);
    }

    /// Parses the header of a safetensors file.
    pub fn safetensors(bytes: &[u8]) {
        weights::safetensors_probe(bytes);
    }
}
