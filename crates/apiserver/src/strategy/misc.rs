//! Kinds with a few rules each.

use serde_json::{Value, json};

use super::{autoscaling, checks, drop_empty, fill, networking, policy, rbac, slices, storage};
use crate::{clock, kinds::Resource, status::Cause, webhook};

/// Fills in the defaults.
pub(super) fn default(resource: &Resource, value: &mut Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("networking.k8s.io", "ingresses") => {
            fill(value, "spec", json!({}));
            for rule in value.pointer_mut("/spec/rules").and_then(Value::as_array_mut).into_iter().flatten() {
                drop_empty(rule, &["host"]);
            }
        }
        ("", "namespaces") => {
            if let Some(name) = value["metadata"]["name"].as_str().map(str::to_owned) {
                value["metadata"]["labels"]["kubernetes.io/metadata.name"] = Value::from(name);
            }
            fill(value, "spec", json!({}));
            drop_empty(&mut value["spec"], &["finalizers"]);
        }
        ("", "events") => {
            fill(value, "source", json!({}));
            fill(value, "firstTimestamp", Value::Null);
            for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
                if value.get(key).is_none() {
                    value[key] = Value::Null;
                }
            }
            for key in ["reportingComponent", "reportingInstance"] {
                fill(value, key, "");
            }
            fill(value, "involvedObject", json!({}));
            drop_empty(value, &["count"]);
        }
        ("events.k8s.io", "events") => fill(value, "regarding", json!({})),
        ("", "nodes") => {
            fill(value, "spec", json!({}));
            if value.get("status").is_some() {
                node_status(&mut value["status"]);
            }
        }
        ("", "persistentvolumeclaims") => {
            fill(value, "spec", json!({}));
            fill(&mut value["spec"], "volumeMode", "Filesystem");
            storage::default_claim(value);
        }
        ("", "persistentvolumes") => {
            fill(value, "spec", json!({}));
            fill(&mut value["spec"], "persistentVolumeReclaimPolicy", "Retain");
            fill(&mut value["spec"], "volumeMode", "Filesystem");
            if value["spec"]["hostPath"].is_object() {
                fill(&mut value["spec"]["hostPath"], "type", "");
            }
        }
        ("", "serviceaccounts") => drop_empty(value, &["secrets", "imagePullSecrets"]),
        ("", "endpoints") => {
            for subset in value.pointer_mut("/subsets").and_then(Value::as_array_mut).into_iter().flatten() {
                for port in subset.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten() {
                    fill(port, "protocol", "TCP");
                }
            }
            drop_empty(value, &["subsets"]);
        }
        ("discovery.k8s.io", "endpointslices") => slices::default(value),
        ("autoscaling", _) => {
            if !value["spec"].is_object() {
                value["spec"] = json!({});
            }
            fill(&mut value["spec"], "minReplicas", 1);
            if resource.version == "v2" && value["spec"]["metrics"].as_array().is_none_or(Vec::is_empty) {
                value["spec"]["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 80}}}]);
            }
            if resource.version == "v1" && value["spec"]["targetCPUUtilizationPercentage"].is_null() {
                value["spec"]["targetCPUUtilizationPercentage"] = Value::from(80);
            }
            behaviour(&mut value["spec"]);
        }
        (rbac::GROUP, _) => rbac::default(resource, value),
        ("", "limitranges") => policy::default_range(value),
        ("storage.k8s.io", "storageclasses") => {
            fill(value, "reclaimPolicy", "Delete");
            fill(value, "volumeBindingMode", "Immediate");
        }
        ("scheduling.k8s.io", _) => {
            fill(value, "value", 0);
            fill(value, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("networking.k8s.io", "networkpolicies") => {
            fill(value, "spec", json!({}));
            let spec = &mut value["spec"];
            fill(spec, "podSelector", json!({}));
            if spec["policyTypes"].as_array().is_none_or(Vec::is_empty) {
                let egress = spec["egress"].as_array().is_some_and(|e| !e.is_empty());
                spec["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            }
            for direction in ["ingress", "egress"] {
                for rule in spec.get_mut(direction).and_then(Value::as_array_mut).into_iter().flatten() {
                    for port in rule.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten()
                    {
                        fill(port, "protocol", "TCP");
                    }
                }
            }
        }
        ("networking.k8s.io" | "policy" | "coordination.k8s.io", _) => fill(value, "spec", json!({})),
        ("admissionregistration.k8s.io", _) => webhook::config::default(value),
        ("apiextensions.k8s.io", _) => longboat_schema::default_crd(value),
        ("", "replicationcontrollers") => {
            fill(value, "spec", json!({}));
            fill(&mut value["spec"], "replicas", 1);
            if value["spec"]["template"].is_object() {
                super::apps::default_template(&mut value["spec"]["template"]);
            }
        }
        ("", "podtemplates") => super::apps::default_template(&mut value["template"]),
        _ => {}
    }
}

fn node_status(status: &mut Value) {
    fill(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
    fill(status, "nodeInfo", json!({}));
    for key in [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ] {
        fill(&mut status["nodeInfo"], key, "");
    }
    let capacity = status["capacity"].clone();
    if capacity.is_object() {
        fill(status, "allocatable", capacity);
    }
    for condition in status.pointer_mut("/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        for time in ["lastHeartbeatTime", "lastTransitionTime"] {
            if condition.get(time).is_none() {
                condition[time] = Value::Null;
            }
        }
    }
}

fn behaviour(spec: &mut Value) {
    if !spec["behavior"].is_object() {
        return;
    }
    let defaults = [
        (
            "scaleUp",
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]),
            0,
        ),
        ("scaleDown", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]), -1),
    ];
    for (direction, policies, window) in defaults {
        fill(&mut spec["behavior"], direction, json!({}));
        let rules = &mut spec["behavior"][direction];
        if window >= 0 {
            fill(rules, "stabilizationWindowSeconds", window);
        }
        fill(rules, "selectPolicy", "Max");
        fill(rules, "policies", policies);
    }
}

/// What the server says in a new object.
pub(super) fn prepare_create(resource: &Resource, value: &mut Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            value["status"] = json!({"phase": "Active"});
            let finalizers = value["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
            if !finalizers.iter().any(|f| f == "kubernetes") {
                let mut all = finalizers;
                all.push(Value::from("kubernetes"));
                value["spec"]["finalizers"] = Value::Array(all);
            }
            default(resource, value);
        }
        ("", "nodes") => {
            value["status"] = json!({});
            node_status(&mut value["status"]);
            if !value["spec"]["taints"].is_array() {
                value["spec"]["taints"] =
                    json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
            }
        }
        ("", "persistentvolumeclaims") => {
            value["status"] = json!({"phase": "Pending"});
            protect(value, "kubernetes.io/pvc-protection");
        }
        ("", "persistentvolumes") => {
            value["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": clock::now()});
            protect(value, "kubernetes.io/pv-protection");
        }
        ("", "resourcequotas") => value["status"] = json!({}),
        ("policy", "poddisruptionbudgets") => {
            value["status"] =
                json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        }
        ("networking.k8s.io", "ingresses") => value["status"] = json!({"loadBalancer": {}}),
        ("autoscaling", _) => {
            value["status"] = if resource.version == "v2" {
                json!({"desiredReplicas": 0, "currentMetrics": null})
            } else {
                json!({"currentReplicas": 0, "desiredReplicas": 0})
            };
        }
        ("apiextensions.k8s.io", _) => {
            value["status"] = json!({});
            longboat_schema::default_crd(value);
        }
        _ => {}
    }
}

fn protect(value: &mut Value, finalizer: &str) {
    let mut finalizers = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|f| f == finalizer) {
        finalizers.push(Value::from(finalizer));
    }
    value["metadata"]["finalizers"] = Value::Array(finalizers);
}

/// What updates cannot change.
pub(super) fn prepare_update(resource: &Resource, value: &mut Value, live: &Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            // only `finalize` changes the finalizers of the spec
            if let Some(finalizers) = live["spec"].get("finalizers") {
                value["spec"]["finalizers"] = finalizers.clone();
            }
        }
        ("apiextensions.k8s.io", _) => {
            // a new storage version is remembered at once: objects may be stored in it from now on
            for version in value["spec"]["versions"].as_array().cloned().unwrap_or_default() {
                let stored = value.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut);
                if version["storage"] == true
                    && let Some(stored) = stored
                    && !stored.contains(&version["name"])
                {
                    stored.push(version["name"].clone());
                }
            }
        }
        _ => {}
    }
}

/// What status updates cannot change.
pub(super) fn prepare_status(resource: &Resource, value: &mut Value, live: &Value) {
    if resource.group == "apiextensions.k8s.io" {
        let labels = live["metadata"].get("labels").cloned();
        super::put(&mut value["metadata"], "labels", labels);
    }
    if resource.group.is_empty() && resource.plural == "nodes" {
        node_status(&mut value["status"]);
    }
}

/// Everything wrong with an object.
pub(super) fn validate(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (resource.group.as_str(), resource.plural.as_str()) {
        (rbac::GROUP, _) => causes.extend(rbac::validate(resource, value, live)),
        ("discovery.k8s.io", "endpointslices") => causes.extend(slices::validate(value, live)),
        ("networking.k8s.io", _) => causes.extend(networking::validate(resource, value)),
        ("policy", "poddisruptionbudgets") => causes.extend(policy::validate_budget(value)),
        ("scheduling.k8s.io", "priorityclasses") => causes.extend(policy::validate_priority(value, live)),
        ("", "resourcequotas") => causes.extend(policy::validate_quota(value)),
        ("", "limitranges") => causes.extend(policy::validate_range(value)),
        ("", "persistentvolumeclaims") => causes.extend(storage::validate_claim(value, live)),
        ("storage.k8s.io", "storageclasses") => causes.extend(storage::validate_class(value, live)),
        ("", "persistentvolumes") => causes.extend(storage::validate_volume(value)),
        ("", "endpoints") => causes.extend(slices::validate_endpoints(value)),
        ("", "namespaces") => {
            for name in checks::items(&value["spec"], "finalizers") {
                if name != "kubernetes" && !name.as_str().is_some_and(|name| name.contains('/')) {
                    let detail = "name is neither a standard finalizer name nor is it fully qualified";
                    causes.push(Cause::invalid("spec.finalizers", name, detail));
                }
            }
        }
        ("coordination.k8s.io", "leases") => {
            if let Some(seconds) = value["spec"]["leaseDurationSeconds"].as_i64().filter(|s| *s <= 0) {
                causes.push(Cause::invalid(
                    "spec.leaseDurationSeconds",
                    &Value::from(seconds),
                    "must be greater than 0",
                ));
            }
            let transitions = &value["spec"]["leaseTransitions"];
            checks::not_negative(transitions, "spec.leaseTransitions", &mut causes);
        }
        ("autoscaling", _) => causes.extend(autoscaling::validate(resource, value)),
        ("apiextensions.k8s.io", _) => causes.extend(longboat_schema::validate_crd(value, live)),
        ("admissionregistration.k8s.io", _) => causes.extend(webhook::config::validate(value)),
        ("" | "events.k8s.io", "events") => causes.extend(validate_event(resource, value)),
        _ => {}
    }
    causes
}

fn validate_event(resource: &Resource, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let own = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let (field, object) = if resource.group.is_empty() {
        ("involvedObject.namespace", &value["involvedObject"])
    } else {
        ("regarding.namespace", &value["regarding"])
    };
    let other = object["namespace"].as_str().unwrap_or_default();
    // events about cluster-scoped objects live in the default namespace
    if other != own && !(other.is_empty() && own == "default") {
        causes.push(Cause::invalid(field, &Value::from(other), "does not match event.namespace"));
    }
    if resource.group.is_empty() {
        return causes;
    }
    if value["eventTime"].is_string() {
        for key in ["reportingController", "reportingInstance", "action", "reason"] {
            if value[key].as_str().is_none_or(str::is_empty) {
                causes.push(Cause::required(key, ""));
            }
        }
    } else {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = value["type"].as_str().unwrap_or_default();
    if kind != "Normal" && kind != "Warning" {
        causes.push(Cause::invalid("type", &Value::from(kind), format!("has invalid value: {kind}")));
    }
    causes
}
