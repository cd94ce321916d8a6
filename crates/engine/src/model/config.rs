//! The shape of a model, from GGUF metadata or from `config.json`.

use std::path::Path;

use serde_json::Value as Json;

use super::rope::{Pairs, Scaling};
use crate::{
    LoadError,
    weights::{Gguf, Safetensors, Value, Weights},
};

/// Limits of the dimensions. They bound all allocations that are made before a tensor has been read.
const MAX_DIMENSION: usize = 1 << 16;
const MAX_LAYERS: usize = 1 << 10;

/// The shape of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) architecture: String,
    /// The length of a token's vector.
    pub(crate) width: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_width: usize,
    pub(crate) feed_forward: usize,
    /// The number of tokens in the vocabulary.
    pub(crate) vocabulary: usize,
    /// The most tokens of a prompt with its answer.
    pub(crate) context: usize,
    pub(crate) rope_base: f64,
    pub(crate) rope_pairs: Pairs,
    pub(crate) rope_scaling: Scaling,
    pub(crate) epsilon: f32,
    /// Whether the queries and keys of each head are normalized.
    pub(crate) normalises_heads: bool,
}

// === impl Config ===

impl Config {
    /// Reads the shape of a model. Refuses models that the engine does not support.
    pub(crate) fn of(weights: &Weights) -> Result<Self, LoadError> {
        let config = match weights {
            Weights::Gguf(file) => Self::of_gguf(file),
            Weights::Safetensors(files) => Self::of_json(files),
        }?;
        config.check().map_err(|reason| LoadError::malformed(weights.path(), reason))?;
        Ok(config)
    }

    fn of_gguf(file: &Gguf) -> Result<Self, LoadError> {
        let path = file.path();
        let text = |key: &str| file.get(key).and_then(Value::text);
        let architecture =
            text("general.architecture").ok_or_else(|| missing(path, "general.architecture"))?.to_owned();
        let normalises_heads = normalises_heads(path, &architecture)?;
        let rope_pairs = if architecture == "llama" { Pairs::Neighbours } else { Pairs::Halves };
        let key = |name: &str| format!("{architecture}.{name}");
        let optional = |name: &str| file.get(&key(name)).and_then(Value::size);
        let size = |name: &str| optional(name).ok_or_else(|| missing(path, &key(name)));
        if optional("expert_count").is_some_and(|experts| experts > 0) {
            return Err(LoadError::unsupported(path, "a mixture of experts"));
        }
        if let Some(scaling) = text(&key("rope.scaling.type")).filter(|scaling| *scaling != "none") {
            return Err(LoadError::unsupported(path, format!("the context extension `{scaling}`")));
        }
        let number = |name: &str| file.get(&key(name)).and_then(Value::number);
        let tokens = file.get("tokenizer.ggml.tokens").and_then(Value::list);
        let (width, heads) = (size("embedding_length")?, size("attention.head_count")?);
        Ok(Self {
            width,
            layers: size("block_count")?,
            heads,
            kv_heads: optional("attention.head_count_kv").unwrap_or(heads),
            head_width: optional("attention.key_length")
                .unwrap_or_else(|| width.checked_div(heads).unwrap_or(0)),
            feed_forward: size("feed_forward_length")?,
            vocabulary: tokens.map(<[Value]>::len).ok_or_else(|| missing(path, "tokenizer.ggml.tokens"))?,
            context: size("context_length")?,
            rope_base: number("rope.freq_base").unwrap_or(10_000.0),
            rope_pairs,
            // A Llama 3 file has its factors in a tensor.
            rope_scaling: Scaling::None,
            epsilon: epsilon(number("attention.layer_norm_rms_epsilon").unwrap_or(1e-5)),
            normalises_heads,
            architecture,
        })
    }

    fn of_json(files: &Safetensors) -> Result<Self, LoadError> {
        let path = files.path();
        let config = files.config();
        let architecture = config["model_type"].as_str().ok_or_else(|| missing(path, "model_type"))?;
        let normalises_heads = normalises_heads(path, architecture)?;
        if config["quantization_config"].is_object() {
            return Err(LoadError::unsupported(path, "a `quantization_config`"));
        }
        if config["use_sliding_window"].as_bool() == Some(true) {
            return Err(LoadError::unsupported(path, "`use_sliding_window`"));
        }
        let activation = config["hidden_act"].as_str().unwrap_or("silu");
        if activation != "silu" {
            return Err(LoadError::unsupported(path, format!("the activation `{activation}`")));
        }
        let optional = |name: &str| match &config[name] {
            Json::Null => Ok(None),
            value => {
                let size = value.as_u64().and_then(|value| usize::try_from(value).ok());
                size.map(Some).ok_or_else(|| missing(path, name))
            }
        };
        let size = |name: &str| optional(name)?.ok_or_else(|| missing(path, name));
        let number = |name: &str, value: &Json, default: f64| match value {
            Json::Null => Ok(default),
            value => value.as_f64().ok_or_else(|| missing(path, name)),
        };
        let (width, heads) = (size("hidden_size")?, size("num_attention_heads")?);
        Ok(Self {
            architecture: architecture.to_owned(),
            width,
            layers: size("num_hidden_layers")?,
            heads,
            kv_heads: optional("num_key_value_heads")?.unwrap_or(heads),
            head_width: optional("head_dim")?.unwrap_or_else(|| width.checked_div(heads).unwrap_or(0)),
            feed_forward: size("intermediate_size")?,
            vocabulary: size("vocab_size")?,
            context: size("max_position_embeddings")?,
            rope_base: number("rope_theta", rope(config, "rope_theta"), 10_000.0)?,
            rope_pairs: Pairs::Halves,
            rope_scaling: scaling(path, config)?,
            epsilon: epsilon(number("rms_norm_eps", &config["rms_norm_eps"], 1e-6)?),
            normalises_heads,
        })
    }

    fn check(&self) -> Result<(), String> {
        for (name, value, most) in [
            ("the width", self.width, MAX_DIMENSION),
            ("the number of layers", self.layers, MAX_LAYERS),
            ("the number of heads", self.heads, MAX_LAYERS),
            ("the number of KV heads", self.kv_heads, MAX_LAYERS),
            ("the width of a head", self.head_width, MAX_DIMENSION),
            ("the width of the feed-forward layer", self.feed_forward, MAX_DIMENSION * 4),
            ("the vocabulary", self.vocabulary, 1 << 22),
            ("the context", self.context, 1 << 24),
        ] {
            if value == 0 || value > most {
                return Err(format!("{name} is {value}, expected 1 to {most}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) || !self.head_width.is_multiple_of(2) {
            return Err(format!(
                "{} attention heads of width {} cannot share {} KV heads",
                self.heads, self.head_width, self.kv_heads
            ));
        }
        if !self.rope_base.is_finite() || self.rope_base <= 0.0 {
            return Err(format!(
                "the base of the rotary embedding is {}, expected more than 0",
                self.rope_base
            ));
        }
        if !self.epsilon.is_finite() || self.epsilon < 0.0 {
            return Err(format!("the epsilon of the norms is {}, expected 0 or more", self.epsilon));
        }
        // A block of weights has 32 numbers.
        for (name, value) in [
            ("the width", self.width),
            ("the width of all heads", self.heads * self.head_width),
            ("the width of the feed-forward layer", self.feed_forward),
        ] {
            if !value.is_multiple_of(32) {
                return Err(format!("{name} is {value}, which is not a multiple of 32"));
            }
        }
        Ok(())
    }

    /// The numbers per token in the KV cache: the keys and values of all layers.
    pub(crate) fn cached_numbers(&self) -> usize {
        2 * self.layers * self.kv_heads * self.head_width
    }
}

fn missing(path: &Path, key: &str) -> LoadError {
    LoadError::malformed(path, format!("`{key}` is missing or has the wrong type"))
}

/// Whether the heads of an architecture are normalised.
fn normalises_heads(path: &Path, architecture: &str) -> Result<bool, LoadError> {
    match architecture {
        "llama" | "qwen2" => Ok(false),
        "qwen3" => Ok(true),
        other => Err(LoadError::unsupported(
            path,
            format!("the architecture `{other}` (llama, qwen2 and qwen3 are)"),
        )),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the model computes in f32")]
fn epsilon(value: f64) -> f32 {
    value as f32
}

/// Returns a setting of the rotary embedding. Newer files have these settings in an object of their own.
fn rope<'a>(config: &'a Json, name: &str) -> &'a Json {
    match &config["rope_parameters"][name] {
        Json::Null => &config[name],
        value => value,
    }
}

fn scaling(path: &Path, config: &Json) -> Result<Scaling, LoadError> {
    let scaling = match &config["rope_scaling"] {
        Json::Null => &config["rope_parameters"],
        scaling => scaling,
    };
    if !scaling.is_null() && !scaling.is_object() {
        return Err(missing(path, "rope_scaling"));
    }
    let kind = scaling["rope_type"].as_str().or(scaling["type"].as_str()).unwrap_or("default");
    let number = |name: &str| {
        scaling[name]
            .as_f64()
            .filter(|value| *value > 0.0)
            .ok_or_else(|| missing(path, &format!("rope_scaling.{name}")))
    };
    match kind {
        "default" => Ok(Scaling::None),
        "llama3" => Ok(Scaling::Llama3 {
            factor: number("factor")?,
            low: number("low_freq_factor")?,
            high: number("high_freq_factor")?,
            context: number("original_max_position_embeddings")?,
        }),
        other => Err(LoadError::unsupported(path, format!("the context extension `{other}`"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Returns the error for a model with this setting.
    fn refusal(name: &str, value: Json) -> Option<String> {
        let mut config = json!({
            "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 64, "vocab_size": 256, "max_position_embeddings": 128,
        });
        config[name] = value;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let files = Safetensors::open(folder.path(), &[]).unwrap();
        let error = Config::of(&Weights::Safetensors(files)).map(drop).err()?.to_string();
        Some(error.rsplit_once("`: ").map_or(error.clone(), |(_, reason)| reason.to_owned()))
    }

    #[test]
    fn invalid_settings_are_refused() {
        assert_eq!(refusal("num_key_value_heads", json!(1)), None);
        for (name, value, reason) in [
            ("num_key_value_heads", json!("1"), "`num_key_value_heads` is missing or has the wrong type"),
            ("head_dim", json!(-1), "`head_dim` is missing or has the wrong type"),
            ("rope_theta", json!("NaN"), "`rope_theta` is missing or has the wrong type"),
            ("rope_theta", json!(0), "the base of the rotary embedding is 0, expected more than 0"),
            ("rms_norm_eps", json!(-1), "the epsilon of the norms is -1, expected 0 or more"),
            ("rope_scaling", json!("yarn"), "`rope_scaling` is missing or has the wrong type"),
            (
                "vocab_size",
                json!(1_000_000_000_000_u64),
                "the vocabulary is 1000000000000, expected 1 to 4194304",
            ),
        ] {
            let refusal = refusal(name, value).unwrap();
            assert!(refusal.ends_with(reason), "{name}: {refusal}");
        }
    }
}
