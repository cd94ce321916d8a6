//! Validation of the resources of containers and pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{Field, checks::unique, names, quantity::Quantity};

const HUGE_PAGES: &str = "hugepages-";
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const RESIZES: [&str; 2] = ["NotRequired", "RestartContainer"];

/// Validates the resources of a container. `claims` are the names of the pod's claims.
pub(super) fn of_container(resources: &Field<'_>, claims: &BTreeSet<&str>) {
    amounts(resources, container_resource);
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
pub(super) fn of_pod(spec: &Field<'_>) {
    amounts(&spec.at("resources"), pod_resource);
    let overhead = json!({"limits": spec["overhead"]});
    amounts(&spec.at("overhead").with(&overhead), container_resource);
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
    let is_standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
    let problem = names::qualified_name_problem(name);
    let is_qualified = problem.is_none();
    let wrong = |detail: &str| amount.invalid_as(Value::from(name), detail);
    if let Some(problem) = problem {
        wrong(&problem);
    }
    if !name.contains('/') && !is_standard {
        wrong("must be a standard resource for containers");
        if is_qualified {
            wrong("must be a standard resource type or fully qualified");
        }
    }
    if !is_native(name) && (!is_qualified || name.starts_with("requests.")) {
        wrong("doesn't follow extended resource name standard");
    }
}

fn pod_resource(amount: &Field<'_>, name: &str) {
    if !RESIZABLE.contains(&name) && !name.starts_with(HUGE_PAGES) {
        amount.with(&Value::from(name)).unsupported(&["cpu", HUGE_PAGES, "memory"]);
    }
}
