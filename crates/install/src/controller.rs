//! The controller's Deployment, its Services and its PodDisruptionBudget.

use longboat_admission::configurations::{CONTROL_PLANE, service};
use longboat_key::Namespace;
use serde_json::{Value, json};

use crate::{
    Values,
    metadata::{label, metadata},
    names::{
        CERTIFICATE_FOLDER, CERTIFICATE_SECRET, COMMAND, CONTAINER, CONTROLLER, CONTROLLER_METRICS,
        HEALTH_PORT, METRICS_PORT, USER, WEBHOOK_PORT,
    },
};

/// The volume with the certificate of cert-manager.
const CERTIFICATE_VOLUME: &str = "cert";

/// Returns the Deployment. Its pods comply with the profile "restricted" of Pod Security.
pub(crate) fn deployment(namespace: &str, values: &Values) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": labelled(CONTROLLER, namespace),
        "spec": {
            "replicas": values.replicas,
            "selector": {"matchLabels": selector()},
            // Without a controller, the API servers refuse services, because nobody answers the webhooks.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": {
                        CONTROL_PLANE.0: CONTROL_PLANE.1,
                        "app.kubernetes.io/name": "longboat",
                        "app.kubernetes.io/component": "controller",
                    },
                    "annotations": {"kubectl.kubernetes.io/default-container": CONTAINER},
                },
                "spec": pod(values),
            },
        },
    });
    place_pods(&mut object, values);
    object
}

/// Sets where the pods of a Deployment run, and how their image is pulled.
pub(crate) fn place_pods(deployment: &mut Value, values: &Values) {
    let pod = &mut deployment["spec"]["template"]["spec"];
    if !values.image_pull_secrets.is_empty() {
        let secrets = values.image_pull_secrets.iter().map(|name| json!({"name": name}));
        pod["imagePullSecrets"] = secrets.collect();
    }
    if !values.node_selector.is_empty() {
        pod["nodeSelector"] = json!(values.node_selector);
    }
    if !values.tolerations.is_empty() {
        pod["tolerations"] = json!(values.tolerations);
    }
}

fn pod(values: &Values) -> Value {
    let mut pod = json!({
        "serviceAccountName": CONTROLLER,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        // If there are several nodes, the controllers are spread over them, so that a failing node stops only one.
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector()},
        }],
        "terminationGracePeriodSeconds": 30,
        "containers": [container(values)],
    });
    if values.cert_manager {
        pod["volumes"] = json!([{"name": CERTIFICATE_VOLUME, "secret": {"secretName": CERTIFICATE_SECRET}}]);
    }
    pod
}

fn container(values: &Values) -> Value {
    let probe = |path: &str, more: Value| {
        let mut probe = json!({"httpGet": {"path": path, "port": "health"}});
        if let (Some(probe), Value::Object(more)) = (probe.as_object_mut(), more) {
            probe.extend(more);
        }
        probe
    };
    let mut ports = vec![
        json!({"name": "webhook-server", "containerPort": WEBHOOK_PORT, "protocol": "TCP"}),
        json!({"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}),
    ];
    if values.metrics.enabled {
        ports.push(json!({"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}));
    }
    let mut container = json!({
        "name": CONTAINER,
        "image": values.image,
        "imagePullPolicy": values.image_pull_policy,
        "command": [COMMAND],
        "args": arguments(values),
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
            {"name": "LLM_INFERENCE_SERVICE_CONFIG_PREFIX", "value": values.preset_prefix},
            {"name": "LONGBOAT_LOG", "value": values.log_level},
        ],
        "ports": ports,
        "livenessProbe": probe("/healthz", json!({"periodSeconds": 20, "failureThreshold": 3})),
        "readinessProbe": probe("/readyz", json!({"periodSeconds": 5, "failureThreshold": 3})),
        "resources": values.resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    });
    if values.cert_manager {
        container["volumeMounts"] =
            json!([{"name": CERTIFICATE_VOLUME, "mountPath": CERTIFICATE_FOLDER, "readOnly": true}]);
    }
    container
}

fn arguments(values: &Values) -> Vec<String> {
    let mut arguments = vec!["--leader-elect".to_owned()];
    if values.metrics.enabled {
        arguments.push(format!("--metrics-bind-address=:{METRICS_PORT}"));
        arguments.push(format!("--metrics-secure={}", values.metrics.secure));
    } else {
        arguments.push("--metrics-bind-address=0".to_owned());
    }
    if values.cert_manager {
        arguments.push(format!("--webhook-cert-dir={CERTIFICATE_FOLDER}"));
    }
    arguments.extend(values.watch_namespaces.iter().map(|namespace| format!("--namespace={namespace}")));
    let open = values.secret_namespaces.iter();
    arguments.extend(open.map(|namespace| format!("--secret-namespace={namespace}")));
    if values.gateway.enabled {
        arguments.push(gateway_argument(values));
    }
    arguments.extend(values.extra_args.iter().cloned());
    arguments
}

/// The argument with which the controller serves Gateways.
pub(crate) fn gateway_argument(values: &Values) -> String {
    format!("--gateway-image={}", values.image)
}

/// The Service in front of the webhooks.
pub(crate) fn webhook_service(namespace: &str) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(service(Namespace(namespace)))?;
    label(&mut object);
    Ok(object)
}

/// The Service in front of the metrics.
pub(crate) fn metrics_service(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": labelled(CONTROLLER_METRICS, namespace),
        "spec": {
            "ports": [{"name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": "metrics"}],
            "selector": selector(),
        },
    })
}

/// At most one of several controllers may be evicted at a time.
pub(crate) fn disruption_budget(namespace: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": labelled(CONTROLLER, namespace),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector()}},
    })
}

fn labelled(name: &str, namespace: &str) -> Value {
    let mut metadata = metadata(name, namespace);
    metadata["labels"][CONTROL_PLANE.0] = CONTROL_PLANE.1.into();
    metadata
}

fn selector() -> Value {
    json!({CONTROL_PLANE.0: CONTROL_PLANE.1})
}
