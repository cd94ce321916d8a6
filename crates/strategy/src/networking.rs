//! Ingresses and NetworkPolicies.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::{cidr, ip, items, name, one_of, port, port_name, selector, text},
    names::NameRule,
};
use crate::Cause;

/// Ingresses.
#[derive(Debug)]
pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn refused_if_empty(&self, value: &Value) -> Option<(&'static str, &'static str)> {
        (!value["spec"]["defaultBackend"].is_object()).then_some(("/spec", "rules"))
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"loadBalancer": {}});
    }

    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        ingress(&value["spec"], &mut causes);
        causes
    }
}

/// NetworkPolicies.
#[derive(Debug)]
pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        policy(&value["spec"], &mut causes);
        if live.is_some() {
            // updates look at the spec twice, and say so twice
            causes.extend(causes.clone());
        }
        causes
    }
}

fn ingress(spec: &Value, causes: &mut Vec<Cause>) {
    let rules = items(spec, "rules");
    if rules.is_empty() && !spec["defaultBackend"].is_object() {
        causes.push(Cause::invalid(
            "spec",
            spec.get("rules").unwrap_or(&Value::Null),
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if spec["defaultBackend"].is_object() {
        backend(&spec["defaultBackend"], "spec.defaultBackend", causes);
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        for (position, host) in items(tls, "hosts").iter().enumerate() {
            dns_name(host, &format!("spec.tls[{index}].hosts[{position}]"), causes);
        }
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        let host = text(rule, "host");
        if !host.is_empty() {
            if ip(host).is_some() {
                causes.push(Cause::invalid(
                    format!("{path}.host"),
                    &rule["host"],
                    "must be a DNS name, not an IP address",
                ));
            } else {
                dns_name(&rule["host"], &format!("{path}.host"), causes);
            }
        }
        if !rule["http"].is_object() {
            continue;
        }
        let paths = items(&rule["http"], "paths");
        if paths.is_empty() {
            causes.push(Cause::required(format!("{path}.http.paths"), ""));
        }
        for (position, entry) in paths.iter().enumerate() {
            http_path(entry, &format!("{path}.http.paths[{position}]"), causes);
        }
    }
    if spec["ingressClassName"].is_string() {
        name(NameRule::Subdomain, &spec["ingressClassName"], "spec.ingressClassName", causes);
    }
}

/// Checks for a DNS name, or for a DNS name whose first label is `*`.
fn dns_name(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let is_wildcard = value.as_str().is_some_and(|host| host.starts_with("*."));
    name(if is_wildcard { NameRule::Wildcard } else { NameRule::Subdomain }, value, path, causes);
}

fn http_path(entry: &Value, path: &str, causes: &mut Vec<Cause>) {
    let given = text(entry, "path");
    let own = format!("{path}.path");
    let mut wrong = |detail: &str| causes.push(Cause::invalid(own.as_str(), &Value::from(given), detail));
    match entry["pathType"].as_str() {
        None => {
            causes.push(Cause::required(format!("{path}.pathType"), "pathType must be specified"));
            return;
        }
        Some("Exact" | "Prefix") => {
            if !given.starts_with('/') {
                wrong("must be an absolute path");
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if given.contains(bad) {
                    wrong(&format!("must not contain '{bad}'"));
                }
            }
            for bad in ["/..", "/."] {
                if given.ends_with(bad) {
                    wrong(&format!("cannot end with '{bad}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !given.is_empty() && !given.starts_with('/') {
                wrong("must be an absolute path");
            }
        }
        Some(_) => one_of(
            &entry["pathType"],
            &format!("{path}.pathType"),
            &["Exact", "ImplementationSpecific", "Prefix"],
            causes,
        ),
    }
    backend(&entry["backend"], &format!("{path}.backend"), causes);
}

fn backend(backend: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (service, other) = (&backend["service"], &backend["resource"]);
    if other.is_object() && service.is_object() {
        causes.push(Cause::invalid(path, &json!(""), "cannot set both resource and service backends"));
        return;
    }
    if other.is_object() {
        return;
    }
    if !service.is_object() {
        causes.push(Cause::invalid(path, &json!(""), "resource or service backend is required"));
        return;
    }
    if text(service, "name").is_empty() {
        causes.push(Cause::required(format!("{path}.service.name"), ""));
    } else {
        name(NameRule::Label1035, &service["name"], &format!("{path}.service.name"), causes);
    }
    let chosen = &service["port"];
    let number = chosen["number"].as_i64().filter(|number| *number != 0);
    match (text(chosen, "name"), number) {
        ("", None) => causes.push(Cause::required(path, "port name or number is required")),
        ("", Some(_)) => port(&chosen["number"], &format!("{path}.service.port.number"), causes),
        (_, None) => port_name(&chosen["name"], &format!("{path}.service.port.name"), causes),
        (_, Some(_)) => {
            causes.push(Cause::invalid(path, &json!(""), "cannot set both port name & port number"));
        }
    }
}

fn policy(spec: &Value, causes: &mut Vec<Cause>) {
    selector(&spec["podSelector"], "spec.podSelector", causes);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, direction).iter().enumerate() {
            let path = format!("spec.{direction}[{index}]");
            for (position, entry) in items(rule, "ports").iter().enumerate() {
                policy_port(entry, &format!("{path}.ports[{position}]"), causes);
            }
            for (position, entry) in items(rule, peers).iter().enumerate() {
                peer(entry, &format!("{path}.{peers}[{position}]"), causes);
            }
        }
    }
    let types = items(spec, "policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        causes.push(Cause::invalid("spec.policyTypes", &spec["policyTypes"], detail));
        return;
    }
    for (index, kind) in types.iter().enumerate() {
        one_of(kind, &format!("spec.policyTypes[{index}]"), &["Ingress", "Egress"], causes);
    }
}

fn policy_port(entry: &Value, path: &str, causes: &mut Vec<Cause>) {
    one_of(&entry["protocol"], &format!("{path}.protocol"), &["TCP", "UDP", "SCTP"], causes);
    let own = format!("{path}.port");
    port(&entry["port"], &own, causes);
    port_name(&entry["port"], &own, causes);
    let Some(last) = entry["endPort"].as_i64() else { return };
    let own = format!("{path}.endPort");
    match &entry["port"] {
        Value::Null => {
            let detail = "may not be specified when `port` is not specified";
            causes.push(Cause::invalid(own, &json!(last), detail));
        }
        Value::String(_) => {
            causes.push(Cause::invalid(own, &json!(last), "may not be specified when `port` is non-numeric"));
        }
        first => {
            if first.as_i64().is_some_and(|first| last < first) {
                causes.push(Cause::invalid(own.as_str(), first, "must be greater than or equal to `port`"));
            }
            port(&entry["endPort"], &own, causes);
        }
    }
}

fn peer(entry: &Value, path: &str, causes: &mut Vec<Cause>) {
    let given =
        ["podSelector", "namespaceSelector", "ipBlock"].into_iter().filter(|key| entry[key].is_object());
    let given: Vec<&str> = given.collect();
    if given.is_empty() {
        causes.push(Cause::required(path, "must specify a peer"));
    }
    for key in &given {
        if *key == "ipBlock" {
            block(&entry["ipBlock"], &format!("{path}.ipBlock"), causes);
        } else {
            selector(&entry[*key], &format!("{path}.{key}"), causes);
        }
    }
    if given.len() > 1 && given.contains(&"ipBlock") {
        causes.push(Cause::forbidden(path, "may not specify both ipBlock and another peer"));
    }
}

fn block(block: &Value, path: &str, causes: &mut Vec<Cause>) {
    const NOT_A_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let Some(range) = cidr(text(block, "cidr")) else {
        causes.push(if text(block, "cidr").is_empty() {
            Cause::required(format!("{path}.cidr"), "")
        } else {
            Cause::invalid(format!("{path}.cidr"), &block["cidr"], NOT_A_CIDR)
        });
        return;
    };
    for (index, except) in items(block, "except").iter().enumerate() {
        let own = format!("{path}.except[{index}]");
        match cidr(except.as_str().unwrap_or_default()) {
            None => causes.push(Cause::invalid(own, except, NOT_A_CIDR)),
            Some((base, bits)) => {
                let (outer, width) = range;
                let shift = 128 - width;
                let inside = shift == 128 || base >> shift == outer >> shift;
                if !inside || bits <= width {
                    causes.push(Cause::invalid(own, except, "must be a strict subset of `cidr`"));
                }
            }
        }
    }
}
