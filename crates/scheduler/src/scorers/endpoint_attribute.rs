//! `endpoint-attribute-scorer` (alpha): scores by the attribute's position in a range.

use crate::{
    attribute::{self, Attribute},
    numbers::Range,
    prelude::*,
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    attribute_key: String,
    producer: Option<String>,
    algorithm: Algorithm,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Algorithm {
    #[serde(rename = "type")]
    kind: String,
    normalization: Normalization,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Normalization {
    fixed_range: Option<Range>,
    adaptive_range: Option<NoParameters>,
}

struct EndpointAttribute {
    attribute: Attribute,
    lower_is_better: bool,
    /// The configured range. Without it, the range of the candidates' values is used.
    fixed: Option<Range>,
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let lower_is_better = match raw.algorithm.kind.as_str() {
        "linear_lower_is_better" => true,
        "linear_higher_is_better" => false,
        other => {
            let expected = "linear_lower_is_better or linear_higher_is_better";
            return Err(
                parameters.invalid("algorithm.type", format!("expected {expected}, found \"{other}\""))
            );
        }
    };
    let Normalization { fixed_range: fixed, adaptive_range } = raw.algorithm.normalization;
    if fixed.is_some() && adaptive_range.is_some() {
        let message = "set either fixedRange or adaptiveRange, not both";
        return Err(parameters.invalid("algorithm.normalization", message));
    }
    if let Some(Range { min, max }) = fixed {
        let message = format!("expected min below max, found {min} and {max}");
        parameters.require(min < max, "algorithm.normalization.fixedRange", message)?;
    }
    let attribute = attribute::read(parameters, "attributeKey", raw.attribute_key, raw.producer.as_deref())?;
    Ok(Plugin::scorer(EndpointAttribute { attribute, lower_is_better, fixed }))
}

impl Scorer for EndpointAttribute {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let value = |candidate: &Candidate| self.attribute.of(context.metrics(*candidate));
        let range = self.fixed.unwrap_or_else(|| Range::of(candidates.iter().filter_map(value)));
        for (score, candidate) in scores.iter_mut().zip(candidates) {
            let Some(value) = value(candidate) else { continue };
            *score = if range.width() > 0.0 {
                let position = range.position(value).clamp(0.0, 1.0);
                if self.lower_is_better { 1.0 - position } else { position }
            } else {
                1.0
            };
        }
    }
}
