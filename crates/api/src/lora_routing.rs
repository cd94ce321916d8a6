//! How the managed route of a service matches the names of its LoRA adapters.

use std::{collections::BTreeMap, fmt};

use crate::annotations::LORA_MODEL_ROUTING_STRATEGY;

/// How a route matches a header that names the base model or an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoRaRoutingStrategy {
    /// One exact match for each name.
    #[default]
    Exact,
    /// One regular expression for all names.
    Regex,
}

/// A value that names no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unsupported loraModelRoutingStrategy {value:?} from {place}: supported values are \"exact\" and \"regex\""
)]
pub struct UnsupportedStrategy {
    /// The value, shortened.
    pub value: String,
    place: Place,
}

/// Where a strategy is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Annotation,
    Setting,
}

impl LoRaRoutingStrategy {
    /// Returns the strategy in the annotations of a spec, or `None` if they leave it to the platform.
    ///
    /// # Errors
    ///
    /// If the annotation names no strategy.
    pub fn of_annotations(
        annotations: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, UnsupportedStrategy> {
        let value = annotations.get(LORA_MODEL_ROUTING_STRATEGY).map_or("", |value| value.trim());
        parse(value, Place::Annotation)
    }

    /// Returns the strategy that the settings of the platform name.
    ///
    /// # Errors
    ///
    /// If they name another one.
    pub fn of_setting(value: &str) -> Result<Self, UnsupportedStrategy> {
        Ok(parse(value, Place::Setting)?.unwrap_or_default())
    }
}

fn parse(value: &str, place: Place) -> Result<Option<LoRaRoutingStrategy>, UnsupportedStrategy> {
    match value.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "exact" => Ok(Some(LoRaRoutingStrategy::Exact)),
        "regex" => Ok(Some(LoRaRoutingStrategy::Regex)),
        _ => Err(UnsupportedStrategy { value: value.chars().take(64).collect(), place }),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation => write!(f, "annotation {LORA_MODEL_ROUTING_STRATEGY}"),
            Self::Setting => f.write_str("the inferenceservice-config ConfigMap"),
        }
    }
}
