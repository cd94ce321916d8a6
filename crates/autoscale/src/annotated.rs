//! Values that annotations of an autoscaler give to metrics, to try what happens.

use std::collections::BTreeMap;

use crate::{Labels, Sample};

/// The beginning of an annotation that gives a metric its value: `longboat.dev/metric.NAME`.
pub const METRIC_ANNOTATION_PREFIX: &str = "longboat.dev/metric.";

/// Returns the metrics to which annotations give a value, by name, or a sentence about an annotation that is no number.
pub fn annotated_metrics(
    annotations: &BTreeMap<String, String>,
) -> impl Iterator<Item = (&str, Result<Sample, String>)> {
    annotations.iter().filter_map(|(key, text)| {
        let name = key.strip_prefix(METRIC_ANNOTATION_PREFIX)?;
        let value = text.trim().parse().ok().filter(|value: &f64| value.is_finite());
        let sample = value.map(|value| Sample { name: name.to_owned(), labels: Labels::new(), value });
        Some((name, sample.ok_or_else(|| format!("annotation {key} is {text:?}, which is no number"))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_gives_a_metric_its_value_or_is_named() {
        let annotations = [
            ("longboat.dev/metric.bad", "x"),
            ("longboat.dev/metric.endless", "inf"),
            ("longboat.dev/metric.queue", " 7"),
            ("other", "1"),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let found: Vec<_> = annotated_metrics(&annotations)
            .map(|(name, sample)| (name, sample.map(|sample| (sample.name, sample.value))))
            .collect();
        let refused = |name: &str, text: &str| {
            Err(format!("annotation longboat.dev/metric.{name} is {text:?}, which is no number"))
        };
        assert_eq!(
            found,
            [
                ("bad", refused("bad", "x")),
                ("endless", refused("endless", "inf")),
                ("queue", Ok(("queue".to_owned(), 7.0))),
            ]
        );
    }
}
