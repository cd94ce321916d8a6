//! Pods, and the pod templates of all workloads: defaults, additions of built-in admission plugins, deletion.

mod placement;
mod validate;
mod volumes;

use serde_json::{Value, json};

use self::validate::validate;
pub(super) use self::validate::{validate_spec, warnings};
use super::{Strategy, drop_empty, fill, names, quantity::Quantity};
use crate::Cause;

/// Pods.
#[derive(Debug)]
pub(crate) struct Pod;

impl Strategy for Pod {
    fn default(&self, value: &mut Value) {
        default(value);
    }

    fn prepare_create(&self, value: &mut Value) {
        prepare_create(value);
    }

    fn prepare_update(&self, value: &mut Value, _live: &Value) {
        tolerate_lost_nodes(&mut value["spec"]);
    }

    fn prepare_status(&self, value: &mut Value, live: &Value) {
        prepare_status(value, live);
    }

    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate(value, live)
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        let mut all = Vec::from_iter(names::host_warning(value, "the Pod's hostname"));
        all.extend(warnings(&value["spec"], "spec"));
        all
    }

    fn grace(&self, stored: &Value, asked: Option<i64>) -> i64 {
        grace(stored, asked)
    }

    fn shows_deleted(&self) -> bool {
        true
    }

    fn selectable(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn metadata_validations(&self) -> usize {
        4
    }
}

/// Fills in the defaults of a Pod.
fn default(value: &mut Value) {
    default_spec(&mut value["spec"], true);
    let spec = &mut value["spec"];
    fill(spec, "enableServiceLinks", true);
    for account in ["serviceAccountName", "serviceAccount"] {
        let other = if account == "serviceAccount" { "serviceAccountName" } else { "serviceAccount" };
        if let Some(name) = spec[other].as_str().filter(|n| !n.is_empty()).map(str::to_owned) {
            fill(spec, account, name);
        }
    }
    for containers in ["containers", "initContainers"] {
        for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
            requests_from_limits(container);
        }
    }
}

/// Sets the missing requests of a container to its limits.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else {
        return;
    };
    let requests = &mut container["resources"]["requests"];
    if requests.is_null() {
        *requests = json!({});
    }
    for (name, limit) in limits {
        fill(requests, &name, limit);
    }
}

/// Fills in the defaults of the spec of a Pod or of a template.
pub(super) fn default_spec(spec: &mut Value, pod: bool) {
    if !spec.is_object() {
        *spec = json!({});
    }
    drop_empty(
        spec,
        &["restartPolicy", "dnsPolicy", "schedulerName", "serviceAccountName", "serviceAccount"],
    );
    for toleration in spec.pointer_mut("/tolerations").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_empty(toleration, &["key", "operator", "value", "effect"]);
    }
    fill(spec, "restartPolicy", "Always");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "securityContext", json!({}));
    fill(spec, "schedulerName", "default-scheduler");
    if !pod {
        for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")]
        {
            if let Some(name) = spec[from].as_str().filter(|n| !n.is_empty()).map(str::to_owned) {
                fill(spec, to, name);
            }
        }
    }
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(container);
        }
    }
    for volume in spec.pointer_mut("/volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        default_volume(volume);
    }
    let host_network = spec["hostNetwork"] == true;
    if host_network {
        for container in spec.pointer_mut("/containers").and_then(Value::as_array_mut).into_iter().flatten() {
            for port in container.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten() {
                let number = port["containerPort"].clone();
                fill(port, "hostPort", number);
            }
        }
    }
    for constraint in
        spec.pointer_mut("/topologySpreadConstraints").and_then(Value::as_array_mut).into_iter().flatten()
    {
        drop_empty(constraint, &["matchLabelKeys"]);
    }
    drop_empty(
        spec,
        &[
            "volumes",
            "initContainers",
            "ephemeralContainers",
            "nodeSelector",
            "serviceAccountName",
            "serviceAccount",
            "nodeName",
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "imagePullSecrets",
            "hostname",
            "subdomain",
            "tolerations",
            "hostAliases",
            "priorityClassName",
            "readinessGates",
            "topologySpreadConstraints",
            "schedulingGates",
            "resourceClaims",
        ],
    );
}

fn default_container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    fill(container, "resources", json!({}));
    drop_empty(&mut container["resources"], &["limits", "requests", "claims"]);
    drop_empty(container, &["terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"]);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    fill(container, "imagePullPolicy", policy);
    for port in container.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_empty(port, &["name", "hostPort", "hostIP", "protocol"]);
        fill(port, "protocol", "TCP");
    }
    for variable in container.pointer_mut("/env").and_then(Value::as_array_mut).into_iter().flatten() {
        if variable["valueFrom"]["fieldRef"].is_object() {
            fill(&mut variable["valueFrom"]["fieldRef"], "apiVersion", "v1");
        }
        if variable["valueFrom"]["resourceFieldRef"].is_object() {
            fill(&mut variable["valueFrom"]["resourceFieldRef"], "divisor", "0");
        }
        drop_empty(variable, &["value"]);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[probe].is_object() {
            default_probe(&mut container[probe]);
        }
    }
    for hook in ["postStart", "preStop"] {
        if container["lifecycle"][hook]["httpGet"].is_object() {
            fill(&mut container["lifecycle"][hook]["httpGet"], "scheme", "HTTP");
            fill(&mut container["lifecycle"][hook]["httpGet"], "path", "/");
        }
    }
    for mount in container.pointer_mut("/volumeMounts").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_empty(mount, &["readOnly", "subPath", "subPathExpr"]);
    }
    drop_empty(
        container,
        &[
            "command",
            "args",
            "workingDir",
            "ports",
            "envFrom",
            "env",
            "volumeMounts",
            "volumeDevices",
            "stdin",
            "stdinOnce",
            "tty",
            "image",
        ],
    );
}

fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or_default();
    // an invalid image reference has no tag `latest` either
    let is_image = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let is_nonsense = !last.split([':', '@']).next().unwrap_or_default().chars().all(is_image);
    if last.contains('@') || is_nonsense {
        return "IfNotPresent";
    }
    match last.split_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}

fn default_probe(probe: &mut Value) {
    // zero means unset for these five fields
    drop_empty(
        probe,
        &["timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold", "initialDelaySeconds"],
    );
    fill(probe, "timeoutSeconds", 1);
    fill(probe, "periodSeconds", 10);
    fill(probe, "successThreshold", 1);
    fill(probe, "failureThreshold", 3);
    if probe["httpGet"].is_object() {
        drop_empty(&mut probe["httpGet"], &["path", "scheme", "host", "httpHeaders"]);
        fill(&mut probe["httpGet"], "path", "/");
        fill(&mut probe["httpGet"], "scheme", "HTTP");
    }
    if probe["grpc"].is_object() {
        fill(&mut probe["grpc"], "service", "");
    }
}

fn default_volume(volume: &mut Value) {
    const MODE: i32 = 0o644;
    let sources = ["configMap", "secret", "downwardAPI", "projected", "hostPath", "emptyDir"];
    let other =
        volume.as_object().is_some_and(|v| v.keys().any(|k| k != "name" && !sources.contains(&k.as_str())));
    let none = sources.iter().all(|s| volume[*s].is_null());
    if none && !other {
        volume["emptyDir"] = json!({});
    }
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if volume[source].is_object() {
            fill(&mut volume[source], "defaultMode", MODE);
        }
    }
    for item in volume.pointer_mut("/downwardAPI/items").and_then(Value::as_array_mut).into_iter().flatten() {
        if item["fieldRef"].is_object() {
            fill(&mut item["fieldRef"], "apiVersion", "v1");
        }
        if item["resourceFieldRef"].is_object() {
            fill(&mut item["resourceFieldRef"], "divisor", "0");
        }
    }
    for source in volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut).into_iter().flatten()
    {
        if source["serviceAccountToken"].is_object() {
            fill(&mut source["serviceAccountToken"], "expirationSeconds", 3600);
        }
        for item in
            source.pointer_mut("/downwardAPI/items").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if item["fieldRef"].is_object() {
                fill(&mut item["fieldRef"], "apiVersion", "v1");
            }
        }
    }
    if volume["hostPath"].is_object() {
        fill(&mut volume["hostPath"], "type", "");
    }
    if volume["emptyDir"].is_object() {
        drop_empty(&mut volume["emptyDir"], &["medium"]);
    }
    if volume["ephemeral"]["volumeClaimTemplate"]["spec"].is_object() {
        fill(&mut volume["ephemeral"]["volumeClaimTemplate"]["spec"], "volumeMode", "Filesystem");
    }
}

/// Adds what kube-apiserver's admission plugins add to a new pod, and sets its first status.
fn prepare_create(value: &mut Value) {
    let spec = &mut value["spec"];
    tolerate_lost_nodes(spec);
    fill(spec, "priority", 0);
    fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    let class = quality(spec);
    value["status"] = json!({"phase": "Pending", "qosClass": class});
}

/// Adds the default tolerations: a pod stays for five minutes on a node that is not ready or unreachable.
fn tolerate_lost_nodes(spec: &mut Value) {
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = spec["tolerations"].as_array().into_iter().flatten().any(|t| {
            (t["key"] == key || t["key"].as_str().unwrap_or_default().is_empty())
                && (t["effect"] == "NoExecute" || t["effect"].is_null())
        });
        if !tolerated
            && let Some(tolerations) = spec.pointer_mut("/tolerations").and_then(Value::as_array_mut)
        {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

/// Returns the quality-of-service class that follows from requests and limits.
pub(super) fn quality(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten());
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                container["resources"][kind][resource]
                    .as_str()
                    .and_then(Quantity::parse)
                    .map(Quantity::milli)
                    .filter(|m| *m > 0)
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|r| Some(r) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Restores everything that a resize cannot change: all but the resources of containers.
pub(super) fn prepare_resize(value: &mut Value, live: &Value) {
    let asked = std::mem::replace(value, live.clone());
    for list in ["containers", "initContainers"] {
        for container in value["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let same =
                asked["spec"][list].as_array().into_iter().flatten().find(|c| c["name"] == container["name"]);
            if let Some(same) = same {
                container["resources"] = same["resources"].clone();
            }
        }
    }
}

/// Restores what a status update cannot change.
fn prepare_status(value: &mut Value, live: &Value) {
    for key in ["deletionTimestamp", "ownerReferences"] {
        super::put(&mut value["metadata"], key, live["metadata"].get(key).cloned());
    }
    let class = live["status"]["qosClass"].clone();
    if class.is_string() && value["status"].is_object() {
        value["status"]["qosClass"] = class;
    }
    for condition in
        value.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        for time in ["lastProbeTime", "lastTransitionTime"] {
            if condition.get(time).is_none() {
                condition[time] = Value::Null;
            }
        }
    }
}

/// Returns the grace period in seconds. It is 0 if the pod never got a node or has ended.
fn grace(stored: &Value, asked: Option<i64>) -> i64 {
    let period = match asked {
        Some(asked) => asked,
        None => stored["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30),
    };
    let unscheduled = stored["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    let done = matches!(stored["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if unscheduled || done {
        return 0;
    }
    if period < 0 { 1 } else { period }
}
