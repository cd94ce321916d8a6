//! Triggers that KEDA accepts in a ScaledObject, and then cannot evaluate.

use std::collections::BTreeMap;

use longboat_api::v1alpha2::KedaTrigger;

/// The types of triggers that KEDA 2 has.
pub const TRIGGER_TYPES: &[&str] = &[
    "activemq",
    "apache-kafka",
    "arangodb",
    "artemis-queue",
    "aws-cloudwatch",
    "aws-dynamodb",
    "aws-dynamodb-streams",
    "aws-kinesis-stream",
    "aws-sqs-queue",
    "azure-app-insights",
    "azure-blob",
    "azure-data-explorer",
    "azure-eventhub",
    "azure-log-analytics",
    "azure-monitor",
    "azure-pipelines",
    "azure-queue",
    "azure-servicebus",
    "beanstalkd",
    "cassandra",
    "couchdb",
    "cpu",
    "cron",
    "datadog",
    "dynatrace",
    "elasticsearch",
    "etcd",
    "external",
    "external-push",
    "forgejo-runner",
    "gcp-cloudtasks",
    "gcp-pubsub",
    "gcp-stackdriver",
    "gcp-storage",
    "github-runner",
    "graphite",
    "huawei-cloudeye",
    "ibmmq",
    "influxdb",
    "kafka",
    "kubernetes-workload",
    "liiklus",
    "loki",
    "memory",
    "metrics-api",
    "mongodb",
    "mssql",
    "mysql",
    "nats-jetstream",
    "new-relic",
    "nsq",
    "openstack-metric",
    "openstack-swift",
    "postgresql",
    "predictkube",
    "prometheus",
    "pulsar",
    "rabbitmq",
    "redis",
    "redis-cluster",
    "redis-cluster-streams",
    "redis-sentinel",
    "redis-sentinel-streams",
    "redis-streams",
    "selenium-grid",
    "solace-event-queue",
    "solarwinds",
    "solr",
    "splunk",
    "splunk-observability",
    "stan",
    "sumologic",
    "temporal",
];

/// Something in a trigger that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerMistake {
    /// The path of the field below the trigger.
    pub field: &'static str,
    /// What is wrong, and what is expected.
    pub message: String,
}

/// Returns why KEDA cannot evaluate a trigger. The settings of other types than `prometheus` are not checked.
pub fn trigger_mistakes(trigger: &KedaTrigger) -> Vec<TriggerMistake> {
    if !TRIGGER_TYPES.contains(&trigger.type_.as_str()) {
        let message = format!("is {:?}, which is no type of KEDA's triggers", trigger.type_);
        return vec![TriggerMistake { field: "type", message }];
    }
    if trigger.type_ != "prometheus" {
        return Vec::new();
    }
    let empty = BTreeMap::new();
    let metadata = trigger.metadata.as_ref().unwrap_or(&empty);
    let text = |key: &str| metadata.get(key).map(|text| text.trim());
    let mut all = Vec::new();
    let mut add = |field, message: String| all.push(TriggerMistake { field, message });
    match text("query") {
        None | Some("") => add(
            "metadata.query",
            "is empty: expected a PromQL query with one number as its result".to_owned(),
        ),
        Some(query) => {
            if let Some(problem) = unbalanced(query) {
                add("metadata.query", format!("is no PromQL: {problem}"));
            }
        }
    }
    if text("serverAddress").is_none_or(str::is_empty) {
        add(
            "metadata.serverAddress",
            "is empty: expected the address of Prometheus, such as http://prometheus:9090".to_owned(),
        );
    }
    if text("threshold").is_none() {
        add("metadata.threshold", "is missing: expected a number, such as \"5\"".to_owned());
    }
    for (key, field) in
        [("threshold", "metadata.threshold"), ("activationThreshold", "metadata.activationThreshold")]
    {
        if let Some(value) = text(key)
            && !value.parse::<f64>().is_ok_and(f64::is_finite)
        {
            add(field, format!("is {value:?}: expected a number, such as \"5\""));
        }
    }
    if !["", "AverageValue", "Value"].contains(&trigger.metric_type.as_str()) {
        add("metricType", format!("is {:?}: expected AverageValue or Value", trigger.metric_type));
    }
    all
}

/// Returns which bracket or quote of a query has no partner. The rest of the language is left to Prometheus.
fn unbalanced(query: &str) -> Option<String> {
    let mut open = Vec::new();
    let mut characters = query.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' | '\'' | '`' => {
                let mut is_closed = false;
                while let Some(inner) = characters.next() {
                    if inner == '\\' && character != '`' {
                        characters.next();
                    } else if inner == character {
                        is_closed = true;
                        break;
                    }
                }
                if !is_closed {
                    return Some(format!("the quote {character} is not closed"));
                }
            }
            '#' => {
                characters.by_ref().find(|next| *next == '\n');
            }
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(character) => {
                return Some(format!("{character} closes nothing"));
            }
            _ => {}
        }
    }
    open.pop().map(|missing| format!("{missing} is missing at the end"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_keda_cannot_evaluate_is_named_with_its_field() {
        let mistakes = |trigger: &Value| -> Vec<String> {
            let all = trigger_mistakes(&serde_json::from_value(trigger.clone()).unwrap());
            all.into_iter().map(|mistake| format!("{} {}", mistake.field, mistake.message)).collect()
        };
        let prometheus = |change: Value| {
            let mut metadata = json!({"serverAddress": "http://p", "query": "sum(rate(a{b=\"(\"}[2m])) # :)", "threshold": "5"});
            metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            json!({"type": "prometheus", "metadata": metadata})
        };
        for (trigger, expected) in [
            (json!({"type": "cron"}), vec![]),
            (prometheus(json!({})), vec![]),
            (prometheus(json!({"threshold": "1e2", "activationThreshold": "0.5"})), vec![]),
            (
                json!({"type": "promethues"}),
                vec!["type is \"promethues\", which is no type of KEDA's triggers"],
            ),
            (
                prometheus(json!({"threshold": "five"})),
                vec!["metadata.threshold is \"five\": expected a number, such as \"5\""],
            ),
            (
                json!({"type": "prometheus", "metricType": "Utilization", "metadata": {"query": " "}}),
                vec![
                    "metadata.query is empty: expected a PromQL query with one number as its result",
                    "metadata.serverAddress is empty: expected the address of Prometheus, such as http://prometheus:9090",
                    "metadata.threshold is missing: expected a number, such as \"5\"",
                    "metricType is \"Utilization\": expected AverageValue or Value",
                ],
            ),
            (
                prometheus(json!({"query": "sum(a"})),
                vec!["metadata.query is no PromQL: ) is missing at the end"],
            ),
            (prometheus(json!({"query": "sum(a]"})), vec!["metadata.query is no PromQL: ] closes nothing"]),
            (
                prometheus(json!({"query": "a{b=\"}"})),
                vec!["metadata.query is no PromQL: the quote \" is not closed"],
            ),
        ] {
            assert_eq!(mistakes(&trigger), expected, "{trigger}");
        }
    }
}
