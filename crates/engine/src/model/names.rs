//! The names of tensors in each format.

use super::config::Config;
use crate::weights::Weights;

/// A tensor of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TensorName {
    Embedding,
    OutputNorm,
    Output,
    /// Divisors of the rotary frequencies.
    RopeFactors,
    AttentionNorm(usize),
    QueryNorm(usize),
    KeyNorm(usize),
    FeedForwardNorm(usize),
    Projection(usize, Projection),
}

/// A matrix of a layer. Adapters can modify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Projection {
    Query,
    Key,
    Value,
    Output,
    Gate,
    Up,
    Down,
}

// === impl Projection ===

impl Projection {
    /// All matrices, in the order of their numbers.
    pub(crate) const ALL: [Self; 7] =
        [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    /// The names in GGUF and in safetensors files.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Query => ("attn_q", "self_attn.q_proj"),
            Self::Key => ("attn_k", "self_attn.k_proj"),
            Self::Value => ("attn_v", "self_attn.v_proj"),
            Self::Output => ("attn_output", "self_attn.o_proj"),
            Self::Gate => ("ffn_gate", "mlp.gate_proj"),
            Self::Up => ("ffn_up", "mlp.up_proj"),
            Self::Down => ("ffn_down", "mlp.down_proj"),
        }
    }

    /// The name in safetensors files, also of adapters.
    pub(crate) fn module(self) -> &'static str {
        self.names().1
    }

    /// The lengths of the input and of the output.
    pub(crate) fn shape(self, config: &Config) -> (usize, usize) {
        let Config { width, feed_forward, .. } = *config;
        let (queries, keys) = (config.heads * config.head_width, config.kv_heads * config.head_width);
        match self {
            Self::Query => (width, queries),
            Self::Key | Self::Value => (width, keys),
            Self::Output => (queries, width),
            Self::Gate | Self::Up => (width, feed_forward),
            Self::Down => (feed_forward, width),
        }
    }
}

// === impl TensorName ===

impl TensorName {
    /// Returns the layer of a tensor, if it belongs to one, and its names in GGUF and in safetensors files.
    fn names(self) -> (Option<usize>, (&'static str, &'static str)) {
        match self {
            Self::Embedding => (None, ("token_embd", "model.embed_tokens")),
            Self::OutputNorm => (None, ("output_norm", "model.norm")),
            Self::Output => (None, ("output", "lm_head")),
            Self::RopeFactors => (None, ("rope_freqs", "rope_freqs")),
            Self::AttentionNorm(layer) => (Some(layer), ("attn_norm", "input_layernorm")),
            Self::QueryNorm(layer) => (Some(layer), ("attn_q_norm", "self_attn.q_norm")),
            Self::KeyNorm(layer) => (Some(layer), ("attn_k_norm", "self_attn.k_norm")),
            Self::FeedForwardNorm(layer) => (Some(layer), ("ffn_norm", "post_attention_layernorm")),
            Self::Projection(layer, projection) => (Some(layer), projection.names()),
        }
    }

    /// Returns the name of a tensor, without `.weight` or `.bias`.
    pub(super) fn of(self, weights: &Weights) -> String {
        let (layer, (gguf, safetensors)) = self.names();
        match weights {
            Weights::Gguf(_) => layer.map_or_else(|| gguf.to_owned(), |layer| format!("blk.{layer}.{gguf}")),
            Weights::Safetensors(files) => {
                let name = layer.map_or_else(
                    || safetensors.to_owned(),
                    |layer| format!("model.layers.{layer}.{safetensors}"),
                );
                // Models that were saved without an output head, such as embedding models, have names without the prefix.
                match name.strip_prefix("model.") {
                    Some(short) if files.tensors.has("embed_tokens.weight") => short.to_owned(),
                    _ => name,
                }
            }
        }
    }
}
