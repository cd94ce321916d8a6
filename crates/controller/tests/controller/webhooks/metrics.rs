//! The metrics of a busy controller have every series that the dashboards and the alerts use.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use longboat_testkit::TestCluster;
use serde_json::{Value, json};

use super::{Replica, convert_by, world};
use crate::setup::{condition, full, install_presets, service, services};

/// Names of series, with all labels of each.
type Series = BTreeMap<String, BTreeSet<String>>;

/// The metrics in a query, each with its labels. Labels that apply to a whole expression are in `grouped`, texts outside of
/// selectors in `texts`: `label_replace` gets the name of the label that it makes as a text.
#[derive(Debug, Default, PartialEq)]
struct Query {
    metrics: Vec<(String, BTreeSet<String>)>,
    grouped: BTreeSet<String>,
    texts: BTreeSet<String>,
}

/// Starts a controller that the API server calls and that has reconciled a service.
async fn busy(world: &TestCluster) -> Replica {
    let replica = Replica::called(world).await;
    convert_by(world, &replica, "llminferenceservices.serving.kserve.io").await;
    install_presets(world).await;
    world.apply(service("llm", full())).await;
    condition(world, "llm", "Ready", |_| true).await;
    replica
}

fn series(page: &str) -> Series {
    let mut all = Series::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels = all.entry(name.to_owned()).or_default();
        labels.extend(rest.strip_prefix('{').into_iter().flat_map(|rest| matchers(rest).0));
    }
    all
}

/// Returns the names of labels up to the closing bracket, and the position of the bracket.
fn matchers(text: &str) -> (Vec<String>, usize) {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if quoted => drop(characters.next()),
            '"' => {
                quoted = !quoted;
                if quoted {
                    names.push(std::mem::take(&mut name));
                }
            }
            '}' if !quoted => return (names, at + 1),
            _ if quoted => {}
            character if character.is_ascii_alphanumeric() || character == '_' => name.push(character),
            _ => {}
        }
    }
    panic!("no end of the labels: {text}");
}

/// Parses the metrics and labels in a PromQL expression.
fn read(expression: &str) -> Query {
    const WORDS: [&str; 9] =
        ["and", "or", "unless", "offset", "bool", "group_left", "group_right", "inf", "nan"];
    const GROUPS: [&str; 4] = ["by", "without", "on", "ignoring"];
    // In `sum by (…) (…)`, the word before `by` is not a metric.
    let grouping = |rest: &str| {
        GROUPS[..2]
            .iter()
            .any(|word| rest.strip_prefix(word).is_some_and(|after| after.trim_start().starts_with('(')))
    };
    let mut query = Query::default();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first == '[' {
            rest = &rest[rest.find(']').unwrap() + 1..];
        } else if first == '{' {
            let (names, end) = matchers(&rest[1..]);
            query.metrics.last_mut().unwrap().1.extend(names);
            rest = &rest[1 + end..];
        } else if first == '"' {
            let (text, after) = rest[1..].split_once('"').unwrap();
            query.texts.insert(text.to_owned());
            rest = after;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let (word, after) = rest.split_at(rest.find(|c| !part(c)).unwrap_or(rest.len()));
            rest = after.trim_start();
            if GROUPS.contains(&word) || (rest.starts_with('(') && WORDS.contains(&word)) {
                let (labels, after) = rest[1..].split_at(rest[1..].find(')').unwrap());
                query.grouped.extend(labels.split(',').map(|label| label.trim().to_owned()));
                rest = &after[1..];
            } else if !rest.starts_with('(') && !WORDS.contains(&word) && !grouping(rest) {
                query.metrics.push((word.to_owned(), BTreeSet::new()));
            }
        } else if first.is_ascii_digit() {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    query
}

/// Collects every expression of a dashboard, including those of its variables.
fn expressions(dashboard: &Value, all: &mut Vec<String>) {
    match dashboard {
        Value::Object(fields) => {
            all.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            if fields.get("type") == Some(&json!("query")) {
                let query = fields["query"].as_str().unwrap();
                let (metric, label) = query
                    .strip_prefix("label_values(")
                    .and_then(|inner| inner.strip_suffix(')')?.split_once(", "))
                    .unwrap();
                all.push(format!("count by ({label}) ({metric})"));
            }
            fields.values().for_each(|value| expressions(value, all));
        }
        Value::Array(items) => items.iter().for_each(|value| expressions(value, all)),
        _ => {}
    }
}

/// Returns the queries of dashboards and alerts, each with its file.
fn queries() -> Vec<(PathBuf, String)> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let dashboards = std::fs::read_dir(deploy.join("dashboards")).unwrap().map(|entry| entry.unwrap().path());
    let mut all = Vec::new();
    for path in dashboards.chain([deploy.join("monitoring/rules.yaml")]) {
        // A dashboard is JSON, which is YAML.
        let content: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut found = Vec::new();
        expressions(&content, &mut found);
        all.extend(found.into_iter().map(|query| (path.clone(), query)));
    }
    all
}

/// Whether another part serves this metric. `tests/picker/monitoring.rs` and `tests/local/shared_picker.rs` evaluate queries about those.
fn is_of_another_part(metric: &str) -> bool {
    let others = ["llm_d_epp_", "longboat_shared_picker_", "vllm:", "envoy_"];
    metric == "up" || others.iter().any(|prefix| metric.starts_with(prefix))
}

/// Returns the metrics and labels of a query that do not exist.
fn missing(query: &Query, served: &Series) -> Vec<String> {
    let mut missing = Vec::new();
    for (metric, labels) in &query.metrics {
        match served.get(metric) {
            None => missing.push(metric.clone()),
            Some(known) => {
                let grouped = query.grouped.difference(&query.texts);
                let unknown = labels.iter().chain(grouped).filter(|label| !known.contains(*label));
                missing.extend(unknown.map(|label| format!("{metric}{{{label}}}")));
            }
        }
    }
    missing
}

#[test]
fn queries_are_read_as_prometheus_reads_them() {
    let query = read(
        r#"histogram_quantile(0.99, sum by (phase, le) (rate(a_bucket{x=~"by (y)", z!="}"}[$__rate_interval]))) * 1e3 / on(q) b offset 5m"#,
    );
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(query.grouped, names(&["le", "phase", "q"]));
    assert_eq!(query.metrics, [("a_bucket".to_owned(), names(&["x", "z"])), ("b".to_owned(), names(&[]))]);
    let served = series("# TYPE a_bucket x\na_bucket{x=\"1\",le=\"{\"} 3\na_bucket{q=\"\\\"\"} 1\n");
    assert_eq!(served, Series::from([("a_bucket".to_owned(), names(&["le", "q", "x"]))]));
    let unserved: BTreeSet<String> = missing(&query, &served).into_iter().collect();
    assert_eq!(unserved, names(&["a_bucket{phase}", "a_bucket{z}", "b"]));
    let made = read(r#"a_bucket{q="1"} and on (new) label_replace(a_bucket, "new", "$1", "q", "(.+)")"#);
    assert_eq!(missing(&made, &served), Vec::<String>::new());
}

#[tokio::test]
async fn dashboards_and_alerts_ask_for_what_a_running_controller_serves() {
    let world = world().await;
    let replica = busy(&world).await;
    let served = series(&replica.metrics().await);
    let mut count = 0;
    for (path, expression) in queries() {
        let query = read(&expression);
        if query.metrics.iter().all(|(metric, _)| is_of_another_part(metric)) {
            continue;
        }
        count += 1;
        let missing = missing(&query, &served);
        assert!(missing.is_empty(), "{}: {expression}: not served: {missing:?}", path.display());
    }
    assert!(count > 30, "{count} queries");
    replica.stop().await;
}

#[tokio::test]
async fn passes_writes_and_reviews_are_counted_and_a_service_that_is_gone_is_not_told_of() {
    let world = world().await;
    let replica = busy(&world).await;
    let page = replica.metrics().await;
    let value = |page: &str, series: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {page}")).parse().unwrap()
    };
    for series in [
        "controller_runtime_reconcile_total{controller=\"llminferenceservice\",result=\"success\"}",
        "controller_runtime_reconcile_time_seconds_count{controller=\"llminferenceserviceconfig\"}",
        "workqueue_adds_total{name=\"llminferenceservice\",controller=\"llminferenceservice\"}",
        "longboat_reconcile_phase_seconds_count{phase=\"compose\"}",
        "longboat_writes_total{resource=\"deployments\",verb=\"create\"}",
        "longboat_writes_total{resource=\"llminferenceservices/status\",verb=\"patch\"}",
        "controller_runtime_webhook_requests_total{webhook=\"/mutate-serving-kserve-io-v1alpha2-llminferenceservice\",code=\"200\"}",
        "rest_client_requests_total{code=\"201\",host=\"\",method=\"POST\"}",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
    ] {
        assert!(value(&page, series) > 0.0, "{series}");
    }
    let workers = "controller_runtime_max_concurrent_reconciles{controller=\"llminferenceservice\"} 8\n";
    assert!(page.contains(workers), "{page}");
    assert!(value(&page, "process_start_time_seconds") > 1.7e9, "seconds since 1970");
    assert!(page.contains("service_name=\"llm\""));

    services(world.client()).delete("llm", &kube::api::DeleteParams::default()).await.unwrap();
    world
        .eventually("the service is not told of any more", async || {
            let page = replica.metrics().await;
            !page.contains("service_name=\"llm\"")
        })
        .await;
    replica.stop().await;
}
