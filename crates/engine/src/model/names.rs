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

/// Returns the name of a tensor, without `.weight` or `.bias`.
pub(super) fn name(weights: &Weights, part: Part) -> String {
    match weights {
        Weights::Gguf(_) => gguf(part),
        Weights::Safetensors(files) => {
            let name = safetensors(part);
            // Models that were saved without an output head, such as embedding models, have names without the prefix.
            match name.strip_prefix("model.") {
                Some(short) if files.tensors.has("embed_tokens.weight") => short.to_owned(),
                _ => name,
            }
        }
    }
}

fn gguf(part: Part) -> String {
    let (layer, name) = match part {
        Part::Embedding => return "token_embd".into(),
        Part::OutputNorm => return "output_norm".into(),
        Part::Output => return "output".into(),
        Part::RopeFactors => return "rope_freqs".into(),
        Part::AttentionNorm(layer) => (layer, "attn_norm"),
        Part::Query(layer) => (layer, "attn_q"),
        Part::Key(layer) => (layer, "attn_k"),
        Part::Value(layer) => (layer, "attn_v"),
        Part::AttentionOutput(layer) => (layer, "attn_output"),
        Part::QueryNorm(layer) => (layer, "attn_q_norm"),
        Part::KeyNorm(layer) => (layer, "attn_k_norm"),
        Part::FeedForwardNorm(layer) => (layer, "ffn_norm"),
        Part::Gate(layer) => (layer, "ffn_gate"),
        Part::Up(layer) => (layer, "ffn_up"),
        Part::Down(layer) => (layer, "ffn_down"),
    };
    format!("blk.{layer}.{name}")
}

fn safetensors(part: Part) -> String {
    let (layer, name) = match part {
        Part::Embedding => return "model.embed_tokens".into(),
        Part::OutputNorm => return "model.norm".into(),
        Part::Output => return "lm_head".into(),
        Part::RopeFactors => return "rope_freqs".into(),
        Part::AttentionNorm(layer) => (layer, "input_layernorm"),
        Part::Query(layer) => (layer, "self_attn.q_proj"),
        Part::Key(layer) => (layer, "self_attn.k_proj"),
        Part::Value(layer) => (layer, "self_attn.v_proj"),
        Part::AttentionOutput(layer) => (layer, "self_attn.o_proj"),
        Part::QueryNorm(layer) => (layer, "self_attn.q_norm"),
        Part::KeyNorm(layer) => (layer, "self_attn.k_norm"),
        Part::FeedForwardNorm(layer) => (layer, "post_attention_layernorm"),
        Part::Gate(layer) => (layer, "mlp.gate_proj"),
        Part::Up(layer) => (layer, "mlp.up_proj"),
        Part::Down(layer) => (layer, "mlp.down_proj"),
    };
    format!("model.layers.{layer}.{name}")
}
