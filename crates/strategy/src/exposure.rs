//! Validation of a Service's spec, except for the numbers and names of its ports.

use serde_json::Value;

use super::{
    checks::{cidr, ip, items, labels, name, one_of, port_name, text},
    names::{self, NameRule},
    slices,
};
use crate::Cause;

/// Validates a Service's spec, except for the numbers and names of its ports.
pub(super) fn validate(spec: &Value, causes: &mut Vec<Cause>) {
    let kind = text(spec, "type");
    let external = matches!(kind, "NodePort" | "LoadBalancer") || !items(spec, "externalIPs").is_empty();
    if kind == "ExternalName" {
        let target = text(spec, "externalName");
        if target.is_empty() {
            causes.push(Cause::required("spec.externalName", ""));
        } else {
            name(
                NameRule::Subdomain,
                &Value::from(target.trim_end_matches('.')),
                "spec.externalName",
                causes,
            );
        }
    }
    if spec["selector"].is_object() {
        labels(&spec["selector"], "spec.selector", causes);
    }
    one_of(&spec["sessionAffinity"], "spec.sessionAffinity", &["ClientIP", "None"], causes);
    if spec["sessionAffinity"] == "ClientIP" {
        let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
        if seconds.as_i64().is_some_and(|seconds| !(1..=86_400).contains(&seconds)) {
            causes.push(Cause::invalid(
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                seconds,
                "must be greater than 0 and less than 86400",
            ));
        }
    }
    if !items(spec, "clusterIPs").is_empty() && text(spec, "clusterIP").is_empty() {
        let detail = "must be empty when `clusterIP` is not specified";
        causes.push(Cause::invalid("spec.clusterIPs", &spec["clusterIPs"], detail));
    }
    for (index, address) in items(spec, "externalIPs").iter().enumerate() {
        let own = format!("spec.externalIPs[{index}]");
        match ip(address.as_str().unwrap_or_default()) {
            None => causes.push(Cause::invalid(
                own,
                address,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )),
            Some(found) => slices::special(found, address, &own, causes),
        }
    }
    if kind == "LoadBalancer" {
        for (index, range) in items(spec, "loadBalancerSourceRanges").iter().enumerate() {
            if cidr(range.as_str().unwrap_or_default().trim()).is_none() {
                causes.push(Cause::invalid(
                    format!("spec.loadBalancerSourceRanges[{index}]"),
                    range,
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ));
            }
        }
    } else {
        for (index, range) in items(spec, "loadBalancerSourceRanges").iter().enumerate() {
            if cidr(range.as_str().unwrap_or_default().trim()).is_none() {
                causes.push(Cause::invalid(
                    format!("spec.LoadBalancerSourceRanges[{index}]"),
                    range,
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ));
            }
        }
        for (key, own) in [
            ("loadBalancerSourceRanges", "spec.LoadBalancerSourceRanges"),
            ("allocateLoadBalancerNodePorts", "spec.allocateLoadBalancerNodePorts"),
            ("loadBalancerClass", "spec.loadBalancerClass"),
        ] {
            if spec[key].as_array().map_or(!spec[key].is_null(), |list| !list.is_empty()) {
                causes.push(Cause::forbidden(own, "may only be used when `type` is 'LoadBalancer'"));
            }
        }
    }
    policies(spec, external, causes);
    families(spec, causes);
}

fn policies(spec: &Value, external: bool, causes: &mut Vec<Cause>) {
    let policy = text(spec, "externalTrafficPolicy");
    if !policy.is_empty() && !external {
        causes.push(Cause::invalid(
            "spec.externalTrafficPolicy",
            &spec["externalTrafficPolicy"],
            "may only be set for externally-accessible services",
        ));
    } else if external && !policy.is_empty() {
        one_of(&spec["externalTrafficPolicy"], "spec.externalTrafficPolicy", &["Cluster", "Local"], causes);
    }
    one_of(&spec["internalTrafficPolicy"], "spec.internalTrafficPolicy", &["Cluster", "Local"], causes);
    let checked = text(spec, "type") == "LoadBalancer" && policy == "Local";
    if !checked && spec["healthCheckNodePort"].as_i64().is_some_and(|port| port != 0) {
        causes.push(Cause::invalid(
            "spec.healthCheckNodePort",
            &spec["healthCheckNodePort"],
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ));
    }
    one_of(
        &spec["trafficDistribution"],
        "spec.trafficDistribution",
        &["PreferClose", "PreferSameZone", "PreferSameNode"],
        causes,
    );
}

/// Validates the IP families. This server only has IPv4.
fn families(spec: &Value, causes: &mut Vec<Cause>) {
    one_of(
        &spec["ipFamilyPolicy"],
        "spec.ipFamilyPolicy",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
        causes,
    );
    // a headless Service without a selector may have both families, even in a single-stack cluster
    let is_free = spec["clusterIP"] == "None";
    if spec["ipFamilyPolicy"] == "RequireDualStack" && !is_free {
        causes.push(Cause::invalid(
            "spec.ipFamilyPolicy",
            &spec["ipFamilyPolicy"],
            "this cluster is not configured for dual-stack services",
        ));
    }
    for (index, family) in items(spec, "ipFamilies").iter().enumerate() {
        let own = format!("spec.ipFamilies[{index}]");
        if family == "IPv6" && !is_free {
            causes.push(Cause::invalid(own, family, "not configured on this cluster"));
        } else {
            one_of(family, &own, &["IPv4", "IPv6"], causes);
        }
    }
}

/// Validates a port except for its number, name and protocol.
pub(super) fn port(port: &Value, path: &str, causes: &mut Vec<Cause>) {
    port_name(&port["targetPort"], &format!("{path}.targetPort"), causes);
    if let Some(protocol) = port["appProtocol"].as_str()
        && let Some(problem) = names::qualified_name_problem(protocol)
    {
        causes.push(Cause::invalid(format!("{path}.appProtocol"), &port["appProtocol"], problem));
    }
}

/// Returns the error for a duplicate port. The value has the form that Go shows.
pub(super) fn twice(port: &Value, path: &str) -> Cause {
    let shown = format!(
        "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
        port["protocol"], port["port"]
    );
    Cause {
        reason: "FieldValueDuplicate",
        message: format!("Duplicate value: {shown}"),
        field: path.to_owned(),
    }
}
