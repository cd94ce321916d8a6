//! The fields of the section `flowControl`, and its values that have several forms.

use longboat_quantity::{Quantity, duration};
use serde::Deserialize;
use serde_json::Value;

use crate::{config::EndpointPickerConfig, error::ConfigError, numbers::millis, parameters::Parameters};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Section {
    pub(super) max_bytes: Option<Value>,
    pub(super) max_requests: Option<Value>,
    #[serde(rename = "defaultRequestTTL")]
    pub(super) default_request_ttl: Option<Value>,
    #[serde(rename = "noEndpointRequestTTL")]
    pub(super) no_endpoint_request_ttl: Option<Value>,
    pub(super) default_priority_band: Option<Band>,
    pub(super) default_negative_priority_band: Option<Band>,
    pub(super) priority_bands: Option<Vec<Band>>,
    pub(super) usage_limit_policy_plugin_ref: Option<String>,
    pub(super) saturation_detector: Option<DetectorReference>,
    pub(super) enable_eviction: Option<bool>,
}

/// The plugin that measures the saturation. An absent or empty name means the default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct DetectorReference {
    pub(super) plugin_ref: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Band {
    pub(super) priority: Option<i32>,
    pub(super) max_bytes: Option<Value>,
    pub(super) max_requests: Option<Value>,
    pub(super) fairness_policy_ref: Option<String>,
    pub(super) ordering_policy_ref: Option<String>,
    #[serde(rename = "defaultRequestTTL")]
    pub(super) default_request_ttl: Option<Value>,
    #[serde(rename = "noEndpointRequestTTL")]
    pub(super) no_endpoint_request_ttl: Option<Value>,
}

/// How long a request may wait, in milliseconds. `None` means forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeToLive {
    /// While the pool has endpoints.
    pub usual_ms: Option<u64>,
    /// While the pool has no endpoints.
    pub no_endpoint_ms: Option<u64>,
}

impl Default for TimeToLive {
    fn default() -> Self {
        Self { usual_ms: Some(60_000), no_endpoint_ms: Some(60_000) }
    }
}

impl TimeToLive {
    /// Reads the two fields below a path. A missing field keeps the value of the level above, unless `defaultRequestTTL` is set,
    /// which counts for both.
    pub(super) fn read(
        self,
        path: &str,
        usual: Option<&Value>,
        no_endpoint: Option<&Value>,
    ) -> Result<Self, ConfigError> {
        let usual = time(&format!("{path}defaultRequestTTL"), usual)?;
        let no_endpoint = time(&format!("{path}noEndpointRequestTTL"), no_endpoint)?;
        // Zero means forever.
        let limit =
            |configured: Option<u64>, inherited| configured.map_or(inherited, |ms| (ms > 0).then_some(ms));
        Ok(Self {
            usual_ms: limit(usual, self.usual_ms),
            no_endpoint_ms: limit(no_endpoint.or(usual), self.no_endpoint_ms),
        })
    }

    /// How long a request may wait now.
    pub(super) fn now(self, has_endpoints: bool) -> Option<u64> {
        if has_endpoints { self.usual_ms } else { self.no_endpoint_ms }
    }
}

/// Returns the type and the parameters of a plugin. The check of references makes sure that the type is right.
pub(super) fn part<'c>(
    config: &'c EndpointPickerConfig,
    name: Option<&'c str>,
    default: &'c str,
) -> (&'c str, Parameters<'c>) {
    let name = name.filter(|name| !name.is_empty()).unwrap_or(default);
    match config.plugin(name) {
        Some(plugin) => (&plugin.plugin_type, Parameters::of(plugin)),
        None => (name, Parameters::undeclared(name)),
    }
}

/// An error at this path of the section.
pub(super) fn wrong(path: &str, message: impl std::fmt::Display) -> ConfigError {
    let path = format!("flowControl.{path}");
    ConfigError::Shape { message: format!("{path}: {message}"), path }
}

/// Reads a duration in milliseconds.
fn time(path: &str, value: Option<&Value>) -> Result<Option<u64>, ConfigError> {
    read(path, value, "a duration such as 60s, or 0s for no limit", |value| {
        duration::parse(value.as_str()?).ok().map(millis)
    })
}

/// Reads a number, or a quantity such as `1G`. A missing value and 0 mean that there is no limit.
pub(super) fn count(path: &str, value: Option<&Value>) -> Result<Option<u64>, ConfigError> {
    let number = read(path, value, "a whole number, or a quantity such as 1G", |value| match value {
        Value::String(text) => u64::try_from(Quantity::parse(text)?.whole()).ok(),
        value => value.as_u64(),
    })?;
    Ok(number.filter(|number| *number > 0))
}

fn read(
    path: &str,
    value: Option<&Value>,
    expected: &str,
    parse: impl FnOnce(&Value) -> Option<u64>,
) -> Result<Option<u64>, ConfigError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    parse(value).map(Some).ok_or_else(|| wrong(path, format!("expected {expected}, found {value}")))
}
