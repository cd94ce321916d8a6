//! Validation of pods and pod templates.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::{environment, handlers, mounts, placement, resources, security, volumes};
use crate::{
    Cause, checks,
    names::{self, NameRule},
    quantity::Quantity,
};

/// Returns all validation errors of a Pod.
pub(crate) fn validate(value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = validate_spec(&value["spec"], "spec");
    if live.is_none() && value["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty())
    {
        causes.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if let Some(live) = live {
        if let Some(cause) = other_containers(value, live) {
            causes.push(cause);
            return causes;
        }
        // an update validates images twice, and reports each error twice
        let images: Vec<Cause> =
            causes.iter().filter(|cause| cause.field.ends_with("].image")).cloned().collect();
        causes.extend(images);
        causes.extend(changes(value, live));
        causes.extend(fewer_tolerations(value, live));
    }
    causes
}

/// Refuses an update that adds or removes containers.
fn other_containers(value: &Value, live: &Value) -> Option<Cause> {
    let count = |object: &Value, list: &str| object["spec"][list].as_array().map_or(0, Vec::len);
    let list =
        ["containers", "initContainers"].into_iter().find(|list| count(value, list) != count(live, list))?;
    Some(Cause::forbidden(format!("spec.{list}"), format!("pod updates may not add or remove {list}")))
}

/// Refuses an update that removes tolerations. An update may add tolerations and change their seconds.
fn fewer_tolerations(value: &Value, live: &Value) -> Option<Cause> {
    let bare = |object: &Value| -> Vec<Value> {
        let mut all = object["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        for toleration in all.iter_mut().filter_map(Value::as_object_mut) {
            toleration.remove("tolerationSeconds");
        }
        all
    };
    let now: HashSet<Value> = bare(value).into_iter().collect();
    let detail = "existing toleration can not be modified except its tolerationSeconds";
    (!bare(live).iter().all(|toleration| now.contains(toleration)))
        .then(|| Cause::forbidden("spec.tolerations", detail))
}

/// Refuses an update that changes the spec of a pod, except for images, tolerations, deadlines and a few other fields.
fn changes(value: &Value, live: &Value) -> Vec<Cause> {
    let strip = |spec: &Value| {
        let mut spec = spec.clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        for key in ["activeDeadlineSeconds", "tolerations", "nodeName"] {
            spec[key] = Value::Null;
        }
        if value["spec"]["terminationGracePeriodSeconds"] == 1
            && live["spec"]["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        {
            spec["terminationGracePeriodSeconds"] = Value::Null;
        }
        spec["ephemeralContainers"] = Value::Null;
        spec["schedulingGates"] = Value::Null;
        spec
    };
    let same_node = value["spec"]["nodeName"] == live["spec"]["nodeName"];
    if same_node && strip(&value["spec"]) == strip(&live["spec"]) {
        return Vec::new();
    }
    vec![Cause::forbidden(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )]
}

/// Returns all validation errors of the spec of a Pod or of a template.
pub(crate) fn validate_spec(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let volumes = volumes::validate(spec, path, &mut causes);
    let claims: BTreeSet<&str> =
        spec["resourceClaims"].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let (mut seen, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    let grace = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    for list in ["containers", "initContainers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{index}]");
            check_name(&container["name"], &format!("{at}.name"), &mut seen, &mut causes);
            validate_container(container, &at, &volumes, &claims, &mut causes);
            resources::resize(container, &spec["restartPolicy"], &at, &mut causes);
            security::unmasked(container, spec, &at, &mut causes);
            if list == "initContainers" {
                // Init containers run one after the other.
                hosts.clear();
            }
            ports(container, &at, &mut hosts, &mut causes);
            if list == "initContainers" && container["restartPolicy"] != "Always" {
                once_only(container, &at, &mut causes);
            } else {
                handlers::validate(container, grace, &at, &mut causes);
            }
            if spec["hostNetwork"] == true {
                same_ports(container, &at, &mut causes);
            }
        }
    }
    check_choice(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"], &mut causes);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check_choice(spec, path, "dnsPolicy", &policies, &mut causes);
    check_choice(spec, path, "preemptionPolicy", &["PreemptLowerPriority", "Never"], &mut causes);
    let seconds = &spec["activeDeadlineSeconds"];
    if seconds.as_i64().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(format!("{path}.activeDeadlineSeconds"), seconds, detail));
    }
    checks::labels(&spec["nodeSelector"], &format!("{path}.nodeSelector"), &mut causes);
    placement::validate(spec, path, &mut causes);
    resources::of_pod(spec, path, &mut causes);
    causes
}

/// Refuses fields that an init container cannot have if it runs to completion before others start.
fn once_only(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container[key].is_object() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            causes.push(Cause::forbidden(format!("{path}.{key}"), detail));
        }
    }
}

/// Refuses a container port that differs from its host port when the pod uses the host's network.
fn same_ports(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        if port["hostPort"].as_i64().is_some_and(|host| host != 0 && port["containerPort"] != host) {
            causes.push(Cause::invalid(
                format!("{path}.ports[{index}].hostPort"),
                &port["hostPort"],
                "must match `containerPort` when `hostNetwork` is true",
            ));
        }
    }
}

fn check_choice(object: &Value, path: &str, key: &str, known: &[&str], causes: &mut Vec<Cause>) {
    checks::one_of(&object[key], &format!("{path}.{key}"), known, causes);
}

fn check_name<'a>(name: &'a Value, path: &str, seen: &mut BTreeSet<&'a str>, causes: &mut Vec<Cause>) {
    let text = name.as_str().unwrap_or_default();
    if text.is_empty() {
        causes.push(Cause::required(path, ""));
        return;
    }
    let problems = names::problems(NameRule::Label, text);
    for problem in &problems {
        causes.push(Cause::invalid(path, name, problem));
    }
    if problems.is_empty() && !seen.insert(text) {
        causes.push(Cause::duplicate(path, name));
    }
}

fn validate_container(
    container: &Value,
    path: &str,
    volumes: &mounts::Volumes<'_>,
    claims: &BTreeSet<&str>,
    causes: &mut Vec<Cause>,
) {
    let image = container["image"].as_str().unwrap_or_default();
    if image.is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        causes.push(Cause::invalid(
            format!("{path}.image"),
            &container["image"],
            "must not have leading or trailing whitespace",
        ));
    }
    for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        let number = port["containerPort"].as_i64().unwrap_or(0);
        if number == 0 {
            causes.push(Cause::required(format!("{path}.ports[{index}].containerPort"), ""));
        } else if !(1..=65535).contains(&number) {
            causes.push(Cause::invalid(
                format!("{path}.ports[{index}].containerPort"),
                &Value::from(number),
                "must be between 1 and 65535, inclusive",
            ));
        }
        check_choice(port, &format!("{path}.ports[{index}]"), "protocol", &["SCTP", "TCP", "UDP"], causes);
    }
    environment::validate(container, path, causes);
    mounts::validate(container, volumes, path, causes);
    security::of_container(container, path, causes);
    let policies = ["File", "FallbackToLogsOnError"];
    check_choice(container, path, "terminationMessagePolicy", &policies, causes);
    check_choice(container, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], causes);
    resources::of_container(&container["resources"], claims, &format!("{path}.resources"), causes);
}

/// Validates port names, which must be unique within a container, and host ports, which must not be among `hosts`.
fn ports(container: &Value, path: &str, hosts: &mut BTreeSet<String>, causes: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let text = |key: &str| port[key].as_str().unwrap_or_default();
        let before = causes.len();
        if !text("name").is_empty() {
            checks::port_name(&port["name"], &format!("{path}.name"), causes);
            if causes.len() == before && !names.insert(text("name")) {
                causes.push(Cause::duplicate(format!("{path}.name"), &port["name"]));
            }
        }
        let host = port["hostPort"].as_i64().unwrap_or(0);
        if host == 0 {
            continue;
        }
        checks::port(&port["hostPort"], &format!("{path}.hostPort"), causes);
        let shown = format!("{}/{}/{host}", text("protocol"), text("hostIP"));
        if !hosts.insert(shown.clone()) {
            causes.push(Cause::duplicate(format!("{path}.hostPort"), &Value::from(shown)));
        }
    }
}

/// Returns warnings about settings of a pod spec that are valid but may surprise the user.
pub(crate) fn warnings(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            for kind in ["limits", "requests"] {
                for resource in ["ephemeral-storage", "memory"] {
                    let amount = &container["resources"][kind][resource];
                    if let Some(text) = amount.as_str()
                        && let Some(quantity) = Quantity::parse(text)
                        && quantity.milli() % 1000 != 0
                    {
                        warnings.push(format!(
                            "{path}.{list}[{index}].resources.{kind}[{resource}]: fractional byte value \"{text}\" is \
                             invalid, must be an integer"
                        ));
                    }
                }
            }
            let mut ports: BTreeMap<String, usize> = BTreeMap::new();
            for (at, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
                let id = format!("{} {}", port["containerPort"], port["protocol"]);
                if let Some(first) = ports.get(&id) {
                    warnings.push(format!(
                        "{path}.{list}[{index}].ports[{at}]: duplicate port definition with \
                         {path}.{list}[{index}].ports[{first}]"
                    ));
                }
                ports.entry(id).or_insert(at);
            }
            let mut names = BTreeSet::new();
            for (at, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
                let name = variable["name"].as_str().unwrap_or_default();
                if !names.insert(name) {
                    warnings.push(format!(
                        "{path}.{list}[{index}].env[{at}]: hides previous definition of \"{name}\", which may be \
                         dropped when using apply"
                    ));
                }
            }
        }
    }
    warnings
}
