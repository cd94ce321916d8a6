//! Validation of pods and pod templates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{placement, security, volumes};
use crate::{
    Cause, checks, metadata,
    names::{self, NameRule},
    quantity::Quantity,
};

/// Returns all validation errors of a Pod.
pub(crate) fn validate(value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = validate_spec(&value["spec"], "spec");
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
    let now = bare(value);
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

/// The volume sources, in the order in which kube-apiserver checks them.
const VOLUME_TYPES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "projected",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];
/// The probe handlers, in the order in which kube-apiserver checks them.
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Refuses every alternative but the first. A merge of several layers can produce more than one.
fn one_of(object: &Value, path: &str, alternatives: &[&str], what: &str, causes: &mut Vec<Cause>) {
    let given = alternatives.iter().filter(|alternative| object[**alternative].is_object());
    for other in given.skip(1) {
        causes
            .push(Cause::forbidden(format!("{path}.{other}"), format!("may not specify more than 1 {what}")));
    }
}

/// Returns all validation errors of the spec of a Pod or of a template.
pub(crate) fn validate_spec(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mounted: BTreeSet<&str> =
        spec["volumes"].as_array().into_iter().flatten().filter_map(|v| v["name"].as_str()).collect();
    let mut volume_names = BTreeSet::new();
    for (index, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        let at = format!("{path}.volumes[{index}]");
        check_name(&volume["name"], &format!("{at}.name"), &mut volume_names, &mut causes);
        one_of(volume, &at, &VOLUME_TYPES, "volume type", &mut causes);
        volumes::validate(volume, &at, &mut causes);
    }
    let claims: BTreeSet<&str> =
        spec["resourceClaims"].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{index}]");
            check_name(&container["name"], &format!("{at}.name"), &mut seen, &mut causes);
            validate_container(container, &at, &mounted, &claims, &mut causes);
            if list == "initContainers" && container["restartPolicy"] != "Always" {
                once_only(container, &at, &mut causes);
            }
            if spec["hostNetwork"] == true {
                same_ports(container, &at, &mut causes);
            }
        }
    }
    check_choice(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"], &mut causes);
    check_choice(
        spec,
        path,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &mut causes,
    );
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64().filter(|s| *s < 1) {
        causes.push(Cause::invalid(
            format!("{path}.activeDeadlineSeconds"),
            &Value::from(seconds),
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    metadata::labels(&spec["nodeSelector"], &format!("{path}.nodeSelector"), &mut causes);
    placement::validate(spec, path, &mut causes);
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
    if let Some(given) = object[key].as_str()
        && !known.contains(&given)
    {
        let mut sorted = known.to_vec();
        sorted.sort_unstable();
        let shown = if key == "restartPolicy" { known } else { &sorted };
        causes.push(Cause::unsupported(format!("{path}.{key}"), &Value::from(given), shown));
    }
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
    volumes: &BTreeSet<&str>,
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
    port_names(container, path, causes);
    volumes::validate_environment(container, path, causes);
    volumes::validate_mounts(container, path, causes);
    security::of_container(container, path, causes);
    if let Some(given) = container["terminationMessagePolicy"].as_str()
        && !matches!(given, "File" | "FallbackToLogsOnError")
    {
        causes.push(Cause::unsupported(
            format!("{path}.terminationMessagePolicy"),
            &container["terminationMessagePolicy"],
            &["File", "FallbackToLogsOnError"],
        ));
    }
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if handler.is_object() && handler.as_object().is_none_or(serde_json::Map::is_empty) {
            causes.push(Cause::required(format!("{path}.lifecycle.{hook}"), "must specify a handler type"));
        }
    }
    for (index, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        if variable["name"].as_str().is_none_or(str::is_empty) {
            causes.push(Cause::required(format!("{path}.env[{index}].name"), ""));
        }
        if variable["value"].as_str().is_some_and(|v| !v.is_empty()) && variable["valueFrom"].is_object() {
            causes.push(Cause::invalid(
                format!("{path}.env[{index}].valueFrom"),
                &Value::from(""),
                "may not be specified when `value` is not empty",
            ));
        }
    }
    for (index, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
        let name = mount["name"].as_str().unwrap_or_default();
        let at = format!("{path}.volumeMounts[{index}]");
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !volumes.contains(name) {
            causes.push(Cause::not_found(format!("{at}.name"), &mount["name"]));
        }
        if mount["mountPath"].as_str().is_none_or(str::is_empty) {
            causes.push(Cause::required(format!("{at}.mountPath"), ""));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[kind].is_object() {
            validate_probe(&container[kind], &format!("{path}.{kind}"), causes);
            let successes = &container[kind]["successThreshold"];
            if kind != "readinessProbe" && successes.as_i64().is_some_and(|successes| successes > 1) {
                causes.push(Cause::invalid(
                    format!("{path}.{kind}.successThreshold"),
                    successes,
                    "must be 1",
                ));
            }
        }
    }
    check_choice(container, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], causes);
    validate_resources(&container["resources"], &format!("{path}.resources"), claims, causes);
}

/// Validates port names. Port names and host ports must be unique within a container.
fn port_names(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (mut names, mut hosts) = (BTreeSet::new(), BTreeSet::new());
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

fn validate_probe(probe: &Value, path: &str, causes: &mut Vec<Cause>) {
    one_of(probe, path, &HANDLERS, "handler type", causes);
    if HANDLERS.iter().all(|handler| probe[*handler].is_null()) {
        causes.push(Cause::required(path, "must specify a handler type"));
    }
    if probe["exec"].is_object() && probe["exec"]["command"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{path}.exec.command"), ""));
    }
    for handler in ["httpGet", "tcpSocket"] {
        if !probe[handler].is_object() {
            continue;
        }
        let (port, own) = (&probe[handler]["port"], format!("{path}.{handler}.port"));
        let number = if port.is_null() { &Value::from(0) } else { port };
        checks::port(number, &own, causes);
        checks::port_name(port, &own, causes);
    }
    let own = format!("{path}.httpGet.scheme");
    checks::one_of(&probe["httpGet"]["scheme"], &own, &["HTTP", "HTTPS"], causes);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        checks::not_negative(&probe[key], &format!("{path}.{key}"), causes);
    }
}

fn validate_resources(resources: &Value, path: &str, claims: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    for kind in ["limits", "requests"] {
        for (name, amount) in resources[kind].as_object().into_iter().flatten() {
            let at = format!("{path}.{kind}[{name}]");
            let shown = Value::from(name.as_str());
            let native = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-");
            if let Some(problem) = names::qualified_name_problem(name) {
                causes.push(Cause::invalid(&at, &shown, problem));
            }
            if !name.contains('/') && !native {
                causes.push(Cause::invalid(&at, &shown, "must be a standard resource for containers"));
                if names::qualified_name_problem(name).is_none() {
                    let detail = "must be a standard resource type or fully qualified";
                    causes.push(Cause::invalid(&at, &shown, detail));
                }
            }
            let Some(quantity) = amount.as_str().and_then(Quantity::parse) else {
                continue;
            };
            if quantity.milli() < 0 {
                causes.push(Cause::invalid(&at, amount, "must be greater than or equal to 0"));
            }
            if name.contains('/') && quantity.milli() % 1000 != 0 {
                causes.push(Cause::invalid(&at, amount, "must be an integer"));
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        let amounts = (request.as_str().and_then(Quantity::parse), limit.as_str().and_then(Quantity::parse));
        if name.contains('/') {
            match amounts {
                (Some(_), None) => causes.push(Cause::required(
                    format!("{path}.limits"),
                    "Limit must be set for non overcommitable resources",
                )),
                (Some(asked), Some(most)) if asked.milli() != most.milli() => causes.push(Cause::invalid(
                    format!("{path}.requests"),
                    request,
                    format!("must be equal to {name} limit of {}", limit.as_str().unwrap_or_default()),
                )),
                _ => {}
            }
            continue;
        }
        if let (Some(asked), Some(most)) = amounts
            && asked.milli() > most.milli()
        {
            causes.push(Cause::invalid(
                format!("{path}.requests"),
                request,
                format!(
                    "must be less than or equal to {name} limit of {}",
                    limit.as_str().unwrap_or_default()
                ),
            ));
        }
    }
    for (index, claim) in resources["claims"].as_array().into_iter().flatten().enumerate() {
        let name = claim["name"].as_str().unwrap_or_default();
        if !claims.contains(name) {
            let mut cause = Cause::not_found(format!("{path}.claims[{index}]"), &claim["name"]);
            cause.message.push_str(": must be one of the names in pod.spec.resourceClaims");
            if claims.is_empty() {
                cause.message.push_str(" which is empty");
            }
            causes.push(cause);
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
