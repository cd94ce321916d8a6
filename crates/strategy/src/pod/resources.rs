//! Validation of the resources of containers and pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    Cause,
    checks::{items, one_of, text},
    names,
    quantity::Quantity,
};

const HUGE_PAGES: &str = "hugepages-";
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const RESIZES: [&str; 2] = ["NotRequired", "RestartContainer"];

/// Validates the resources of a container. `claims` are the names of the pod's claims.
pub(super) fn of_container(resources: &Value, claims: &BTreeSet<&str>, path: &str, causes: &mut Vec<Cause>) {
    amounts(resources, path, container_resource, causes);
    let names = || {
        let kinds = ["limits", "requests"].into_iter();
        kinds
            .flat_map(|kind| resources[kind].as_object().into_iter().flatten())
            .map(|(name, _)| name.as_str())
    };
    if names().any(|name| name.starts_with(HUGE_PAGES)) && !names().any(|name| RESIZABLE.contains(&name)) {
        causes.push(Cause::forbidden(path, "HugePages require cpu or memory"));
    }
    let mut seen = BTreeSet::new();
    for (index, claim) in items(resources, "claims").iter().enumerate() {
        let (name, own) = (text(claim, "name"), format!("{path}.claims[{index}]"));
        if name.is_empty() {
            causes.push(Cause::required(own, ""));
            continue;
        }
        if !seen.insert((name, text(claim, "request"))) {
            causes.push(Cause::duplicate(own.as_str(), &claim["name"]));
        }
        if !claims.contains(name) {
            let mut cause = Cause::not_found(own, &claim["name"]);
            cause.message.push_str(": must be one of the names in pod.spec.resourceClaims");
            if claims.is_empty() {
                cause.message.push_str(" which is empty");
            }
            causes.push(cause);
        }
    }
}

/// Validates the resources and the overhead of a pod as a whole.
pub(super) fn of_pod(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    amounts(&spec["resources"], &format!("{path}.resources"), pod_resource, causes);
    let overhead = json!({"limits": spec["overhead"]});
    amounts(&overhead, &format!("{path}.overhead"), container_resource, causes);
}

/// Validates what happens to a container whose resources change.
pub(super) fn resize(container: &Value, pod_restarts: &Value, path: &str, causes: &mut Vec<Cause>) {
    let own = format!("{path}.resizePolicy");
    let mut seen = BTreeSet::new();
    for (index, policy) in items(container, "resizePolicy").iter().enumerate() {
        if !seen.insert(text(policy, "resourceName")) {
            causes.push(Cause::duplicate(format!("{own}[{index}]"), &policy["resourceName"]));
        }
        for (field, known) in [("resourceName", RESIZABLE), ("restartPolicy", RESIZES)] {
            match text(policy, field) {
                "" => causes.push(Cause::required(own.as_str(), "")),
                _ => one_of(&policy[field], &own, &known, causes),
            }
        }
        if pod_restarts == "Never" && policy["restartPolicy"] != "NotRequired" {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            causes.push(Cause::invalid(own.as_str(), &policy["restartPolicy"], detail));
        }
    }
}

/// Validates names and amounts, and that no request exceeds its limit.
fn amounts(resources: &Value, path: &str, check: fn(&str, &str, &mut Vec<Cause>), causes: &mut Vec<Cause>) {
    for kind in ["limits", "requests"] {
        for (name, amount) in resources[kind].as_object().into_iter().flatten() {
            let own = format!("{path}.{kind}[{name}]");
            check(name, &own, causes);
            if let Some(quantity) = amount.as_str().and_then(Quantity::parse) {
                value(name, amount, quantity, &own, causes);
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        let Some(asked) = request.as_str().and_then(Quantity::parse) else { continue };
        let (may_exceed, own) =
            (is_native(name) && !name.starts_with(HUGE_PAGES), format!("{path}.requests"));
        let relation = match limit.as_str().and_then(Quantity::parse) {
            None if may_exceed => continue,
            None => {
                let detail = "Limit must be set for non overcommitable resources";
                causes.push(Cause::required(format!("{path}.limits"), detail));
                continue;
            }
            Some(most) if !may_exceed && asked.milli() != most.milli() => "equal to",
            Some(most) if asked.milli() > most.milli() => "less than or equal to",
            Some(_) => continue,
        };
        let detail = format!("must be {relation} {name} limit of {}", limit.as_str().unwrap_or_default());
        causes.push(Cause::invalid(own, request, detail));
    }
}

fn value(name: &str, amount: &Value, quantity: Quantity, path: &str, causes: &mut Vec<Cause>) {
    if quantity.milli() < 0 {
        causes.push(Cause::invalid(path, amount, "must be greater than or equal to 0"));
    }
    if name.contains('/') && quantity.milli() % 1000 != 0 {
        causes.push(Cause::invalid(path, amount, "must be an integer"));
    }
    let page = name.strip_prefix(HUGE_PAGES).and_then(Quantity::parse).map(Quantity::milli);
    if page.is_some_and(|page| page > 0 && quantity.milli() % page != 0) {
        let shown = amount.as_str().unwrap_or_default();
        let detail = format!("{shown} is not positive integer multiple of {name}");
        causes.push(Cause::invalid(path, amount, detail));
    }
}

/// Whether Kubernetes itself defines the resource.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn container_resource(name: &str, path: &str, causes: &mut Vec<Cause>) {
    let is_standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
    let problem = names::qualified_name_problem(name);
    let is_qualified = problem.is_none();
    let mut wrong = |detail: &str| causes.push(Cause::invalid(path, &Value::from(name), detail));
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

fn pod_resource(name: &str, path: &str, causes: &mut Vec<Cause>) {
    if !RESIZABLE.contains(&name) && !name.starts_with(HUGE_PAGES) {
        causes.push(Cause::unsupported(path, &Value::from(name), &["cpu", HUGE_PAGES, "memory"]));
    }
}
