//! Validation of a pod's spec outside its containers: scheduling, identity, network settings.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{security, spreading};
use crate::{
    Field,
    checks::{NOT_AN_IP, ip, label_value, qualified, requirement, requirement_key, selector, unique},
    names::{self, NameRule},
};

/// Validates the parts of a pod's spec that concern more than its containers.
pub(super) fn validate(spec: &Field<'_>) {
    for (key, rule) in [
        ("serviceAccountName", NameRule::Subdomain),
        ("nodeName", NameRule::Subdomain),
        ("hostname", NameRule::Label),
        ("subdomain", NameRule::Label),
        ("priorityClassName", NameRule::Subdomain),
        ("runtimeClassName", NameRule::Subdomain),
    ] {
        spec.at(key).optional_name(rule);
    }
    spec.items("tolerations").for_each(|toleration| validate_toleration(&toleration));
    affinity(&spec.at("affinity"));
    spreading::validate(spec);
    security::of_pod(spec);
    dns(spec);
    for gate in spec.items("readinessGates") {
        qualified(&gate.at("conditionType"), gate.text("conditionType"));
    }
    let mut seen = BTreeSet::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.text("name");
        qualified(&gate, name);
        unique(&gate.with(&gate["name"]), &mut seen, name);
    }
    for alias in spec.items("hostAliases") {
        address(&alias.text_at("ip"));
        alias.items("hostnames").for_each(|host| host.name(NameRule::Subdomain));
    }
    claims(spec);
    let system = spec.at("os.name");
    if spec["os"].is_object() && !matches!(system.as_text(), "linux" | "windows") {
        if system.as_text().is_empty() {
            system.required("");
        } else {
            spec.at("os").with(&system).unsupported(&["linux", "windows"]);
        }
    }
}

fn address(address: &Field<'_>) {
    if ip(address.as_text()).is_none() {
        address.invalid(NOT_AN_IP);
    }
}

fn validate_toleration(toleration: &Field<'_>) {
    let (key, operator) = (toleration.at("key"), toleration.text_at("operator"));
    let (effect, value) = (toleration.text_at("effect"), toleration.text("value"));
    // kube-apiserver names the operator in errors about the value.
    let wrong_value = |detail: &str| operator.with(&toleration["value"]).invalid(detail);
    if key.as_text().is_empty() {
        if operator.as_text() != "Exists" {
            operator.invalid(
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
    } else if let Some(problem) = names::qualified_name_problem(key.as_text()) {
        key.invalid(problem);
    }
    if toleration["tolerationSeconds"].is_number() && effect.as_text() != "NoExecute" {
        effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.as_text() {
        "" | "Equal" => {
            if let Some(problem) = names::label_value_problem(value) {
                wrong_value(&problem);
            }
        }
        "Exists" if !value.is_empty() => wrong_value("value must be empty when `operator` is 'Exists'"),
        "Exists" => {}
        _ => operator.unsupported(&["Equal", "Exists"]),
    }
    if !effect.as_text().is_empty() {
        effect.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn affinity(affinity: &Field<'_>) {
    let node = affinity.at("nodeAffinity");
    if node[REQUIRED].is_object() {
        node_selector(&node.at(REQUIRED));
    }
    for preferred in node.items(PREFERRED) {
        weight(&preferred);
        node_term(&preferred.at("preference"));
    }
    for kind in ["podAffinity", "podAntiAffinity"].map(|kind| affinity.at(kind)) {
        kind.items(REQUIRED).for_each(|term| pod_term(&term));
        for preferred in kind.items(PREFERRED) {
            weight(&preferred);
            pod_term(&preferred.at("podAffinityTerm"));
        }
    }
}

/// Validates a selector of nodes.
pub(crate) fn node_selector(selector: &Field<'_>) {
    if selector.list("nodeSelectorTerms").is_empty() {
        selector.at("nodeSelectorTerms").required("must have at least one node selector term");
    }
    selector.items("nodeSelectorTerms").for_each(|term| node_term(&term));
}

fn weight(preferred: &Field<'_>) {
    let weight = preferred["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        preferred.at("weight").invalid_as(weight, "must be in the range 1-100");
    }
}

fn node_term(term: &Field<'_>) {
    for expression in term.items("matchExpressions") {
        expression.items("values").for_each(|value| label_value(&value));
        if !matches!(expression.text("operator"), "Gt" | "Lt") {
            requirement(&expression);
            continue;
        }
        if expression.list("values").len() != 1 {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            expression.at("values").required(detail);
        }
        requirement_key(&expression);
    }
    for field in term.items("matchFields") {
        if !matches!(field.text("operator"), "In" | "NotIn") {
            field.at("operator").invalid("not a valid selector operator");
        } else if field.list("values").len() != 1 {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            field.at("values").required(detail);
        }
        if field["key"] == "metadata.name" {
            field.items("values").for_each(|value| value.name(NameRule::Subdomain));
        } else {
            field.at("key").invalid("not a valid field selector key");
        }
    }
}

fn pod_term(term: &Field<'_>) {
    selector(&term.at("labelSelector"));
    selector(&term.at("namespaceSelector"));
    let namespace = term.at("namespace");
    term.list("namespaces").iter().for_each(|name| namespace.with(name).name(NameRule::Label));
    spreading::label_keys(term, "matchLabelKeys");
    spreading::label_keys(term, "mismatchLabelKeys");
    let key = term.at("topologyKey");
    key.not_empty("can not be empty");
    qualified(&key, key.as_text());
}

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_LENGTH: usize = 2048;

fn dns(spec: &Field<'_>) {
    let config = spec.at("dnsConfig");
    let servers = config.at("nameservers");
    let count = config.list("nameservers").len();
    if spec["dnsPolicy"] == "None" {
        if !config.is_object() {
            config.required("must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if count == 0 {
            servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if count > MAX_NAMESERVERS {
        servers.invalid(format!("must not have more than {MAX_NAMESERVERS} nameservers"));
    }
    config.items("nameservers").for_each(|server| address(&server));
    searches(&config);
    for option in config.items("options").filter(|option| option.text("name").is_empty()) {
        option.required("must not be empty");
    }
}

fn searches(config: &Field<'_>) {
    let (all, domains) = (config.at("searches"), config.list("searches"));
    if domains.len() > MAX_SEARCHES {
        all.invalid(format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    let length: usize = domains.iter().map(|domain| domain.as_str().map_or(0, str::len) + 1).sum();
    if length > MAX_SEARCH_LENGTH + 1 {
        all.invalid(format!(
            "must not have more than {MAX_SEARCH_LENGTH} characters (including spaces) in the search list"
        ));
    }
    // The root has a name without labels.
    for domain in config.items("searches").filter(|domain| domain.as_text() != ".") {
        let text = domain.as_text();
        let shown = Value::from(text.strip_suffix('.').unwrap_or(text));
        domain.with(&shown).name(NameRule::SearchDomain);
    }
}

fn claims(spec: &Field<'_>) {
    let mut seen = BTreeSet::new();
    for claim in spec.items("resourceClaims") {
        unique(&claim.at("name"), &mut seen, claim.text("name"));
        claim.text_at("name").name(NameRule::Label);
        let sources = ["resourceClaimName", "resourceClaimTemplateName"].map(|field| claim.at(field));
        for source in sources.iter().filter(|source| source.is_string()) {
            source.name(NameRule::Subdomain);
        }
        let detail = match sources.map(|source| source.is_string()) {
            [true, true] => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            [false, false] => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => continue,
        };
        // The error shows the value in Go's field order.
        let shown = format!(
            "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
            claim["name"], claim["resourceClaimName"], claim["resourceClaimTemplateName"]
        );
        claim.invalid_as(shown, detail);
    }
}
