//! The defaults that depend on other fields. Each rule gets the object that holds the field for which the table names it.

use serde_json::{Map, Value, json};

use super::{image, is_zero};
use crate::pod::{HUGE_PAGES, aggregate, is_pod_level};

type Object = Map<String, Value>;

/// Applies the rule of this name.
pub(super) fn apply(rule: &str, object: &mut Object) {
    if let Some((_, apply)) = RULES.iter().find(|(name, _)| *name == rule) {
        apply(object);
    }
}

/// Fills in the defaults of an object that depend on its other fields.
type Rule = fn(&mut Object);

/// The rules by the names that the table uses.
pub(super) const RULES: [(&str, Rule); 22] = [
    ("imagePullPolicy", |container| pull_policy(container, "image", "imagePullPolicy")),
    ("volumePullPolicy", |volume| pull_policy(volume, "reference", "pullPolicy")),
    ("emptyDir", empty_dir),
    ("serviceAccount", service_account),
    ("pod", pod),
    ("allocatable", |status| {
        if let Some(capacity) = status.get("capacity").cloned() {
            fill(status, "allocatable", capacity);
        }
    }),
    ("limits", limits),
    ("replicationController", replication_controller),
    ("externalTrafficPolicy", |spec| {
        let is_external = match text(spec, "type") {
            "LoadBalancer" | "NodePort" => true,
            kind => kind == "ClusterIP" && spec.get("externalIPs").is_some_and(|all| !is_zero(all)),
        };
        if is_external {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
    }),
    ("sessionAffinityConfig", session_affinity),
    ("allocateLoadBalancerNodePorts", |spec| {
        if text(spec, "type") == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true);
        }
    }),
    ("internalTrafficPolicy", |spec| {
        if matches!(text(spec, "type"), "ClusterIP" | "LoadBalancer" | "NodePort") {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
    }),
    ("targetPort", |port| {
        if port.get("targetPort").is_none_or(is_zero)
            && let Some(number) = port.get("port").cloned()
        {
            port.insert("targetPort".to_owned(), number);
        }
    }),
    ("loadBalancer", load_balancer),
    ("rollingUpdate", |strategy| {
        if text(strategy, "type") == "RollingUpdate" {
            fill(strategy, "rollingUpdate", json!({}));
        }
    }),
    ("statefulSetUpdate", |strategy| {
        if text(strategy, "type").is_empty() {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
            fill(strategy, "rollingUpdate", json!({}));
        }
    }),
    ("volumeClaimTemplates", |spec| {
        for claim in items(spec, "volumeClaimTemplates") {
            fill(claim, "kind", "PersistentVolumeClaim");
            fill(claim, "apiVersion", "v1");
        }
    }),
    ("scaleUp", scale_up),
    ("job", job),
    ("policyTypes", |spec| {
        if spec.get("policyTypes").is_none_or(is_zero) {
            let has_egress = spec.get("egress").is_some_and(|rules| !is_zero(rules));
            let types = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".to_owned(), types);
        }
    }),
    ("subjectGroup", |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
            subject.insert("apiGroup".to_owned(), "rbac.authorization.k8s.io".into());
        }
    }),
    ("deviceCount", |request| {
        if text(request, "allocationMode") == "ExactCount" && request.get("count").is_none_or(is_zero) {
            request.insert("count".to_owned(), 1.into());
        }
    }),
];

fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Sets a field if it is missing or null.
fn fill(object: &mut Object, key: &str, default: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), default.into());
    }
}

/// The objects of a list.
fn items<'a>(object: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The struct under a key. It is created if it is missing; a value of another type is left alone.
fn part<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    fill(object, key, json!({}));
    object.get_mut(key).and_then(Value::as_object_mut)
}

fn pull_policy(object: &mut Object, image: &str, policy: &str) {
    if text(object, policy).is_empty() {
        let is_latest = image::tag(text(object, image)) == Some("latest");
        object.insert(policy.to_owned(), if is_latest { "Always" } else { "IfNotPresent" }.into());
    }
}

fn empty_dir(volume: &mut Object) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

/// Two names of one field: kube-apiserver writes the older one for old clients. The newer one wins.
fn service_account(spec: &mut Object) {
    const NAMES: [&str; 2] = ["serviceAccountName", "serviceAccount"];
    if let Some(name) = NAMES.into_iter().map(|key| text(spec, key)).find(|name| !name.is_empty()) {
        let name = Value::from(name);
        for key in NAMES {
            spec.insert(key.to_owned(), name.clone());
        }
    }
}

/// What only pods get, and not the templates of workloads.
fn pod(pod: &mut Object) {
    let Some(spec) = part(pod, "spec") else { return };
    fill(spec, "enableServiceLinks", true);
    let is_on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
            for port in items(container, "ports").filter(|_| is_on_host) {
                if port.get("hostPort").is_none_or(is_zero)
                    && let Some(number) = port.get("containerPort").cloned()
                {
                    port.insert("hostPort".to_owned(), number);
                }
            }
        }
    }
    pod_resources(spec);
}

/// Fills in the resources of a pod as a whole, if it has some: the limits of huge pages are the sum of those of its containers,
/// and, if there are limits, the requests are the sum of the containers' requests, or else the limits.
fn pod_resources(spec: &mut Object) {
    let given = |spec: &Object, kind: &str| {
        let amounts =
            spec.get("resources").and_then(|resources| resources.get(kind)).and_then(Value::as_object);
        amounts.filter(|amounts| !amounts.is_empty()).cloned()
    };
    let sum = |spec: &Object, kind: &str| {
        let all = aggregate(spec, kind).into_iter().filter(|(name, _)| is_pod_level(name));
        all.map(|(name, amount)| (name.to_owned(), Value::from(amount.to_string()))).collect::<Object>()
    };
    let is_huge = |name: &str| name.starts_with(HUGE_PAGES);
    let (limits, requests) = (given(spec, "limits"), given(spec, "requests"));
    if limits.is_none() && requests.is_none() {
        return;
    }
    let (mut limits, mut requests) = (limits.unwrap_or_default(), requests.unwrap_or_default());
    for (name, amount) in sum(spec, "limits").into_iter().filter(|(name, _)| is_huge(name)) {
        if !requests.contains_key(&name) {
            limits.entry(name).or_insert(amount);
        }
    }
    if !limits.is_empty() {
        let needed = sum(spec, "requests").into_iter().filter(|(name, _)| !is_huge(name));
        let whole = limits.clone().into_iter().filter(|(name, _)| is_pod_level(name));
        for (name, amount) in needed.chain(whole) {
            requests.entry(name).or_insert(amount);
        }
    }
    let Some(resources) = part(spec, "resources") else { return };
    for (kind, amounts) in [("limits", limits), ("requests", requests)] {
        if !amounts.is_empty() {
            resources.insert(kind.to_owned(), amounts.into());
        }
    }
}

/// Sets the missing requests of a container to its limits.
fn requests_from_limits(container: &mut Object) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(requests) = part(resources, "requests") else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// Fills in `default` and `defaultRequest` of container limits: `default` from `max`, `defaultRequest` from `default` and
/// `min`.
fn limits(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    for (key, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(amounts) = item.get(source).and_then(Value::as_object).cloned() else { continue };
        let Some(filled) = part(item, key) else { continue };
        for (resource, amount) in amounts {
            filled.entry(resource).or_insert(amount);
        }
    }
}

fn replication_controller(controller: &mut Object) {
    let labels = controller.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let Some(labels) = labels.filter(Value::is_object) else { return };
    for (holder, key) in [("spec", "selector"), ("metadata", "labels")] {
        if let Some(holder) = part(controller, holder)
            && holder.get(key).is_none_or(is_zero)
        {
            holder.insert(key.to_owned(), labels.clone());
        }
    }
}

fn session_affinity(spec: &mut Object) {
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = spec.get("sessionAffinityConfig");
            let seconds = config.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if seconds.is_none_or(Value::is_null) {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
}

fn load_balancer(service: &mut Object) {
    if service.get("spec").is_none_or(|spec| spec["type"] != "LoadBalancer") {
        return;
    }
    let balancer = service.get_mut("status").and_then(|status| status.get_mut("loadBalancer"));
    let Some(balancer) = balancer.and_then(Value::as_object_mut) else { return };
    for ingress in items(balancer, "ingress").filter(|ingress| !text(ingress, "ip").is_empty()) {
        fill(ingress, "ipMode", "VIP");
    }
}

/// Scaling up has other defaults than scaling down, whose defaults the table has.
fn scale_up(behavior: &mut Object) {
    let Some(rules) = part(behavior, "scaleUp") else { return };
    fill(rules, "stabilizationWindowSeconds", 0);
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    fill(rules, "policies", json!([pods, percent]));
}

/// The spec of a Job. The template of a CronJob has the same type, but gets these defaults only when it becomes a Job.
fn job(job: &mut Object) {
    let Some(spec) = part(job, "spec") else { return };
    let is_set = |key: &str| spec.get(key).is_some_and(|value| !value.is_null());
    let limit = if is_set("backoffLimitPerIndex") { i32::MAX } else { 6 };
    let replacement = if is_set("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    if !is_set("completions") && !is_set("parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
}
