//! Attributes of endpoints: numbers that the configuration takes from metrics pages (`customMetrics` of an engine).

use crate::{endpoint::Metrics, error::ConfigError, parameters::Parameters};

/// The name of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute(String);

/// The only plugin that produces attributes.
const EXTRACTOR: &str = "core-metrics-extractor";

/// Reads the two parameters that name an attribute. `field` is the name of the first parameter.
pub(crate) fn read(
    parameters: &Parameters<'_>,
    field: &str,
    name: String,
    producer: Option<&str>,
) -> Result<Attribute, ConfigError> {
    if name.is_empty() {
        return Err(parameters.invalid(format!("{field} is required")));
    }
    match producer {
        None if name.contains('/') => {
            Err(parameters.invalid(format!("{field} \"{name}\" has a slash: set its producer too")))
        }
        None | Some(EXTRACTOR) => Ok(Attribute(name)),
        Some(other) => Err(parameters
            .invalid(format!("producer \"{other}\" is not supported: use the customMetrics of {EXTRACTOR}"))),
    }
}

impl Attribute {
    /// Returns the attribute's value. Returns `None` if the endpoint does not have the attribute.
    pub(crate) fn of(&self, metrics: &Metrics) -> Option<f64> {
        metrics.custom.get(&self.0).copied()
    }
}
