//! The pickers that Deployments describe, and what keeps some of them in pods of their own. Pure functions.

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::shared_picker::SERVICE;
use longboat_key::{Key, Namespace};

use crate::{
    Args,
    host::{PickerSpec, is_picker},
    needs_pod,
};

/// A Deployment whose mark says that its picker is to be shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkedDeployment {
    pub(super) deployment: Key,
    pub(super) uid: String,
    /// The Service that gateways call.
    pub(super) service: String,
    /// The labels of the Deployment that its slice has too: they name the service.
    pub(super) labels: Vec<(String, String)>,
    /// Whether it has pods that pick.
    pub(super) has_pods: bool,
    /// The picker, or what it needs of a pod.
    pub(super) picker: Result<Picker, String>,
}

/// A picker that can be shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picker {
    pub(super) spec: PickerSpec,
    pub(super) port: PortOptions,
}

/// What the port of a pool depends on. A picker with other options gets another port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortOptions {
    pub(super) tls: bool,
    pub(super) max_receive: String,
    pub(super) max_send: String,
    pub(super) bytes: usize,
}

// === impl MarkedDeployment ===

impl MarkedDeployment {
    /// `max_bytes` is the most memory for the requests of the pool, and so the longest request; flags of the picker may ask for less.
    /// `decisions` is how many decisions are kept where the flags say nothing. `collector` is where this process sends traces.
    pub(super) fn of(
        deployment: &Deployment,
        max_bytes: usize,
        decisions: u16,
        collector: Option<&str>,
    ) -> Option<Self> {
        let metadata = &deployment.metadata;
        let service = metadata.annotations.as_ref()?.get(SERVICE)?.clone();
        let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
        let labels = metadata.labels.iter().flatten();
        Some(Self {
            deployment: Key::of_metadata(metadata),
            uid: metadata.uid.clone().unwrap_or_default(),
            service,
            labels: labels
                .filter(|(key, _)| key.starts_with("app.kubernetes.io/"))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            has_pods: available.is_some_and(|available| available > 0),
            picker: picker(deployment, max_bytes, decisions, collector),
        })
    }

    /// A label that names the service.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

fn picker(
    deployment: &Deployment,
    max_bytes: usize,
    decisions: u16,
    collector: Option<&str>,
) -> Result<Picker, String> {
    let namespace = Namespace::of(&deployment.metadata);
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let pod = pod.ok_or("a pod template")?;
    if let Some(other) = pod.containers.iter().find(|container| !is_picker(container)) {
        return Err(format!("the container {} beside it", other.name));
    }
    let variable = |name: &str| {
        let mut variables = pod.containers.iter().flat_map(|container| container.env.iter().flatten());
        variables.find(|variable| variable.name == name)
    };
    if variable("LONGBOAT_WRITE_TRACE").is_some() {
        return Err("the file of its trace".to_owned());
    }
    let unknown = "flags that its pod alone knows, or of another program than Longboat's picker";
    let mut spec = PickerSpec::of_template(namespace, pod).ok_or(unknown)?;
    let args = Args::parse(&spec.arguments).map_err(|error| error.to_string())?;
    if !args.client_ca_file.is_empty() {
        return Err("the file with the CA of its callers".to_owned());
    }
    if args.health_checking {
        return Err("health checks on the port of ext_proc".to_owned());
    }
    if let Some(need) = needs_pod(&args) {
        return Err(need.to_owned());
    }
    if let Some(need) = spec.needs_collector(collector) {
        return Err(need.to_owned());
    }
    if args.decisions.is_none() {
        spec.arguments.push(format!("--decisions={decisions}"));
    }
    let bytes = args.max_request_bytes_in_flight.min(max_bytes);
    spec.arguments.push(format!("--max-request-bytes-in-flight={bytes}"));
    spec.arguments.push(format!("--max-request-body-size={}", args.max_request_body_size.min(bytes)));
    let port = PortOptions {
        tls: args.secure_serving,
        max_receive: args.grpc_max_recv_msg_size,
        max_send: args.grpc_max_send_msg_size,
        bytes,
    };
    Ok(Picker { spec, port })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn marked(more: &Value) -> MarkedDeployment {
        let mut main =
            json!({"name": "main", "command": ["/app/epp", "--pool-name", "pool", "--pool-namespace", "ns"]});
        main.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let deployment = serde_json::from_value(json!({
            "metadata": {
                "name": "one", "namespace": "ns", "uid": "u",
                "labels": {"app.kubernetes.io/name": "svc", "longboat.dev/picker": "shared"},
                "annotations": {"longboat.dev/picker-service": "epp"},
            },
            "spec": {"selector": {}, "template": {"spec": {"containers": [main]}}},
        }))
        .unwrap();
        MarkedDeployment::of(&deployment, 1 << 20, 16, Some("http://ours:4317")).unwrap()
    }

    #[test]
    fn a_pool_has_the_limits_of_the_shared_picker_and_smaller_ones_of_its_own() {
        let args = |flags: &[&str]| {
            let marked = marked(&json!({"args": flags}));
            Args::parse(marked.picker.unwrap().spec.arguments).unwrap()
        };
        let usual = args(&[]);
        let limits = |args: &Args| (args.max_request_bytes_in_flight, args.max_request_body_size);
        assert_eq!(limits(&usual), (1 << 20, 1 << 20));
        assert_eq!(usual.decisions, Some(16));
        let own =
            args(&["--max-request-bytes-in-flight=1Ki", "--max-request-body-size=512", "--decisions=2"]);
        assert_eq!((limits(&own), own.decisions), ((1024, 512), Some(2)));
    }

    #[test]
    fn a_picker_that_needs_its_pod_says_why() {
        let trace = json!({"env": [{"name": "LONGBOAT_WRITE_TRACE", "value": "/x"}]});
        let traced = |collector: &str, exporter: &str, flag: &str| {
            let variable = |name: &str, value: &str| json!({"name": name, "value": value});
            let variables = [
                variable("OTEL_EXPORTER_OTLP_ENDPOINT", collector),
                variable("OTEL_TRACES_EXPORTER", exporter),
            ];
            json!({"env": variables, "args": [flag]})
        };
        for (more, need) in [
            (json!({"args": ["--config-file=/x"]}), "the file of its configuration"),
            (json!({"args": ["--config-text=nonsense"]}), "a configuration that loads"),
            (trace, "the file of its trace"),
            (json!({"args": ["--client-ca-file=/x"]}), "the file with the CA of its callers"),
            (json!({"args": ["--health-checking"]}), "health checks on the port of ext_proc"),
            (json!({"command": ["sh"]}), "the container main beside it"),
            (traced("http://theirs:4317", "otlp", "--tracing=true"), "the collector of its traces"),
        ] {
            assert_eq!(marked(&more).picker, Err(need.to_owned()), "{more}");
        }
        for shared in [
            traced("http://ours:4317", "otlp", "--tracing=true"),
            traced("http://theirs:4317", "none", "--tracing=true"),
            traced("http://theirs:4317", "otlp", "--tracing=false"),
        ] {
            assert!(marked(&shared).picker.is_ok(), "{shared}");
        }
        let foreign = marked(&json!({"args": ["--pool-namespace=theirs"]}));
        assert!(foreign.picker.is_err(), "nobody picks for the pools of another namespace");
    }
}
