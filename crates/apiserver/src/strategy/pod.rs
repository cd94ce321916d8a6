//! Pods, and the pod templates of all workloads.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    drop_empty, fill, metadata,
    names::{self, NameRule},
    quantity::Quantity,
};
use crate::status::Cause;

/// Fills in a Pod.
pub(super) fn default(value: &mut Value) {
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

/// A pod asks for what it is limited to, where it does not say otherwise.
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

/// Fills in the spec of a Pod or of a template.
pub(super) fn default_spec(spec: &mut Value, pod: bool) {
    if !spec.is_object() {
        *spec = json!({});
    }
    fill(spec, "restartPolicy", "Always");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "securityContext", json!({}));
    fill(spec, "schedulerName", "default-scheduler");
    if !pod {
        for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
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
    for constraint in spec.pointer_mut("/topologySpreadConstraints").and_then(Value::as_array_mut).into_iter().flatten() {
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
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    fill(container, "imagePullPolicy", policy);
    for port in container.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        fill(port, "protocol", "TCP");
        drop_empty(port, &["name", "hostPort", "hostIP"]);
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
    if last.contains('@') {
        return "IfNotPresent";
    }
    match last.split_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}

fn default_probe(probe: &mut Value) {
    // zero means unset for these four
    drop_empty(
        probe,
        &[
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
            "initialDelaySeconds",
        ],
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
    let other = volume
        .as_object()
        .is_some_and(|v| v.keys().any(|k| k != "name" && !sources.contains(&k.as_str())));
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
    for source in volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut).into_iter().flatten() {
        if source["serviceAccountToken"].is_object() {
            fill(&mut source["serviceAccountToken"], "expirationSeconds", 3600);
        }
        for item in source.pointer_mut("/downwardAPI/items").and_then(Value::as_array_mut).into_iter().flatten() {
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

/// What admission adds to a new pod, and its first status.
pub(super) fn prepare_create(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = spec["tolerations"].as_array().into_iter().flatten().any(|t| {
            (t["key"] == key || t["key"].as_str().unwrap_or_default().is_empty())
                && (t["effect"] == "NoExecute" || t["effect"].is_null())
        });
        if !tolerated && let Some(tolerations) = spec.pointer_mut("/tolerations").and_then(Value::as_array_mut) {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    fill(spec, "priority", 0);
    fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    let class = quality(spec);
    value["status"] = json!({"phase": "Pending", "qosClass": class});
}

/// The quality-of-service class that requests and limits make.
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
                    .map(|q| q.milli)
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

/// What a status update cannot change.
pub(super) fn prepare_status(value: &mut Value, live: &Value) {
    for key in ["deletionTimestamp", "ownerReferences"] {
        super::put(&mut value["metadata"], key, live["metadata"].get(key).cloned());
    }
    let class = live["status"]["qosClass"].clone();
    if class.is_string() && value["status"].is_object() {
        value["status"]["qosClass"] = class;
    }
    for condition in value.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        for time in ["lastProbeTime", "lastTransitionTime"] {
            if condition.get(time).is_none() {
                condition[time] = Value::Null;
            }
        }
    }
}

/// Seconds that a pod gets to stop: none if it never got a node or is done.
pub(crate) fn grace(stored: &Value, asked: Option<i64>) -> i64 {
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

/// Everything wrong with a Pod.
pub(super) fn validate(value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = validate_spec(&value["spec"], "spec");
    if let Some(live) = live {
        causes.extend(changes(value, live));
    }
    causes
}

/// A pod's spec is what it was, but for images, tolerations, deadlines and a few others.
fn changes(value: &Value, live: &Value) -> Vec<Cause> {
    let strip = |spec: &Value| {
        let mut spec = spec.clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        for key in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName"] {
            spec[key] = Value::Null;
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

/// Everything wrong with the spec of a Pod or of a template.
pub(super) fn validate_spec(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let volumes: BTreeSet<&str> = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|v| v["name"].as_str())
        .collect();
    let mut volume_names = BTreeSet::new();
    for (index, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        let at = format!("{path}.volumes[{index}].name");
        check_name(&volume["name"], &at, &mut volume_names, &mut causes);
    }
    let claims: BTreeSet<&str> = spec["resourceClaims"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| c["name"].as_str())
        .collect();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{index}]");
            check_name(&container["name"], &format!("{at}.name"), &mut seen, &mut causes);
            validate_container(container, &at, &volumes, &claims, &mut causes);
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
    causes
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
        }
    }
    validate_resources(&container["resources"], &format!("{path}.resources"), claims, causes);
}

fn validate_probe(probe: &Value, path: &str, causes: &mut Vec<Cause>) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
    if handlers.iter().all(|h| probe[*h].is_null()) {
        causes.push(Cause::required(path, "must specify a handler type"));
    }
    for key in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        if let Some(number) = probe[key].as_i64().filter(|n| *n < 0) {
            causes.push(Cause::invalid(
                format!("{path}.{key}"),
                &Value::from(number),
                "must be greater than or equal to 0",
            ));
        }
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
            }
            let Some(quantity) = amount.as_str().and_then(Quantity::parse) else {
                continue;
            };
            if quantity.milli < 0 {
                causes.push(Cause::invalid(&at, amount, "must be greater than or equal to 0"));
            }
            if name.contains('/') && quantity.milli % 1000 != 0 {
                causes.push(Cause::invalid(&at, amount, "must be an integer"));
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        let amounts = (
            request.as_str().and_then(Quantity::parse),
            limit.as_str().and_then(Quantity::parse),
        );
        if let (Some(asked), Some(most)) = amounts
            && asked.milli > most.milli
        {
            causes.push(Cause::invalid(
                format!("{path}.requests"),
                request,
                format!("must be less than or equal to {name} limit of {}", limit.as_str().unwrap_or_default()),
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

/// Things in a pod spec that work, but not as one may think.
pub(super) fn warnings(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            for kind in ["limits", "requests"] {
                for resource in ["ephemeral-storage", "memory"] {
                    let amount = &container["resources"][kind][resource];
                    if let Some(text) = amount.as_str()
                        && let Some(quantity) = Quantity::parse(text)
                        && quantity.milli % 1000 != 0
                    {
                        warnings.push(format!(
                            "{path}.{list}[{index}].resources.{kind}[{resource}]: fractional byte value \"{text}\" is \
                             invalid, must be an integer"
                        ));
                    }
                }
            }
            let mut ports: Vec<(&Value, &Value)> = Vec::new();
            for (at, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
                let id = (&port["containerPort"], &port["protocol"]);
                if let Some(first) = ports.iter().position(|p| *p == id) {
                    warnings.push(format!(
                        "{path}.{list}[{index}].ports[{at}]: duplicate port definition with \
                         {path}.{list}[{index}].ports[{first}]"
                    ));
                }
                ports.push(id);
            }
            let mut names: Vec<&str> = Vec::new();
            for (at, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
                let name = variable["name"].as_str().unwrap_or_default();
                if names.contains(&name) {
                    warnings.push(format!(
                        "{path}.{list}[{index}].env[{at}]: hides previous definition of \"{name}\", which may be \
                         dropped when using apply"
                    ));
                }
                names.push(name);
            }
        }
    }
    warnings
}
