//! `endpoint-attribute-filter` (alpha): keeps endpoints whose attribute compares to a number in the configured way.

use crate::{
    attribute::{self, Attribute},
    prelude::*,
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    attribute: String,
    producer: Option<String>,
    on_missing: OnMissing,
    fallback_on_empty: bool,
    algorithm: Algorithm,
}

/// The treatment of endpoints without the attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
enum OnMissing {
    #[default]
    Pass,
    Fail,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Algorithm {
    #[serde(rename = "type")]
    kind: String,
    threshold: Option<Threshold>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Threshold {
    operator: Operator,
    #[serde(default)]
    value: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Operator {
    LessThan,
    LessThanOrEqual,
    GreaterThan,
    GreaterThanOrEqual,
    Equal,
    NotEqual,
}

struct EndpointAttribute {
    attribute: Attribute,
    on_missing: OnMissing,
    fallback_on_empty: bool,
    threshold: Threshold,
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let Algorithm { kind, threshold } = raw.algorithm;
    let message = format!("expected threshold, found \"{kind}\"");
    parameters.require(kind == "threshold", "algorithm.type", message)?;
    let threshold = threshold.ok_or_else(|| parameters.invalid("algorithm.threshold", "it is required"))?;
    let attribute = attribute::read(parameters, "attribute", raw.attribute, raw.producer.as_deref())?;
    Ok(Plugin::filter(EndpointAttribute {
        attribute,
        on_missing: raw.on_missing,
        fallback_on_empty: raw.fallback_on_empty,
        threshold,
    }))
}

impl Threshold {
    #[expect(clippy::float_cmp, reason = "that is what Equal and NotEqual ask for")]
    fn holds(self, value: f64) -> bool {
        match self.operator {
            Operator::LessThan => value < self.value,
            Operator::LessThanOrEqual => value <= self.value,
            Operator::GreaterThan => value > self.value,
            Operator::GreaterThanOrEqual => value >= self.value,
            Operator::Equal => value == self.value,
            Operator::NotEqual => value != self.value,
        }
    }
}

impl Filter for EndpointAttribute {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        let keep = |candidate: &Candidate| {
            let value = self.attribute.of(context.metrics(*candidate));
            value.map_or(self.on_missing == OnMissing::Pass, |value| self.threshold.holds(value))
        };
        let kept: Vec<_> = candidates.iter().copied().filter(keep).collect();
        if !kept.is_empty() || !self.fallback_on_empty {
            *candidates = kept;
        }
    }
}
