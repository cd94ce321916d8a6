//! Validation of a pod's spec outside its containers: scheduling, identity, network settings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{security, spreading};
use crate::{
    Cause,
    checks::{ip, items, name, one_of, qualified, selector, text},
    names::{self, NameRule},
};

/// Validates the parts of a pod's spec that concern more than its containers.
pub(super) fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, rule) in [
        ("serviceAccountName", NameRule::Subdomain),
        ("nodeName", NameRule::Subdomain),
        ("hostname", NameRule::Label),
        ("subdomain", NameRule::Label),
        ("priorityClassName", NameRule::Subdomain),
        ("runtimeClassName", NameRule::Subdomain),
    ] {
        if !text(spec, key).is_empty() {
            name(rule, &spec[key], &format!("{path}.{key}"), causes);
        }
    }
    tolerations(items(spec, "tolerations"), &format!("{path}.tolerations"), causes);
    affinity(&spec["affinity"], &format!("{path}.affinity"), causes);
    spreading::validate(spec, path, causes);
    security::of_pod(spec, path, causes);
    dns(spec, path, causes);
    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let own = format!("{path}.readinessGates[{index}].conditionType");
        qualified(text(gate, "conditionType"), &own, causes);
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let own = format!("{path}.schedulingGates[{index}]");
        qualified(text(gate, "name"), &own, causes);
        if !seen.insert(text(gate, "name")) {
            causes.push(Cause::duplicate(own, &gate["name"]));
        }
    }
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let own = format!("{path}.hostAliases[{index}]");
        address(&Value::from(text(alias, "ip")), &format!("{own}.ip"), causes);
        for (position, host) in items(alias, "hostnames").iter().enumerate() {
            name(NameRule::Subdomain, host, &format!("{own}.hostnames[{position}]"), causes);
        }
    }
    claims(items(spec, "resourceClaims"), &format!("{path}.resourceClaims"), causes);
    if spec["os"].is_object() {
        match text(&spec["os"], "name") {
            "" => causes.push(Cause::required(format!("{path}.os.name"), "")),
            "linux" | "windows" => {}
            _ => causes.push(Cause::unsupported(
                format!("{path}.os"),
                &spec["os"]["name"],
                &["linux", "windows"],
            )),
        }
    }
}

fn address(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if ip(value.as_str().unwrap_or_default()).is_none() {
        causes.push(Cause::invalid(
            path,
            value,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ));
    }
}

fn tolerations(tolerations: &[Value], path: &str, causes: &mut Vec<Cause>) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let own = format!("{path}[{index}]");
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let mut wrong = |field: &str, value: &Value, detail: &str| {
            causes.push(Cause::invalid(format!("{own}.{field}"), value, detail));
        };
        if !key.is_empty() {
            if let Some(problem) = names::qualified_name_problem(key) {
                wrong("key", &toleration["key"], &problem);
            }
        } else if operator != "Exists" {
            wrong(
                "operator",
                &Value::from(operator),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        let effect = text(toleration, "effect");
        if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
            wrong(
                "effect",
                &Value::from(effect),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        let value = text(toleration, "value");
        match operator {
            "" | "Equal" => {
                if let Some(problem) = names::label_value_problem(value) {
                    wrong("operator", &toleration["value"], &problem);
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    wrong(
                        "operator",
                        &toleration["value"],
                        "value must be empty when `operator` is 'Exists'",
                    );
                }
            }
            _ => causes.push(Cause::unsupported(
                format!("{own}.operator"),
                &toleration["operator"],
                &["Equal", "Exists"],
            )),
        }
        if !effect.is_empty() {
            one_of(
                &toleration["effect"],
                &format!("{own}.effect"),
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                causes,
            );
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn affinity(affinity: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (node, own) = (&affinity["nodeAffinity"], format!("{path}.nodeAffinity"));
    if node[REQUIRED].is_object() {
        let own = format!("{own}.{REQUIRED}.nodeSelectorTerms");
        let terms = items(&node[REQUIRED], "nodeSelectorTerms");
        if terms.is_empty() {
            causes.push(Cause::required(own.as_str(), "must have at least one node selector term"));
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, &format!("{own}[{index}]"), causes);
        }
    }
    for (index, preferred) in items(node, PREFERRED).iter().enumerate() {
        let own = format!("{own}.{PREFERRED}[{index}]");
        weight(preferred, &own, causes);
        node_term(&preferred["preference"], &format!("{own}.preference"), causes);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let own = format!("{path}.{kind}");
        for (index, term) in items(&affinity[kind], REQUIRED).iter().enumerate() {
            pod_term(term, &format!("{own}.{REQUIRED}[{index}]"), causes);
        }
        for (index, preferred) in items(&affinity[kind], PREFERRED).iter().enumerate() {
            let own = format!("{own}.{PREFERRED}[{index}]");
            weight(preferred, &own, causes);
            pod_term(&preferred["podAffinityTerm"], &format!("{own}.podAffinityTerm"), causes);
        }
    }
}

fn weight(preferred: &Value, path: &str, causes: &mut Vec<Cause>) {
    let weight = preferred["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        causes.push(Cause::invalid(format!("{path}.weight"), &json!(weight), "must be in the range 1-100"));
    }
}

fn node_term(term: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, expression) in items(term, "matchExpressions").iter().enumerate() {
        let own = format!("{path}.matchExpressions[{index}]");
        let values = items(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => causes.push(Cause::required(
                format!("{own}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => causes.push(Cause::forbidden(
                format!("{own}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if values.len() != 1 => causes.push(Cause::required(
                format!("{own}.values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            operator => causes.push(Cause::invalid(
                format!("{own}.operator"),
                &Value::from(operator),
                "not a valid selector operator",
            )),
        }
        if let Some(problem) = names::qualified_name_problem(text(expression, "key")) {
            causes.push(Cause::invalid(format!("{own}.key"), &Value::from(text(expression, "key")), problem));
        }
    }
    for (index, field) in items(term, "matchFields").iter().enumerate() {
        let own = format!("{path}.matchFields[{index}]");
        let values = items(field, "values");
        if !matches!(text(field, "operator"), "In" | "NotIn") {
            let detail = "not a valid selector operator";
            causes.push(Cause::invalid(format!("{own}.operator"), &field["operator"], detail));
        } else if values.len() != 1 {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.push(Cause::required(format!("{own}.values"), detail));
        }
        if field["key"] != "metadata.name" {
            let detail = "not a valid field selector key";
            causes.push(Cause::invalid(format!("{own}.key"), &field["key"], detail));
            continue;
        }
        for (position, value) in values.iter().enumerate() {
            name(NameRule::Subdomain, value, &format!("{own}.values[{position}]"), causes);
        }
    }
}

fn pod_term(term: &Value, path: &str, causes: &mut Vec<Cause>) {
    selector(&term["labelSelector"], &format!("{path}.labelSelector"), causes);
    selector(&term["namespaceSelector"], &format!("{path}.namespaceSelector"), causes);
    for namespace in items(term, "namespaces") {
        name(NameRule::Label, namespace, &format!("{path}.namespace"), causes);
    }
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        spreading::label_keys(term, field, path, causes);
    }
    let (key, own) = (text(term, "topologyKey"), format!("{path}.topologyKey"));
    if key.is_empty() {
        causes.push(Cause::required(own.as_str(), "can not be empty"));
    }
    qualified(key, &own, causes);
}

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_LENGTH: usize = 2048;

fn dns(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (config, own) = (&spec["dnsConfig"], format!("{path}.dnsConfig"));
    let servers = items(config, "nameservers");
    if spec["dnsPolicy"] == "None" {
        if !config.is_object() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            causes.push(Cause::required(own, detail));
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            causes.push(Cause::required(format!("{own}.nameservers"), detail));
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        causes.push(Cause::invalid(format!("{own}.nameservers"), &config["nameservers"], detail));
    }
    for (index, server) in servers.iter().enumerate() {
        address(server, &format!("{own}.nameservers[{index}]"), causes);
    }
    searches(&config["searches"], items(config, "searches"), &format!("{own}.searches"), causes);
    for (index, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            causes.push(Cause::required(format!("{own}.options[{index}]"), "must not be empty"));
        }
    }
}

fn searches(all: &Value, domains: &[Value], path: &str, causes: &mut Vec<Cause>) {
    if domains.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        causes.push(Cause::invalid(path, all, detail));
    }
    let length: usize = domains.iter().map(|domain| domain.as_str().map_or(0, str::len) + 1).sum();
    if length > MAX_SEARCH_LENGTH + 1 {
        let detail = format!(
            "must not have more than {MAX_SEARCH_LENGTH} characters (including spaces) in the search list"
        );
        causes.push(Cause::invalid(path, all, detail));
    }
    for (index, domain) in domains.iter().enumerate() {
        let text = domain.as_str().unwrap_or_default();
        // The root has a name without labels.
        if text != "." {
            let shown = Value::from(text.strip_suffix('.').unwrap_or(text));
            name(NameRule::SearchDomain, &shown, &format!("{path}[{index}]"), causes);
        }
    }
}

fn claims(claims: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let own = format!("{path}[{index}].name");
        if !seen.insert(text(claim, "name")) {
            causes.push(Cause::duplicate(own.as_str(), &claim["name"]));
        }
        name(NameRule::Label, &Value::from(text(claim, "name")), &own, causes);
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if claim[field].is_string() {
                name(NameRule::Subdomain, &claim[field], &format!("{path}[{index}].{field}"), causes);
            }
        }
        let given = (claim["resourceClaimName"].is_string(), claim["resourceClaimTemplateName"].is_string());
        let detail = match given {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => continue,
        };
        // The error shows the value in Go's field order.
        let shown = format!(
            "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
            claim["name"], claim["resourceClaimName"], claim["resourceClaimTemplateName"]
        );
        causes.push(Cause::invalid_as(format!("{path}[{index}]"), shown, detail));
    }
}
