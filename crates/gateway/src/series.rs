//! The page of metrics: requests that wait for an endpoint, and what API keys have used.

use std::fmt::Write as _;

use crate::proxy::{KeyReport, QueueSample};

/// A metric with all its series.
struct Metric<'a> {
    name: &'a str,
    kind: &'static str,
    help: &'static str,
    series: Vec<(Vec<(&'a str, &'a str)>, u64)>,
}

/// Writes the page in Prometheus' format.
pub(crate) fn page(queue: &[QueueSample], keys: &[KeyReport], unauthorized: u64) -> String {
    let mut page = String::new();
    let mut names: Vec<&str> = queue.iter().map(|sample| sample.name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let help = if name.ends_with("_bytes") {
            "Bytes of requests that wait for the first endpoint"
        } else {
            "Requests that wait for the first endpoint"
        };
        let series = queue.iter().filter(|sample| sample.name == name).map(|sample| {
            let labels = sample.labels.iter().map(|(label, text)| (*label, text.as_str()));
            (labels.collect(), sample.value as u64)
        });
        Metric { name, kind: "gauge", help, series: series.collect() }.write(&mut page);
    }
    let of = |value: fn(&KeyReport) -> u64| {
        keys.iter().filter(|key| key.problem.is_none()).map(move |key| (own_labels(key), value(key)))
    };
    let kinds = |kind: &'static str, value: fn(&KeyReport) -> u64| {
        of(value).map(move |(mut labels, value)| {
            labels.push(("kind", kind));
            (labels, value)
        })
    };
    let refused = keys.iter().filter(|key| key.problem.is_some());
    for metric in [
        Metric {
            name: "longboat_gateway_api_key_requests_total",
            kind: "counter",
            help: "Requests with an API key that its limits allowed",
            series: of(|key| key.usage.requests).collect(),
        },
        Metric {
            name: "longboat_gateway_api_key_refused_requests_total",
            kind: "counter",
            help: "Requests with an API key that its limits refused",
            series: of(|key| key.usage.refused).collect(),
        },
        Metric {
            name: "longboat_gateway_api_key_concurrent_requests",
            kind: "gauge",
            help: "Requests with an API key that run",
            series: of(|key| key.usage.concurrent_requests).collect(),
        },
        Metric {
            name: "longboat_gateway_api_key_tokens_total",
            kind: "counter",
            help: "Tokens of requests with an API key, as engines report them",
            series: kinds("prompt", |key| key.usage.prompt_tokens)
                .chain(kinds("completion", |key| key.usage.completion_tokens))
                .collect(),
        },
        Metric {
            name: "longboat_gateway_api_key_invalid",
            kind: "gauge",
            help: "1 for a Secret with an API key that cannot be used",
            series: refused.map(|key| (own_labels(key), 1)).collect(),
        },
        Metric {
            name: "longboat_gateway_unauthorized_requests_total",
            kind: "counter",
            help: "Requests without a valid API key",
            series: vec![(Vec::new(), unauthorized)],
        },
    ] {
        metric.write(&mut page);
    }
    page
}

fn own_labels(key: &KeyReport) -> Vec<(&str, &str)> {
    vec![("namespace", &key.namespace), ("api_key", &key.name)]
}

// === impl Metric ===

impl Metric<'_> {
    fn write(&self, page: &mut String) {
        let Self { name, kind, help, series } = self;
        if series.is_empty() {
            return;
        }
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in series {
            let labels: Vec<_> =
                labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(page, "{name}{labels} {value}");
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_clients_choose_are_escaped() {
        let labels = vec![("inference_pool", "p".to_owned()), ("model_name", "a\"\n\\".to_owned())];
        let queue = [QueueSample { name: "queue_size", labels, value: 2 }];
        let page = page(&queue, &[], 3);
        assert_eq!(
            page,
            "# HELP queue_size Requests that wait for the first endpoint\n# TYPE queue_size gauge\n\
             queue_size{inference_pool=\"p\",model_name=\"a\\\"\\n\\\\\"} 2\n\
             # HELP longboat_gateway_unauthorized_requests_total Requests without a valid API key\n\
             # TYPE longboat_gateway_unauthorized_requests_total counter\n\
             longboat_gateway_unauthorized_requests_total 3\n"
        );
    }
}
