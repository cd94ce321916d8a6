//! Validation of the resources of containers and pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::aggregate::aggregate;
use crate::{Field, checks::unique, names, quantity::Quantity};

pub(crate) const HUGE_PAGES: &str = "hugepages-";
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
/// Resources without a domain that a quota can have, and a container cannot.
const QUOTA_RESOURCES: [&str; 8] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "storage",
];
const RESIZES: [&str; 2] = ["NotRequired", "RestartContainer"];

/// Validates the resources of a container. `claims` are the names of the pod's claims.
pub(super) fn of_container(resources: &Field<'_>, claims: &BTreeSet<&str>) {
    requirements(resources, claims, container_resource);
}

fn requirements(resources: &Field<'_>, claims: &BTreeSet<&str>, check: fn(&Field<'_>, &str)) {
    amounts(resources, check);
    let names = || {
        let kinds = ["limits", "requests"].into_iter();
        kinds
            .flat_map(|kind| resources[kind].as_object().into_iter().flatten())
            .map(|(name, _)| name.as_str())
    };
    if names().any(|name| name.starts_with(HUGE_PAGES)) && !names().any(|name| RESIZABLE.contains(&name)) {
        resources.forbidden("HugePages require cpu or memory");
    }
    let mut seen = BTreeSet::new();
    for claim in resources.items("claims") {
        let name = claim.text("name");
        if name.is_empty() {
            claim.required("");
            continue;
        }
        let shown = claim.with(&claim["name"]);
        unique(&shown, &mut seen, (name, claim.text("request")));
        if !claims.contains(name) {
            let why = if claims.is_empty() { " which is empty" } else { "" };
            shown.not_found();
            if let Some(cause) = shown.causes().last_mut() {
                cause.message.push_str(": must be one of the names in pod.spec.resourceClaims");
                cause.message.push_str(why);
            }
        }
    }
}

/// Validates the resources and the overhead of a pod as a whole.
pub(super) fn of_pod(spec: &Field<'_>, claims: &BTreeSet<&str>) {
    let resources = spec.at("resources");
    if resources.is_object() && spec["os"]["name"] == "windows" {
        resources.forbidden("may not be set for a windows pod");
    } else if resources.is_object() {
        if resources["claims"].is_array() {
            resources.at("claims").forbidden("claims may not be set for Resources at pod-level");
        }
        requirements(&resources, claims, pod_resource);
        covers_containers(&resources, spec);
    }
    let overhead = json!({"limits": spec["overhead"]});
    amounts(&spec.at("overhead").with(&overhead), container_resource);
}

/// Refuses resources of a pod that are less than those of its containers.
fn covers_containers(resources: &Field<'_>, spec: &Field<'_>) {
    let Some(containers) = spec.as_object() else { return };
    for (kind, shown) in [("requests", ""), ("limits", HUGE_PAGES)] {
        let sum = aggregate(containers, kind);
        for (name, amount) in resources.entries(kind).filter(|(name, _)| name.starts_with(shown)) {
            let needed = sum.get(name).filter(|needed| exceeds(**needed, &amount));
            if let Some(needed) = needed {
                let what = format!("aggregate container {kind} of {needed}");
                amount.invalid(format!("must be greater than or equal to {what}"));
            }
        }
    }
    for (index, container) in spec.list("containers").iter().enumerate() {
        for (name, limit) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let most = &resources["limits"][name];
            let given = limit.as_str().and_then(Quantity::parse);
            if given.is_some_and(|given| exceeds(given, most)) {
                // kube-apiserver names the limit so.
                let place = resources
                    .with(limit)
                    .named(format!("{}.containers[{index}][{name}].limits", resources.path));
                place.invalid(format!(
                    "must be less than or equal to pod limits of {}",
                    most.as_str().unwrap_or_default()
                ));
            }
        }
    }
}

/// Whether an amount is greater than a limit, if there is one.
fn exceeds(amount: Quantity, limit: &Value) -> bool {
    limit.as_str().and_then(Quantity::parse).is_some_and(|limit| amount.nano() > limit.nano())
}

/// Validates what happens to a container whose resources change.
pub(super) fn resize(container: &Field<'_>, pod_restarts: &Value) {
    // kube-apiserver omits the index in most errors.
    let policies = container.at("resizePolicy");
    let mut seen = BTreeSet::new();
    for policy in container.items("resizePolicy") {
        unique(&policy.with(&policy["resourceName"]), &mut seen, policy.text("resourceName"));
        for (field, known) in [("resourceName", RESIZABLE), ("restartPolicy", RESIZES)] {
            let choice = policies.with(&policy[field]);
            choice.not_empty("");
            if !choice.as_text().is_empty() {
                choice.one_of(&known);
            }
        }
        if pod_restarts == "Never" && policy["restartPolicy"] != "NotRequired" {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            policies.with(&policy["restartPolicy"]).invalid(detail);
        }
    }
}

/// Validates names and amounts, and that no request exceeds its limit.
fn amounts(resources: &Field<'_>, check: fn(&Field<'_>, &str)) {
    for (name, amount) in ["limits", "requests"].iter().flat_map(|kind| resources.entries(kind)) {
        check(&amount, name);
        if let Some(quantity) = amount.as_str().and_then(Quantity::parse) {
            value(name, &amount, quantity);
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = resources["limits"][name].as_str().unwrap_or_default();
        let Some(asked) = request.as_str().and_then(Quantity::parse) else { continue };
        let may_exceed = is_native(name) && !name.starts_with(HUGE_PAGES);
        let relation = match Quantity::parse(limit) {
            None if may_exceed => continue,
            None => {
                resources.at("limits").required("Limit must be set for non overcommitable resources");
                continue;
            }
            Some(most) if !may_exceed && asked.milli() != most.milli() => "equal to",
            Some(most) if asked.milli() > most.milli() => "less than or equal to",
            Some(_) => continue,
        };
        let detail = format!("must be {relation} {name} limit of {limit}");
        resources.at("requests").invalid_as(request, detail);
    }
}

fn value(name: &str, amount: &Field<'_>, quantity: Quantity) {
    if quantity.milli() < 0 {
        amount.invalid("must be greater than or equal to 0");
    }
    if name.contains('/') && quantity.milli() % 1000 != 0 {
        amount.invalid("must be an integer");
    }
    let page = name.strip_prefix(HUGE_PAGES).and_then(Quantity::parse).map(Quantity::milli);
    if page.is_some_and(|page| page > 0 && quantity.milli() % page != 0) {
        amount.invalid(format!("{} is not positive integer multiple of {name}", amount.as_text()));
    }
}

/// Whether Kubernetes itself defines the resource.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Refuses a name that is not the name of a resource of containers.
pub(crate) fn container_resource(amount: &Field<'_>, name: &str) {
    let is_qualified = resource(amount, name);
    let wrong = |detail: &str| amount.invalid_as(Value::from(name), detail);
    if !name.contains('/') && !is_standard(name) {
        wrong("must be a standard resource for containers");
    }
    if !is_native(name) && (!is_qualified || name.starts_with("requests.")) {
        wrong("doesn't follow extended resource name standard");
    }
}

/// Refuses what is not the name of any resource. Returns whether it is a qualified name.
fn resource(amount: &Field<'_>, name: &str) -> bool {
    let problem = names::qualified_name_problem(name);
    let is_known = name.contains('/') || is_standard(name) || QUOTA_RESOURCES.contains(&name);
    match &problem {
        Some(problem) => amount.invalid_as(Value::from(name), problem),
        None if is_known => {}
        None => amount.invalid_as(Value::from(name), "must be a standard resource type or fully qualified"),
    }
    problem.is_none()
}

fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES)
}

/// Whether a pod as a whole can have the resource.
pub(crate) fn is_pod_level(name: &str) -> bool {
    RESIZABLE.contains(&name) || name.starts_with(HUGE_PAGES)
}

fn pod_resource(amount: &Field<'_>, name: &str) {
    let before = amount.count();
    resource(amount, name);
    if amount.count() == before && !is_pod_level(name) {
        amount.with(&Value::from(name)).unsupported(&["cpu", HUGE_PAGES, "memory"]);
    }
}
