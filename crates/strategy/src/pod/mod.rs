//! Pods, and the pod templates of all workloads: defaults, additions of built-in admission plugins, deletion.

mod aggregate;
mod environment;
mod files;
mod handlers;
mod mounts;
mod placement;
mod resources;
mod security;
mod selectors;
mod spreading;
mod validate;
mod volumes;
mod warnings;

use std::collections::HashMap;

use serde_json::{Value, json};

use self::validate::validate;
pub(super) use self::{
    aggregate::aggregate,
    files::forbid_parent_path,
    placement::node_selector,
    resources::{HUGE_PAGES, container_resource, is_pod_level},
    security::profiles_in_annotations,
    validate::validate_spec,
    volumes::source as volume_source,
    warnings::warnings,
};
use super::{Strategy, checks, defaults::fill, quantity::Quantity, update::put};
use crate::Field;

/// Pods.
#[derive(Debug)]
pub(crate) struct Pod;

impl Strategy for Pod {
    /// Adds what kube-apiserver's admission plugins add to a new pod, and sets its first status.
    fn prepare_create(&self, value: &mut Value) {
        let spec = &mut value["spec"];
        tolerate_lost_nodes(spec);
        // A pod of an unknown class has none yet.
        fill(spec, "priority", 0);
        fill(spec, "preemptionPolicy", "PreemptLowerPriority");
        let class = quality(spec);
        let is_gated = spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        value["status"] = json!({"phase": "Pending", "qosClass": class});
        if is_gated {
            value["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": value["metadata"]["creationTimestamp"],
            }]);
        }
    }

    fn prepare_update(&self, value: &mut Value, live: &Value) {
        tolerate_lost_nodes(&mut value["spec"]);
        for key in ["priority", "preemptionPolicy"] {
            if value["spec"][key].is_null() {
                put(&mut value["spec"], key, live["spec"].get(key).cloned());
            }
        }
    }

    fn prepare_status(&self, value: &mut Value, live: &Value) {
        for key in ["deletionTimestamp", "ownerReferences"] {
            put(&mut value["metadata"], key, live["metadata"].get(key).cloned());
        }
        let class = live["status"]["qosClass"].clone();
        if class.is_string() && value["status"].is_object() {
            value["status"]["qosClass"] = class;
        }
        let conditions = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            for time in ["lastProbeTime", "lastTransitionTime"] {
                if condition.get(time).is_none() {
                    condition[time] = Value::Null;
                }
            }
        }
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        validate(object, live);
    }

    fn warnings(&self, value: &Value, live: Option<&Value>) -> Vec<String> {
        // Controllers update pods, and people rarely.
        if live.is_some() {
            return Vec::new();
        }
        let mut all = Vec::from_iter(checks::host_warning(value, "the Pod's hostname"));
        all.extend(warnings(value, ""));
        all
    }

    /// It is 0 if the pod never got a node or has ended.
    fn grace_period_seconds(&self, stored: &Value, requested: Option<i64>) -> i64 {
        let own = &stored["spec"]["terminationGracePeriodSeconds"];
        let period = requested.unwrap_or_else(|| own.as_i64().unwrap_or(30));
        let unscheduled = stored["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
        let done = matches!(stored["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        if unscheduled || done {
            return 0;
        }
        if period < 0 { 1 } else { period }
    }

    fn returns_deleted_object(&self) -> bool {
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

/// Returns the quality-of-service class that follows from the requests and limits of the pod as a whole, or else of its
/// containers.
pub(super) fn quality(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten());
    let whole = Some(spec).filter(|spec| spec["resources"].is_object());
    for holder in whole.into_iter().chain(containers.filter(|_| whole.is_none())) {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| {
                holder["resources"][kind][resource]
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
        let mut by_name = HashMap::new();
        for container in asked["spec"][list].as_array().into_iter().flatten() {
            by_name.entry(&container["name"]).or_insert(container);
        }
        for container in value["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(same) = by_name.get(&container["name"]) {
                container["resources"] = same["resources"].clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, causes_of};

    /// With a look at each entry for each entry, each of these lists needs some thousand million looks.
    const COUNT: usize = 30_000;

    fn entries(entry: impl Fn(usize) -> Value) -> Value {
        (0..COUNT).map(entry).collect()
    }

    fn fields(causes: Vec<Cause>) -> Vec<(String, String)> {
        causes.into_iter().map(|cause| (cause.field, cause.message)).collect()
    }

    #[test]
    fn a_pod_with_scheduling_gates_says_that_it_waits_for_them() {
        let created = "2026-01-01T00:00:00Z";
        let gated = |gates: Value| {
            let mut pod =
                json!({"metadata": {"creationTimestamp": created}, "spec": {"schedulingGates": gates}});
            Pod.prepare_create(&mut pod);
            pod["status"]["conditions"].clone()
        };
        assert_eq!(
            gated(json!([{"name": "a"}])),
            json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": created,
            }])
        );
        assert_eq!([gated(json!([])), gated(json!(null))], [Value::Null, Value::Null]);
    }

    #[test]
    fn long_lists_of_mounts_devices_and_constraints_are_compared_entry_by_entry() {
        let constraint = |number: usize| {
            json!({
                "maxSkew": 1, "topologyKey": format!("zone-{}", number.min(COUNT - 2)),
                "whenUnsatisfiable": "DoNotSchedule",
            })
        };
        let mount = |number: usize| json!({"name": format!("m{number}"), "mountPath": format!("/m{number}")});
        let device =
            |number: usize| json!({"name": format!("d{number}"), "devicePath": format!("/d{number}")});
        let mut container = json!({
            "name": "main", "image": "a", "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
            "volumeMounts": entries(mount), "volumeDevices": entries(device),
        });
        container["volumeDevices"][COUNT - 1] = json!({"name": "m7", "devicePath": "/m9"});
        let claim = json!({"claimName": "c"});
        let volume = |name: String| json!({"name": name, "persistentVolumeClaim": claim});
        let volumes: Vec<Value> = (0..COUNT)
            .flat_map(|number| [volume(format!("m{number}")), volume(format!("d{number}"))])
            .collect();
        let spec = json!({
            "restartPolicy": "Always", "dnsPolicy": "Default", "volumes": volumes, "containers": [container],
            "topologySpreadConstraints": entries(constraint),
        });
        let at = |field: &str| format!("spec.containers[0].{field}");
        let last = format!("volumeDevices[{}]", COUNT - 1);
        let clash = |field: &str, value: &str, detail: &str| {
            (at(field), format!("Invalid value: \"{value}\": must not already exist {detail}"))
        };
        let own = format!("{{zone-{}, DoNotSchedule}}", COUNT - 2);
        let constraint =
            format!("spec.topologySpreadConstraints[{}].{{topologyKey, whenUnsatisfiable}}", COUNT - 2);
        assert_eq!(
            fields(causes_of(&spec, "spec", validate_spec)),
            [
                clash("volumeMounts[7].name", "m7", "in volumeDevices"),
                clash("volumeMounts[9].mountPath", "/m9", "as a path in volumeDevices"),
                clash(&format!("{last}.name"), "m7", "in volumeMounts"),
                clash(&format!("{last}.devicePath"), "/m9", "as a path in volumeMounts"),
                (constraint, format!("Duplicate value: \"{own}\"")),
            ]
        );
    }

    #[test]
    fn long_lists_of_tolerations_and_containers_are_compared_entry_by_entry() {
        let toleration = |number: usize| json!({"key": format!("k{number}"), "operator": "Exists"});
        let container = |number: usize| json!({"name": format!("c{number}"), "image": "a"});
        let live = json!({"spec": {
            "restartPolicy": "Always", "dnsPolicy": "Default",
            "containers": entries(container), "tolerations": entries(toleration),
        }});
        let mut value = live.clone();
        assert_eq!(fields(causes_of(&value, "", |pod| validate(pod, Some(&live)))), []);
        value["spec"]["tolerations"][COUNT - 1]["key"] = "other".into();
        let found = fields(causes_of(&value, "", |pod| validate(pod, Some(&live))));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "spec.tolerations");
        value["spec"]["containers"][COUNT - 1]["resources"] = json!({"limits": {"cpu": "2"}});
        prepare_resize(&mut value, &live.clone());
        let mut resized = live.clone();
        resized["spec"]["containers"][COUNT - 1]["resources"] = json!({"limits": {"cpu": "2"}});
        for list in resized["spec"]["containers"].as_array_mut().unwrap().iter_mut().take(COUNT - 1) {
            list["resources"] = Value::Null;
        }
        assert_eq!(value, resized);
    }
}
