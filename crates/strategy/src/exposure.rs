//! Validation of a Service's spec, except for the numbers and names of its ports.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    checks::{NOT_A_CIDR, NOT_AN_IP, cidr, ip, labels, qualified, special_address, unique, within},
    defaults::is_zero,
    names::NameRule,
};
use crate::Field;

/// Validates a Service's spec, except for the numbers and names of its ports.
pub(super) fn validate(spec: &Field<'_>) {
    let kind = spec.text("type");
    let is_balanced = kind == "LoadBalancer";
    if kind == "ExternalName" {
        let name = spec.at("externalName");
        // The value of a CNAME may end with a dot, which says that it is fully qualified. kube-apiserver removes one.
        let shown = name.as_text().strip_suffix('.').unwrap_or(name.as_text()).into();
        let name = name.with(&shown);
        name.not_empty("");
        if !name.as_text().is_empty() {
            name.name(NameRule::Subdomain);
        }
    }
    labels(&spec.at("selector"));
    spec.at("sessionAffinity").one_of(&["ClientIP", "None"]);
    let class = spec.at("loadBalancerClass");
    if let Some(name) = class.as_str() {
        qualified(&class, name);
    }
    if spec["sessionAffinity"] == "ClientIP" {
        let seconds = spec.at("sessionAffinityConfig.clientIP.timeoutSeconds");
        within(&seconds, 1..=86_400, "must be greater than 0 and less than 86400");
    }
    for address in spec.items("externalIPs") {
        match ip(address.as_text()) {
            None => address.invalid(NOT_AN_IP),
            Some(found) => special_address(found, &address),
        }
    }
    // kube-apiserver writes the name as in Go.
    let ranges = "spec.LoadBalancerSourceRanges";
    for (index, range) in spec.items("loadBalancerSourceRanges").enumerate() {
        if cidr(range.as_text().trim()).is_none() {
            range.named(format!("{ranges}[{index}]")).invalid(NOT_A_CIDR);
        }
    }
    if !is_balanced {
        for (key, own) in [
            ("loadBalancerSourceRanges", ranges),
            ("allocateLoadBalancerNodePorts", "spec.allocateLoadBalancerNodePorts"),
            ("loadBalancerClass", "spec.loadBalancerClass"),
        ] {
            if spec[key].as_array().map_or(!spec[key].is_null(), |list| !list.is_empty()) {
                spec.at(key).named(own).forbidden("may only be used when `type` is 'LoadBalancer'");
            }
        }
    }
    policies(spec);
    addresses(spec);
}

/// Validates what a server looks at before it allocates addresses: cluster IPs and their families.
pub(super) fn addresses(spec: &Field<'_>) {
    let all = spec.at("clusterIPs");
    let (first, given) = (spec.text("clusterIP"), spec.list("clusterIPs"));
    if spec["type"] == "ExternalName" {
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"].map(|key| spec.at(key)) {
            if !is_zero(&field) {
                field.forbidden("may not be set for ExternalName services");
            }
        }
        return;
    }
    families(spec);
    match given.first() {
        Some(_) if first.is_empty() => all.invalid("must be empty when `clusterIP` is not specified"),
        Some(address) if *address != first => all.invalid("first value must match `clusterIP`"),
        _ => {}
    }
    let before = spec.count();
    for (index, address) in spec.items("clusterIPs").enumerate() {
        if index > 0 || address.as_text() != "None" {
            if ip(address.as_text()).is_none() {
                address.invalid(NOT_AN_IP);
            }
        } else if given.len() > 1 {
            all.invalid("'None' must be the first and only value");
        }
    }
    if given.len() > 2 {
        all.invalid("may only hold up to 2 values");
    }
    let are_of_one_family = |pair: &[Value]| {
        let [one, other] = [0, 1].map(|at| pair[at].as_str().and_then(ip).map(|address| address.is_ipv4()));
        one == other
    };
    if spec.count() == before && given.windows(2).any(are_of_one_family) {
        all.invalid("may specify no more than one IP for each IP family");
    }
}

/// Whether a Service can be reached from outside of the cluster.
pub(super) fn is_external(spec: &Value) -> bool {
    match spec["type"].as_str().unwrap_or_default() {
        "NodePort" | "LoadBalancer" => true,
        kind => kind == "ClusterIP" && spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty()),
    }
}

fn policies(spec: &Field<'_>) {
    let kind = spec.text("type");
    let policy = spec.at("externalTrafficPolicy");
    match policy.as_text() {
        "" => {}
        _ if is_external(spec) => policy.one_of(&["Cluster", "Local"]),
        _ => policy.invalid("may only be set for externally-accessible services"),
    }
    spec.at("internalTrafficPolicy").one_of(&["Cluster", "Local"]);
    let checked = kind == "LoadBalancer" && policy.as_text() == "Local";
    let port = spec.at("healthCheckNodePort");
    if !checked && port.as_i64().is_some_and(|port| port != 0) {
        port.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
    }
    spec.at("trafficDistribution").one_of(&["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

/// Validates the IP families. This server only has IPv4.
fn families(spec: &Field<'_>) {
    let policy = spec.at("ipFamilyPolicy");
    policy.one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"]);
    // a headless Service without a selector may have both families, even in a single-stack cluster
    let is_free = spec["clusterIP"] == "None";
    if policy.as_text() == "RequireDualStack" && !is_free {
        policy.invalid("this cluster is not configured for dual-stack services");
    }
    let mut seen = BTreeSet::new();
    for family in spec.items("ipFamilies") {
        unique(&family, &mut seen, family.as_text());
        if family.as_text() == "IPv6" && !is_free {
            family.invalid("not configured on this cluster");
        } else {
            family.one_of(&["IPv4", "IPv6"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::validate;
    use crate::causes_of;

    #[test]
    fn an_external_name_may_end_with_one_dot() {
        let reasons = |name: &str| {
            let spec = json!({"type": "ExternalName", "externalName": name});
            let causes = causes_of(&spec, "spec", validate).into_iter();
            let own = causes.filter(|cause| cause.field == "spec.externalName");
            own.map(|cause| cause.reason).collect::<Vec<_>>()
        };
        for (name, expected) in [
            ("a.example", vec![]),
            ("a.example.", vec![]),
            ("a.example..", vec!["FieldValueInvalid"]),
            (".", vec!["FieldValueRequired"]),
            ("", vec!["FieldValueRequired"]),
        ] {
            assert_eq!(reasons(name), expected, "{name:?}");
        }
    }
}
