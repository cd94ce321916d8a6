//! `token-producer`: the source of the tokens of prompts. Without a model, text is used instead of tokens.

use std::time::Duration;

use serde_json::Value;

use crate::{estimates::MediaEstimates, prelude::*, requirements::TokenizerSettings};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    backend: Option<String>,
    model_name: Option<String>,
    vllm: Option<Vllm>,
    estimate: Option<MediaEstimates>,
    uds_tokenizer_config: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Vllm {
    url: Option<String>,
    timeout: Option<String>,
    mm_timeout: Option<String>,
}

const URL: &str = "http://localhost:8000";
const TIMEOUT: Duration = Duration::from_secs(5);
const MULTIMODAL_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    parameters.require(
        raw.uds_tokenizer_config.is_none(),
        "udsTokenizerConfig",
        "a tokenizer behind a Unix socket is not supported; serve it over HTTP \
             (`vllm launch render`, or the simulator) and set vllm.url to its address",
    )?;
    let model = raw.model_name.unwrap_or_default();
    let (by_vllm, by_estimate) = match raw.backend.as_deref() {
        None | Some("") => (false, false),
        Some("vllm") => (true, false),
        Some("estimate") => (false, true),
        Some(other) => {
            return Err(
                parameters.invalid("backend", format!("expected vllm or estimate, found \"{other}\""))
            );
        }
    };
    let asks = by_vllm || raw.vllm.is_some() || !model.is_empty();
    parameters.require(
        !(asks && (by_estimate || raw.estimate.is_some())),
        "",
        "set either estimate, or modelName and vllm, not both",
    )?;
    if !asks {
        builder.requirements.estimates.get_or_insert(raw.estimate.unwrap_or_default());
        return Ok(Plugin::default());
    }
    parameters.require(
        !model.is_empty(),
        "modelName",
        "a tokenizer serves a model by its name; set modelName, or remove vllm",
    )?;
    parameters.require(
        builder.requirements.tokenizer.is_none(),
        "",
        "another plugin already uses a tokenizer; only one is allowed",
    )?;
    let vllm = raw.vllm.unwrap_or_default();
    let url = vllm.url.filter(|url| !url.is_empty()).unwrap_or_else(|| URL.to_owned());
    parameters.require(
        url.starts_with("http://") || url.starts_with("https://"),
        "vllm.url",
        format!("expected http://HOST:PORT or https://HOST:PORT, found \"{url}\""),
    )?;
    let duration = |field: &str, text: Option<String>, usual: Duration| match text {
        None => Ok(usual),
        Some(text) => parameters.duration(field, &text),
    };
    builder.requirements.tokenizer = Some(TokenizerSettings {
        url,
        model,
        timeout: duration("vllm.timeout", vllm.timeout, TIMEOUT)?,
        multimodal_timeout: duration("vllm.mmTimeout", vllm.mm_timeout, MULTIMODAL_TIMEOUT)?,
    });
    Ok(Plugin::default())
}
