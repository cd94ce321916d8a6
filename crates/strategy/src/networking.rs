//! Ingresses and NetworkPolicies.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::{NOT_A_CIDR, cidr, ip, port, port_name, selector, typed_reference},
    names::NameRule,
};
use crate::Field;

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

    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        let spec = object.at("spec");
        let (rules, default) = (spec.at("rules"), spec.at("defaultBackend"));
        if default.is_object() {
            backend(&default);
        } else if spec.list("rules").is_empty() {
            rules.named("spec").invalid("either `defaultBackend` or `rules` must be specified");
        }
        for tls in spec.items("tls") {
            tls.items("hosts").for_each(|host| dns_name(&host));
            tls.at("secretName").optional_name(NameRule::Subdomain);
        }
        for rule in spec.items("rules") {
            let host = rule.at("host");
            if ip(host.as_text()).is_some() {
                host.invalid("must be a DNS name, not an IP address");
            } else if !host.as_text().is_empty() {
                dns_name(&host);
            }
            if !rule["http"].is_object() {
                continue;
            }
            if rule.list("http.paths").is_empty() {
                rule.at("http.paths").required("");
            }
            rule.items("http.paths").for_each(|path| http_path(&path));
        }
        let class = spec.at("ingressClassName");
        if class.is_string() {
            class.name(NameRule::Subdomain);
        }
    }
}

/// NetworkPolicies.
#[derive(Debug)]
pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        policy(&object.at("spec"));
        if live.is_some() {
            // updates look at the spec twice, and say so twice
            object.repeat();
        }
    }
}

/// Checks for a DNS name, or for a DNS name whose first label is `*`.
fn dns_name(host: &Field<'_>) {
    let is_wildcard = host.as_text().starts_with("*.");
    host.name(if is_wildcard { NameRule::Wildcard } else { NameRule::Subdomain });
}

fn http_path(entry: &Field<'_>) {
    let (path, kind) = (entry.text_at("path"), entry.at("pathType"));
    let given = path.as_text();
    match kind.as_str() {
        None => {
            kind.required("pathType must be specified");
            return;
        }
        Some("Exact" | "Prefix") => {
            if !given.starts_with('/') {
                path.invalid("must be an absolute path");
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|bad| given.contains(bad)) {
                path.invalid(format!("must not contain '{bad}'"));
            }
            for bad in ["/..", "/."].into_iter().filter(|bad| given.ends_with(bad)) {
                path.invalid(format!("cannot end with '{bad}'"));
            }
        }
        Some("ImplementationSpecific") => {
            if !given.is_empty() && !given.starts_with('/') {
                path.invalid("must be an absolute path");
            }
        }
        Some(_) => kind.unsupported(&["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&entry.at("backend"));
}

fn backend(backend: &Field<'_>) {
    let wrong = |detail: &str| backend.invalid_as("\"\"", detail);
    match (backend["service"].is_object(), backend["resource"].is_object()) {
        (true, true) => return wrong("cannot set both resource and service backends"),
        (false, true) => return typed_reference(&backend.at("resource")),
        (false, false) => return wrong("resource or service backend is required"),
        (true, false) => {}
    }
    backend.at("service.name").required_name(NameRule::Label1035);
    let (name, number) = (backend.at("service.port.name"), backend.at("service.port.number"));
    match (name.as_text(), number.as_i64().filter(|number| *number != 0)) {
        ("", None) => backend.required("port name or number is required"),
        ("", Some(_)) => port(&number),
        (_, None) => port_name(&name),
        (_, Some(_)) => wrong("cannot set both port name & port number"),
    }
}

fn policy(spec: &Field<'_>) {
    selector(&spec.at("podSelector"));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.items(direction) {
            rule.items("ports").for_each(|entry| policy_port(&entry));
            rule.items(peers).for_each(|entry| peer(&entry));
        }
    }
    if spec.list("policyTypes").len() > 2 {
        spec.at("policyTypes").invalid("may not specify more than two policyTypes");
        return;
    }
    spec.items("policyTypes").for_each(|kind| kind.one_of(&["Ingress", "Egress"]));
}

fn policy_port(entry: &Field<'_>) {
    entry.at("protocol").one_of(&["TCP", "UDP", "SCTP"]);
    let (first, last) = (entry.at("port"), entry.at("endPort"));
    port(&first);
    port_name(&first);
    let Some(number) = last.as_i64() else { return };
    match first.value {
        Value::Null => last.invalid("may not be specified when `port` is not specified"),
        Value::String(_) => last.invalid("may not be specified when `port` is non-numeric"),
        value => {
            if value.as_i64().is_some_and(|first| number < first) {
                last.invalid_as(value, "must be greater than or equal to `port`");
            }
            port(&last);
        }
    }
}

fn peer(entry: &Field<'_>) {
    let given = ["podSelector", "namespaceSelector", "ipBlock"];
    let given: Vec<&str> = given.into_iter().filter(|key| entry[key].is_object()).collect();
    if given.is_empty() {
        entry.required("must specify a peer");
    }
    for key in &given {
        if *key == "ipBlock" { block(&entry.at(key)) } else { selector(&entry.at(key)) }
    }
    if given.len() > 1 && given.contains(&"ipBlock") {
        entry.forbidden("may not specify both ipBlock and another peer");
    }
}

fn block(block: &Field<'_>) {
    let range = block.at("cidr");
    let Some((outer, width)) = cidr(range.as_text()) else {
        return if range.as_text().is_empty() { range.required("") } else { range.invalid(NOT_A_CIDR) };
    };
    for except in block.items("except") {
        let Some((base, bits)) = cidr(except.as_text()) else {
            except.invalid(NOT_A_CIDR);
            continue;
        };
        let shift = 128 - width;
        let inside = shift == 128 || base >> shift == outer >> shift;
        if !inside || bits <= width {
            except.invalid("must be a strict subset of `cidr`");
        }
    }
}
