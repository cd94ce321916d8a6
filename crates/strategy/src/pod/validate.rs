//! Validation of pods and pod templates.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::{environment, handlers, mounts, placement, resources, security, volumes};
use crate::{Field, checks, names::NameRule};

/// Reports all validation errors of a Pod.
pub(crate) fn validate(pod: &Field<'_>, live: Option<&Value>) {
    let spec = pod.at("spec");
    security::profiles_in_annotations(&pod.at("metadata.annotations"), &spec);
    validate_spec(&spec);
    let Some(live) = live else {
        if !spec.list("ephemeralContainers").is_empty() {
            spec.at("ephemeralContainers").forbidden("cannot be set on create");
        }
        return;
    };
    let count = |spec: &Value, list: &str| spec[list].as_array().map_or(0, Vec::len);
    let differs = |list: &&str| count(&spec, list) != count(&live["spec"], list);
    if let Some(list) = ["containers", "initContainers"].into_iter().find(differs) {
        spec.at(list).forbidden(format!("pod updates may not add or remove {list}"));
        return;
    }
    // an update validates images twice, and reports each error twice
    let mut images = pod.causes().clone();
    images.retain(|cause| cause.field.ends_with("].image"));
    pod.causes().extend(images);
    changes(&spec, &live["spec"]);
    fewer_tolerations(&spec, &live["spec"]);
}

/// Refuses an update that removes tolerations. An update may add tolerations and change their seconds.
fn fewer_tolerations(spec: &Field<'_>, live: &Value) {
    let bare = |spec: &Value| -> Vec<Value> {
        let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
        for toleration in all.iter_mut().filter_map(Value::as_object_mut) {
            toleration.remove("tolerationSeconds");
        }
        all
    };
    let now: HashSet<Value> = bare(spec).into_iter().collect();
    if !bare(live).iter().all(|toleration| now.contains(toleration)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        spec.at("tolerations").forbidden(detail);
    }
}

/// Refuses an update that changes the spec of a pod, except for images, tolerations, deadlines and a few other fields.
fn changes(new: &Field<'_>, live: &Value) {
    let ends_at_once = new["terminationGracePeriodSeconds"] == 1
        && live["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0);
    let strip = |spec: &Value| {
        let mut spec = spec.clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        for key in
            ["activeDeadlineSeconds", "tolerations", "nodeName", "ephemeralContainers", "schedulingGates"]
        {
            spec[key] = Value::Null;
        }
        if ends_at_once {
            spec["terminationGracePeriodSeconds"] = Value::Null;
        }
        spec
    };
    if new["nodeName"] != live["nodeName"] || strip(new) != strip(live) {
        new.forbidden("pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)");
    }
}

/// Reports all validation errors of the spec of a Pod or of a template.
pub(crate) fn validate_spec(spec: &Field<'_>) {
    let volumes = volumes::validate(spec);
    let claims: BTreeSet<&str> =
        spec.list("resourceClaims").iter().filter_map(|claim| claim["name"].as_str()).collect();
    if spec.list("containers").is_empty() {
        spec.at("containers").required("");
    }
    let (mut seen, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    let grace = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    for list in ["containers", "initContainers"] {
        for container in spec.items(list) {
            check_name(&container.at("name"), &mut seen);
            validate_container(&container, &volumes, &claims);
            resources::resize(&container, &spec["restartPolicy"]);
            security::refuse_unmasked(&container, spec);
            if list == "initContainers" {
                // Init containers run one after the other.
                hosts.clear();
            }
            ports(&container, &mut hosts);
            if list == "initContainers" && container["restartPolicy"] != "Always" {
                once_only(&container);
            } else {
                handlers::validate(&container, grace);
            }
            if spec["hostNetwork"] == true {
                same_ports(&container);
            }
        }
    }
    spec.at("restartPolicy").one_of(&["Always", "OnFailure", "Never"]);
    spec.at("dnsPolicy").one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    spec.at("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"]);
    let seconds = spec.at("activeDeadlineSeconds");
    checks::within(&seconds, 1..=i64::from(i32::MAX), "must be between 1 and 2147483647, inclusive");
    checks::labels(&spec.at("nodeSelector"));
    placement::validate(spec);
    resources::of_pod(spec, &claims);
}

/// Refuses fields that an init container cannot have if it runs to completion before others start.
fn once_only(container: &Field<'_>) {
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container[key].is_object() {
            container.at(key).forbidden("may not be set for init containers without restartPolicy=Always");
        }
    }
}

/// Refuses a container port that differs from its host port when the pod uses the host's network.
fn same_ports(container: &Field<'_>) {
    for port in container.items("ports") {
        if port["hostPort"].as_i64().is_some_and(|host| host != 0 && port["containerPort"] != host) {
            port.at("hostPort").invalid("must match `containerPort` when `hostNetwork` is true");
        }
    }
}

fn check_name<'v>(name: &Field<'v>, seen: &mut BTreeSet<&'v str>) {
    let before = name.count();
    name.required_name(NameRule::Label);
    if name.count() == before {
        checks::unique(name, seen, name.as_text());
    }
}

fn validate_container(container: &Field<'_>, volumes: &mounts::Volumes<'_>, claims: &BTreeSet<&str>) {
    let image = container.at("image");
    image.not_empty("");
    if image.as_text().trim() != image.as_text() {
        image.invalid("must not have leading or trailing whitespace");
    }
    for port in container.items("ports") {
        let number = port.at("containerPort");
        if number.as_i64().unwrap_or(0) == 0 {
            number.required("");
        } else {
            checks::port(&number);
        }
        port.at("protocol").one_of(&["SCTP", "TCP", "UDP"]);
    }
    environment::validate(container);
    mounts::validate(container, volumes);
    security::of_container(container);
    container.at("terminationMessagePolicy").one_of(&["File", "FallbackToLogsOnError"]);
    container.at("imagePullPolicy").one_of(&["Always", "IfNotPresent", "Never"]);
    resources::of_container(&container.at("resources"), claims);
}

/// Validates port names, which must be unique within a container, and host ports, which must not be among `hosts`.
fn ports(container: &Field<'_>, hosts: &mut BTreeSet<String>) {
    let mut names = BTreeSet::new();
    for port in container.items("ports") {
        let (name, host) = (port.at("name"), port.at("hostPort"));
        let before = name.count();
        if !name.as_text().is_empty() {
            checks::port_name(&name);
            if name.count() == before {
                checks::unique(&name, &mut names, name.as_text());
            }
        }
        let number = host.as_i64().unwrap_or(0);
        if number == 0 {
            continue;
        }
        checks::port(&host);
        let shown = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
        checks::unique(&host.with(&Value::from(shown.as_str())), hosts, shown);
    }
}
