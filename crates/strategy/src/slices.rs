//! EndpointSlices, and the older Endpoints. Loopback addresses are valid, because pods of local mode have them.

use std::{
    collections::{BTreeSet, HashSet},
    net::IpAddr,
};

use serde_json::Value;

use super::{
    Strategy,
    checks::{ip, items, name, one_of, text},
    names::{self, NameRule},
    update::differs,
};
use crate::Cause;

/// The most addresses of an endpoint.
const MAX_ADDRESSES: usize = 100;
const ENDPOINTS: usize = 1000;
const PORTS: usize = 20_000;

/// EndpointSlices.
#[derive(Debug)]
pub(crate) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, value: &mut Value) {
        drop_topology(value);
    }

    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate(value, live)
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        warnings(value)
    }

    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        differs(value, live, true)
    }
}

/// Endpoints.
#[derive(Debug)]
pub(crate) struct Endpoints;

impl Strategy for Endpoints {
    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        validate_endpoints(value)
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}

/// Drops the fields that clients can only read, and only if an older API version wrote them.
fn drop_topology(value: &mut Value) {
    let endpoints = value.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_object_mut) {
        endpoint.remove("deprecatedTopology");
    }
}

/// Returns warnings about settings that are valid but may surprise the user.
fn warnings(value: &Value) -> Vec<String> {
    if value["addressType"] == "FQDN" {
        return vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()];
    }
    Vec::new()
}

/// Returns all validation errors of a slice.
fn validate(value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = text(value, "addressType");
    if kind.is_empty() {
        causes.push(Cause::required("addressType", ""));
    } else {
        one_of(&value["addressType"], "addressType", &["FQDN", "IPv4", "IPv6"], &mut causes);
    }
    if items(value, "endpoints").len() > ENDPOINTS {
        causes.push(Cause::too_many("endpoints", items(value, "endpoints").len(), ENDPOINTS));
    }
    // an update does not refuse what is stored
    let stored = live.map(|live| items(live, "endpoints")).unwrap_or_default();
    let known: HashSet<&Value> = stored.iter().flat_map(|endpoint| items(endpoint, "addresses")).collect();
    for (index, endpoint) in items(value, "endpoints").iter().enumerate() {
        validate_endpoint(kind, endpoint, &known, &format!("endpoints[{index}]"), &mut causes);
    }
    ports(value, &mut causes);
    if let Some(live) = live
        && live["addressType"] != value["addressType"]
    {
        causes.push(Cause::invalid("addressType", &Value::from(kind), "field is immutable"));
    }
    causes
}

fn validate_endpoint(
    kind: &str,
    endpoint: &Value,
    known: &HashSet<&Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let addresses = items(endpoint, "addresses");
    let field = format!("{path}.addresses");
    if addresses.is_empty() {
        causes.push(Cause::required(field.as_str(), "must contain at least 1 address"));
    } else if addresses.len() > MAX_ADDRESSES {
        causes.push(Cause::too_many(&field, addresses.len(), MAX_ADDRESSES));
    }
    for (index, address) in addresses.iter().enumerate().take(MAX_ADDRESSES) {
        if known.contains(address) {
            continue;
        }
        let own = format!("{field}[{index}]");
        match (kind, ip(address.as_str().unwrap_or_default())) {
            ("FQDN", _) => name(NameRule::Subdomain, address, &own, causes),
            ("IPv4" | "IPv6", None) => causes.push(Cause::invalid(
                own,
                address,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )),
            ("IPv4" | "IPv6", Some(found)) => {
                if found.is_ipv4() != (kind == "IPv4") {
                    causes.push(Cause::invalid(
                        field.as_str(),
                        address,
                        format!("must be an {kind} address"),
                    ));
                }
                if !found.is_loopback() {
                    special(found, address, &own, causes);
                }
            }
            _ => {}
        }
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        for problem in names::problems(NameRule::Subdomain, node) {
            causes.push(Cause::invalid(format!("{path}.nodeName"), &endpoint["nodeName"], problem));
        }
    }
    if endpoint["hostname"].is_string() {
        name(NameRule::Label, &endpoint["hostname"], &format!("{path}.hostname"), causes);
    }
    let mut zones = BTreeSet::new();
    for (index, zone) in items(&endpoint["hints"], "forZones").iter().enumerate() {
        if !zones.insert(text(zone, "name")) {
            causes.push(Cause::duplicate(format!("{path}.hints.forZones[{index}].name"), &zone["name"]));
        }
    }
}

/// Refuses addresses that other machines cannot reach.
pub(super) fn special(address: IpAddr, shown: &Value, path: &str, causes: &mut Vec<Cause>) {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let link_local_multicast = match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    let detail = if address.is_unspecified() {
        format!("may not be unspecified ({address})")
    } else if address.is_loopback() {
        "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()
    } else if link_local {
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
    } else if link_local_multicast {
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()
    } else {
        return;
    };
    causes.push(Cause::invalid(path, shown, detail));
}

fn ports(value: &Value, causes: &mut Vec<Cause>) {
    if items(value, "ports").len() > PORTS {
        causes.push(Cause::too_many("ports", items(value, "ports").len(), PORTS));
    }
    let mut seen = BTreeSet::new();
    for (index, port) in items(value, "ports").iter().enumerate() {
        let path = format!("ports[{index}]");
        if !text(port, "name").is_empty() {
            name(NameRule::Label, &port["name"], &format!("{path}.name"), causes);
        }
        if !seen.insert(text(port, "name")) {
            causes.push(Cause::duplicate(format!("{path}.name"), &port["name"]));
        }
        one_of(&port["protocol"], &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"], causes);
        if let Some(protocol) = port["appProtocol"].as_str()
            && let Some(problem) = names::qualified_name_problem(protocol)
        {
            causes.push(Cause::invalid(format!("{path}.appProtocol"), &port["appProtocol"], problem));
        }
    }
}

/// Validates an Endpoints object.
fn validate_endpoints(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, subset) in items(value, "subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        if ["addresses", "notReadyAddresses"].iter().all(|key| items(subset, key).is_empty()) {
            causes.push(Cause::required(path.as_str(), "must specify `addresses` or `notReadyAddresses`"));
        }
        for key in ["addresses", "notReadyAddresses"] {
            for (position, address) in items(subset, key).iter().enumerate() {
                let own = format!("{path}.{key}[{position}]");
                if address["hostname"].is_string() {
                    name(NameRule::Label, &address["hostname"], &format!("{own}.hostname"), &mut causes);
                }
                let given = &address["ip"];
                match ip(text(address, "ip")) {
                    None => causes.push(Cause::invalid(
                        format!("{own}.ip"),
                        &Value::from(text(address, "ip")),
                        "must be a valid IP address",
                    )),
                    Some(found) if found.is_loopback() => {}
                    Some(found) => special(found, given, &format!("{own}.ip"), &mut causes),
                }
            }
        }
        let ports = items(subset, "ports");
        for (position, port) in ports.iter().enumerate() {
            let own = format!("{path}.ports[{position}]");
            if text(port, "name").is_empty() && ports.len() > 1 {
                causes.push(Cause::required(format!("{own}.name"), ""));
            } else if !text(port, "name").is_empty() {
                name(NameRule::Label, &port["name"], &format!("{own}.name"), &mut causes);
            }
            let number = Value::from(port["port"].as_i64().unwrap_or(0));
            super::checks::port(&number, &format!("{own}.port"), &mut causes);
            one_of(&port["protocol"], &format!("{own}.protocol"), &["SCTP", "TCP", "UDP"], &mut causes);
        }
    }
    causes
}
