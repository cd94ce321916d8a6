//! `adapter_config.json`, as PEFT writes it.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::{LoadError, weights::files};

/// The settings of an adapter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Settings {
    pub(super) rank: usize,
    /// The factor of the products.
    pub(super) scale: f32,
}

#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file has them")]
struct Fields {
    #[serde(default)]
    peft_type: Option<String>,
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    lora_bias: bool,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    modules_to_save: Value,
    #[serde(default)]
    rank_pattern: Value,
    #[serde(default)]
    alpha_pattern: Value,
    #[serde(default)]
    target_parameters: Value,
    #[serde(default)]
    trainable_token_indices: Value,
}

impl Settings {
    pub(super) fn open(path: &Path) -> Result<Self, LoadError> {
        Self::read(path, files::json(path)?)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the model computes in f32"
    )]
    fn read(path: &Path, settings: Value) -> Result<Self, LoadError> {
        let fields: Fields = serde_json::from_value(settings)
            .map_err(|error| LoadError::malformed(path, error.to_string()))?;
        if let Some(kind) = fields.peft_type.as_deref().filter(|kind| *kind != "LORA") {
            return Err(LoadError::unsupported(path, format!("`peft_type` {kind} (LORA is)")));
        }
        let empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        let unsupported = [
            ("`use_dora`", fields.use_dora),
            ("`fan_in_fan_out`", fields.fan_in_fan_out),
            ("`lora_bias`", fields.lora_bias),
            ("a `bias` other than none", fields.bias.as_deref().is_some_and(|bias| bias != "none")),
            ("`modules_to_save`", !empty(&fields.modules_to_save)),
            ("`rank_pattern`", !empty(&fields.rank_pattern)),
            ("`alpha_pattern`", !empty(&fields.alpha_pattern)),
            ("`target_parameters`", !empty(&fields.target_parameters)),
            ("`trainable_token_indices`", !empty(&fields.trainable_token_indices)),
        ];
        if let Some((what, _)) = unsupported.into_iter().find(|(_, is_set)| *is_set) {
            return Err(LoadError::unsupported(path, what));
        }
        if fields.r == 0 {
            return Err(LoadError::malformed(path, "`r` is 0, expected at least 1"));
        }
        if !fields.lora_alpha.is_finite() {
            return Err(LoadError::malformed(path, "`lora_alpha` is not a number"));
        }
        let rank = fields.r as f64;
        let scale = fields.lora_alpha / if fields.use_rslora { rank.sqrt() } else { rank };
        Ok(Self { rank: fields.r, scale: scale as f32 })
    }
}

/// Parses settings, for the fuzz target.
pub(crate) fn probe(bytes: &[u8]) {
    if let Ok(settings) = serde_json::from_slice(bytes) {
        let _ = Settings::read(Path::new(""), settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(usize, f32), String> {
        match Settings::read(Path::new(""), serde_json::from_str(text).unwrap()) {
            Ok(Settings { rank, scale }) => Ok((rank, scale)),
            Err(LoadError::Malformed { reason, .. } | LoadError::Unsupported { what: reason, .. }) => {
                Err(reason)
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_scale_is_alpha_by_rank_or_by_its_root() {
        assert_eq!(
            read(r#"{"r": 16, "lora_alpha": 8, "bias": "none", "modules_to_save": null}"#),
            Ok((16, 0.5))
        );
        assert_eq!(
            read(r#"{"r": 16, "lora_alpha": 8, "use_rslora": true, "rank_pattern": {}}"#),
            Ok((16, 2.0))
        );
    }

    #[test]
    fn unsupported_settings_are_refused_by_name() {
        for (field, name) in [
            (r#""use_dora": true"#, "`use_dora`"),
            (r#""bias": "all""#, "a `bias` other than none"),
            (r#""modules_to_save": ["lm_head"]"#, "`modules_to_save`"),
            (r#""alpha_pattern": {"q_proj": 1}"#, "`alpha_pattern`"),
            (r#""peft_type": "IA3""#, "`peft_type` IA3 (LORA is)"),
        ] {
            let text = format!(r#"{{"r": 8, "lora_alpha": 8, {field}}}"#);
            assert_eq!(read(&text), Err(name.to_owned()));
        }
        assert_eq!(read(r#"{"r": 0, "lora_alpha": 8}"#), Err("`r` is 0, expected at least 1".into()));
        assert!(read(r#"{"lora_alpha": 8}"#).is_err_and(|reason| reason.contains("`r`")));
    }
}
