//! Attributes of endpoints: numbers that the configuration takes from metrics pages (`customMetrics` of an engine).

use longboat_api::picker_plugins::METRICS_EXTRACTOR;

use crate::{endpoint::Metrics, error::ConfigError, parameters::Parameters};

/// The name of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute(String);

/// Reads the two parameters that name an attribute. `field` is the name of the first parameter.
pub(crate) fn read(
    parameters: &Parameters<'_>,
    field: &str,
    name: String,
    producer: Option<&str>,
) -> Result<Attribute, ConfigError> {
    parameters.require(!name.is_empty(), field, "it is required")?;
    match producer {
        None if name.contains('/') => {
            Err(parameters.invalid(field, format!("\"{name}\" has a slash: set its producer too")))
        }
        None | Some(METRICS_EXTRACTOR) => Ok(Attribute(name)),
        Some(other) => Err(parameters.invalid(
            "producer",
            format!("\"{other}\" is not supported: use the customMetrics of {METRICS_EXTRACTOR}"),
        )),
    }
}

impl Attribute {
    /// Returns the attribute's value. Returns `None` if the endpoint does not have the attribute.
    pub(crate) fn of(&self, metrics: &Metrics) -> Option<f64> {
        metrics.custom.get(&self.0).copied()
    }
}
