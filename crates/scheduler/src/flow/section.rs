//! The fields of the section `flowControl`, and its values that have several forms.

use serde::Deserialize;
use serde_json::Value;

use crate::{config::PluginReference, error::ConfigError, quantity};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Section {
    pub(super) max_bytes: Option<Value>,
    pub(super) max_requests: Option<Value>,
    #[serde(rename = "defaultRequestTTL")]
    pub(super) default_request_ttl: Option<Value>,
    pub(super) default_priority_band: Option<Band>,
    pub(super) default_negative_priority_band: Option<Band>,
    pub(super) priority_bands: Option<Vec<Band>>,
    pub(super) usage_limit_policy_plugin_ref: Option<String>,
    pub(super) saturation_detector: Option<PluginReference>,
    pub(super) enable_eviction: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Band {
    pub(super) priority: Option<i32>,
    pub(super) max_bytes: Option<Value>,
    pub(super) max_requests: Option<Value>,
    pub(super) fairness_policy_ref: Option<String>,
    pub(super) ordering_policy_ref: Option<String>,
}

/// An error at this path of the section.
pub(super) fn wrong(path: &str, message: impl std::fmt::Display) -> ConfigError {
    let path = format!("flowControl.{path}");
    ConfigError::Shape { message: format!("{path}: {message}"), path }
}

/// Reads how long requests may wait, in milliseconds. `None` if there is no limit.
pub(super) fn time_to_live(value: Option<&Value>) -> Result<Option<u64>, ConfigError> {
    let time = match value {
        None | Some(Value::Null) => return Ok(Some(60_000)),
        Some(Value::String(text)) => longboat_duration::parse(text).ok(),
        Some(_) => None,
    };
    let found = value.map(ToString::to_string).unwrap_or_default();
    let time = time.ok_or_else(|| {
        wrong(
            "defaultRequestTTL",
            format!("expected a duration such as 60s, or 0s for no limit, found {found}"),
        )
    })?;
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Ok((ms > 0).then_some(ms))
}

/// Reads a number, or a quantity such as `1G`. A missing value and 0 mean that there is no limit.
pub(super) fn count(path: &str, value: Option<&Value>) -> Result<Option<u64>, ConfigError> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => quantity::parse(text).ok().and_then(|number| u64::try_from(number).ok()),
        Some(value) => value.as_u64(),
    };
    let found = value.map(ToString::to_string).unwrap_or_default();
    let number = number.ok_or_else(|| {
        wrong(path, format!("expected a whole number, or a quantity such as 1G, found {found}"))
    })?;
    Ok((number > 0).then_some(number))
}
