//! Series whose values others keep: requests that wait for an endpoint, and what API keys have used.

use std::fmt::Error;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use crate::keys::KeyReport;

/// The values of the moment.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) queue: Vec<QueueSample>,
    pub(crate) keys: Vec<KeyReport>,
    /// Requests without a valid key.
    pub(crate) unauthorized: u64,
}

/// A series of a metric about waiting requests.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSample {
    /// Name of the metric.
    pub name: &'static str,
    /// Its labels.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: usize,
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

/// A metric with all its series.
struct Metric<'a> {
    /// Without the suffix of counters.
    name: &'a str,
    kind: MetricType,
    help: &'static str,
    series: Vec<(Labels<'a>, u64)>,
}

// === impl Series ===

impl Series {
    fn queue_metrics(&self) -> impl Iterator<Item = Metric<'_>> {
        let mut names: Vec<&str> = self.queue.iter().map(|sample| sample.name).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| {
            let help = if name.ends_with("_bytes") {
                "Bytes of requests that wait for the first endpoint"
            } else {
                "Requests that wait for the first endpoint"
            };
            let series = self.queue.iter().filter(|sample| sample.name == name).map(|sample| {
                let labels = sample.labels.iter().map(|(label, text)| (*label, text.as_str()));
                (labels.collect(), sample.value as u64)
            });
            Metric { name, kind: MetricType::Gauge, help, series: series.collect() }
        })
    }

    fn key_metrics(&self) -> [Metric<'_>; 6] {
        let of = |value: fn(&KeyReport) -> u64| {
            let usable = self.keys.iter().filter(|key| key.problem.is_none());
            usable.map(move |key| (own_labels(key), value(key)))
        };
        let kinds = |kind: &'static str, value: fn(&KeyReport) -> u64| {
            of(value).map(move |(mut labels, value)| {
                labels.push(("kind", kind));
                (labels, value)
            })
        };
        let refused = self.keys.iter().filter(|key| key.problem.is_some());
        let counter = |name, help, series| Metric { name, kind: MetricType::Counter, help, series };
        let gauge = |name, help, series| Metric { name, kind: MetricType::Gauge, help, series };
        let prompts = kinds("prompt", |key| key.usage.prompt_tokens);
        let tokens = prompts.chain(kinds("completion", |key| key.usage.completion_tokens));
        [
            counter(
                "longboat_gateway_api_key_requests",
                "Requests with an API key that its limits allowed",
                of(|key| key.usage.requests).collect(),
            ),
            counter(
                "longboat_gateway_api_key_refused_requests",
                "Requests with an API key that its limits refused",
                of(|key| key.usage.refused).collect(),
            ),
            gauge(
                "longboat_gateway_api_key_concurrent_requests",
                "Requests with an API key that run",
                of(|key| key.usage.concurrent_requests).collect(),
            ),
            counter(
                "longboat_gateway_api_key_tokens",
                "Tokens of requests with an API key, as engines report them",
                tokens.collect(),
            ),
            gauge(
                "longboat_gateway_api_key_invalid",
                "1 for a Secret with an API key that cannot be used",
                refused.map(|key| (own_labels(key), 1)).collect(),
            ),
            counter(
                "longboat_gateway_unauthorized_requests",
                "Requests without a valid API key",
                vec![(Vec::new(), self.unauthorized)],
            ),
        ]
    }
}

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.queue_metrics().chain(self.key_metrics()).try_for_each(|metric| metric.encode(&mut encoder))
    }
}

fn own_labels(key: &KeyReport) -> Labels<'_> {
    vec![("namespace", &key.namespace), ("api_key", &key.name)]
}

// === impl Metric ===

impl Metric<'_> {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        if self.series.is_empty() {
            return Ok(());
        }
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, self.kind)?;
        for (labels, value) in &self.series {
            // A set of no labels would be written as empty braces.
            if labels.is_empty() {
                self.encode_value(&mut metric, *value)?;
            } else {
                self.encode_value(&mut metric.encode_family(labels)?, *value)?;
            }
        }
        Ok(())
    }

    fn encode_value(&self, encoder: &mut MetricEncoder<'_>, value: u64) -> Result<(), Error> {
        match self.kind {
            MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            _ => encoder.encode_gauge(&value),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    #[test]
    fn labels_that_clients_choose_are_escaped() {
        let labels = vec![("inference_pool", "p".to_owned()), ("model_name", "a\"\n\\".to_owned())];
        let queue = vec![QueueSample { name: "queue_size", labels, value: 2 }];
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Series { queue, keys: Vec::new(), unauthorized: 3 }));
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        assert_eq!(
            page,
            "# HELP queue_size Requests that wait for the first endpoint\n# TYPE queue_size gauge\n\
             queue_size{inference_pool=\"p\",model_name=\"a\\\"\\n\\\\\"} 2\n\
             # HELP longboat_gateway_unauthorized_requests Requests without a valid API key\n\
             # TYPE longboat_gateway_unauthorized_requests counter\n\
             longboat_gateway_unauthorized_requests_total 3\n# EOF\n"
        );
    }
}
