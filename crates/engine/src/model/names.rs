//! The names of tensors in each format.

use crate::weights::Weights;

/// A tensor of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Embedding,
    OutputNorm,
    Output,
    /// Divisors of the rotary frequencies.
    RopeFactors,
    AttentionNorm(usize),
    Query(usize),
    Key(usize),
    Value(usize),
    AttentionOutput(usize),
    QueryNorm(usize),
    KeyNorm(usize),
    FeedForwardNorm(usize),
    Gate(usize),
    Up(usize),
    Down(usize),
}

/// Returns the layer of a tensor, if it belongs to one, and its names in GGUF and in safetensors files.
fn names(part: Part) -> (Option<usize>, &'static str, &'static str) {
    match part {
        Part::Embedding => (None, "token_embd", "model.embed_tokens"),
        Part::OutputNorm => (None, "output_norm", "model.norm"),
        Part::Output => (None, "output", "lm_head"),
        Part::RopeFactors => (None, "rope_freqs", "rope_freqs"),
        Part::AttentionNorm(layer) => (Some(layer), "attn_norm", "input_layernorm"),
        Part::Query(layer) => (Some(layer), "attn_q", "self_attn.q_proj"),
        Part::Key(layer) => (Some(layer), "attn_k", "self_attn.k_proj"),
        Part::Value(layer) => (Some(layer), "attn_v", "self_attn.v_proj"),
        Part::AttentionOutput(layer) => (Some(layer), "attn_output", "self_attn.o_proj"),
        Part::QueryNorm(layer) => (Some(layer), "attn_q_norm", "self_attn.q_norm"),
        Part::KeyNorm(layer) => (Some(layer), "attn_k_norm", "self_attn.k_norm"),
        Part::FeedForwardNorm(layer) => (Some(layer), "ffn_norm", "post_attention_layernorm"),
        Part::Gate(layer) => (Some(layer), "ffn_gate", "mlp.gate_proj"),
        Part::Up(layer) => (Some(layer), "ffn_up", "mlp.up_proj"),
        Part::Down(layer) => (Some(layer), "ffn_down", "mlp.down_proj"),
    }
}

/// Returns the name of a tensor, without `.weight` or `.bias`.
pub(super) fn name(weights: &Weights, part: Part) -> String {
    let (layer, gguf, safetensors) = names(part);
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
