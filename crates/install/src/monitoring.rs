//! What the Prometheus Operator needs to scrape and to watch an installation: monitors and alerts.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Values, metadata::metadata, names::CONTROLLER_METRICS};

const API_VERSION: &str = "monitoring.coreos.com/v1";

/// The token with which Prometheus shows who it is. Its account needs the right to `get` `/metrics`
/// (`deploy/rbac/metrics-reader.yaml`).
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The alerts, as a rule file of Prometheus.
const RULES: &str = include_str!("../../../deploy/monitoring/rules.yaml");

/// The content of a rule file.
#[derive(Deserialize)]
struct Rules {
    groups: Value,
}

/// Returns the monitors and the alerts.
///
/// # Errors
///
/// The rules do not parse, which is a mistake in this build.
pub(crate) fn objects(namespace: &str, values: &Values) -> Result<Vec<Value>, serde_saphyr::Error> {
    let rules: Rules = serde_saphyr::from_str(RULES)?;
    let object = |kind: &str, name: &str, spec: Value| {
        let mut metadata = metadata(name, namespace);
        for (key, value) in &values.monitoring.labels {
            metadata["labels"][key] = value.as_str().into();
        }
        json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
    };
    let mut all = Vec::new();
    if values.metrics.enabled {
        all.push(object("ServiceMonitor", CONTROLLER_METRICS, controller(values)));
    }
    all.push(object("ServiceMonitor", "longboat-pickers", pickers(values)));
    all.push(object("ServiceMonitor", "longboat-picker", shared_picker()));
    all.push(object("PodMonitor", "longboat-engines", engines(values)));
    all.push(object("PrometheusRule", "longboat", json!({"groups": rules.groups})));
    Ok(all)
}

fn controller(values: &Values) -> Value {
    // Some series have a label `namespace` of their own, which says where a service is.
    let mut endpoint = json!({"port": "metrics", "honorLabels": true});
    if values.metrics.secure {
        endpoint["scheme"] = "https".into();
        // The controller's certificate is its own.
        endpoint["tlsConfig"] = json!({"insecureSkipVerify": true});
        endpoint["bearerTokenFile"] = TOKEN_FILE.into();
    }
    json!({"selector": {"matchLabels": {"app.kubernetes.io/name": "longboat"}}, "endpoints": [endpoint]})
}

fn pickers(values: &Values) -> Value {
    json!({
        "namespaceSelector": namespaces(values),
        "selector": {"matchLabels": {
            "app.kubernetes.io/part-of": "llminferenceservice",
            "app.kubernetes.io/component": "llminferenceservice-router-scheduler",
        }},
        "endpoints": [{
            "port": "metrics",
            "bearerTokenFile": TOKEN_FILE,
            "relabelings": [service_name("service")],
        }],
    })
}

/// The picker that pools share, if there is one.
fn shared_picker() -> Value {
    json!({
        "selector": {"matchLabels": {
            "app.kubernetes.io/name": "longboat",
            "app.kubernetes.io/component": "picker",
        }},
        // Each series says itself for which service it is.
        "endpoints": [{"port": "monitoring", "honorLabels": true, "bearerTokenFile": TOKEN_FILE}],
    })
}

fn engines(values: &Values) -> Value {
    // The ports of model servers have no names. In a pod with a routing sidecar, the sidecar passes requests for metrics on, so
    // that scraping both would count each request twice.
    let mut endpoint = json!({
        "relabelings": [
            {"action": "keep", "sourceLabels": ["__meta_kubernetes_pod_container_name"], "regex": "main"},
            {"action": "keep", "sourceLabels": ["__meta_kubernetes_pod_container_port_number"], "regex": "8000|8001"},
            service_name("pod"),
        ],
    });
    let ingress = values.platform.settings.get("ingress");
    if ingress.and_then(|ingress| ingress.get("enableLLMInferenceServiceTLS")) == Some(&Value::Bool(true)) {
        endpoint["scheme"] = "https".into();
        endpoint["tlsConfig"] = json!({"insecureSkipVerify": true});
    }
    json!({
        "namespaceSelector": namespaces(values),
        "selector": {"matchLabels": {
            "app.kubernetes.io/part-of": "llminferenceservice",
            "kserve.io/component": "workload",
        }},
        "podMetricsEndpoints": [endpoint],
    })
}

/// The label by which alerts and dashboards group pods: the name of the LLMInferenceService.
fn service_name(object: &str) -> Value {
    let label = format!("__meta_kubernetes_{object}_label_app_kubernetes_io_name");
    json!({"sourceLabels": [label], "targetLabel": "service_name"})
}

fn namespaces(values: &Values) -> Value {
    let mut selector = Map::new();
    if values.watch_namespaces.is_empty() {
        selector.insert("any".to_owned(), true.into());
    } else {
        selector.insert("matchNames".to_owned(), json!(values.watch_namespaces));
    }
    Value::Object(selector)
}
