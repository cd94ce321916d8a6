//! EndpointSlices, and the older Endpoints. Loopback addresses are valid, because pods of local mode have them.

use std::{
    collections::{BTreeSet, HashSet},
    net::IpAddr,
};

use serde_json::Value;

use super::{
    Strategy,
    checks::{IMMUTABLE, NOT_AN_IP, ip, required_port},
    exposure::app_protocol,
    names::NameRule,
    service::PROTOCOLS,
    update::differs,
};
use crate::Field;

/// The most addresses of an endpoint.
const MAX_ADDRESSES: usize = 100;
const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;

/// EndpointSlices.
#[derive(Debug)]
pub(crate) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, value: &mut Value) {
        // Clients can only read these fields, and only if an older API version wrote them.
        let endpoints = value.get_mut("endpoints").and_then(Value::as_array_mut);
        for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_object_mut) {
            endpoint.remove("deprecatedTopology");
        }
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let kind = object.at("addressType");
        kind.not_empty("");
        if !kind.as_text().is_empty() {
            kind.one_of(&["FQDN", "IPv4", "IPv6"]);
        }
        object.at("endpoints").at_most(MAX_ENDPOINTS);
        // an update does not refuse what is stored
        let stored = live.and_then(|live| live["endpoints"].as_array()).into_iter().flatten();
        let known = stored.flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
        let known: HashSet<&Value> = known.collect();
        object.items("endpoints").for_each(|endpoint| validate_endpoint(kind.as_text(), &endpoint, &known));
        ports(object);
        if live.is_some_and(|live| live["addressType"] != *kind.value) {
            object.text_at("addressType").invalid(IMMUTABLE);
        }
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        if value["addressType"] == "FQDN" {
            return vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()];
        }
        Vec::new()
    }

    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        differs(value, live, true)
    }
}

/// Endpoints.
#[derive(Debug)]
pub(crate) struct Endpoints;

impl Strategy for Endpoints {
    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        for subset in object.items("subsets") {
            if ["addresses", "notReadyAddresses"].iter().all(|key| subset.list(key).is_empty()) {
                subset.required("must specify `addresses` or `notReadyAddresses`");
            }
            for address in ["addresses", "notReadyAddresses"].iter().flat_map(|key| subset.items(key)) {
                hostname(&address);
                let own = address.text_at("ip");
                match ip(own.as_text()) {
                    None => own.invalid("must be a valid IP address"),
                    Some(found) if found.is_loopback() => {}
                    Some(found) => special(found, &own),
                }
            }
            let count = subset.list("ports").len();
            for port in subset.items("ports") {
                let name = port.at("name");
                if count > 1 {
                    name.not_empty("");
                }
                name.optional_name(NameRule::Label);
                required_port(&port.at("port"));
                port.at("protocol").one_of(&PROTOCOLS);
            }
        }
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}

fn validate_endpoint(kind: &str, endpoint: &Field<'_>, known: &HashSet<&Value>) {
    let addresses = endpoint.at("addresses");
    if endpoint.list("addresses").is_empty() {
        addresses.required("must contain at least 1 address");
    }
    addresses.at_most(MAX_ADDRESSES);
    let new = endpoint.items("addresses").take(MAX_ADDRESSES);
    for address in new.filter(|address| !known.contains(address.value)) {
        match (kind, ip(address.as_text())) {
            ("FQDN", _) => address.name(NameRule::Subdomain),
            ("IPv4" | "IPv6", None) => address.invalid(NOT_AN_IP),
            ("IPv4" | "IPv6", Some(found)) => {
                if found.is_ipv4() != (kind == "IPv4") {
                    addresses.with(address.value).invalid(format!("must be an {kind} address"));
                }
                if !found.is_loopback() {
                    special(found, &address);
                }
            }
            _ => {}
        }
    }
    let node = endpoint.at("nodeName");
    if node.is_string() {
        node.name(NameRule::Subdomain);
    }
    hostname(endpoint);
    let mut zones = BTreeSet::new();
    for zone in endpoint.items("hints.forZones") {
        if !zones.insert(zone.text("name")) {
            zone.at("name").duplicate();
        }
    }
}

fn hostname(endpoint: &Field<'_>) {
    let name = endpoint.at("hostname");
    if name.is_string() {
        name.name(NameRule::Label);
    }
}

/// Refuses addresses that other machines cannot reach.
pub(super) fn special(address: IpAddr, shown: &Field<'_>) {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let link_local_multicast = match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    if address.is_unspecified() {
        shown.invalid(format!("may not be unspecified ({address})"));
    } else if address.is_loopback() {
        shown.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    } else if link_local {
        shown.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    } else if link_local_multicast {
        shown.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn ports(slice: &Field<'_>) {
    slice.at("ports").at_most(MAX_PORTS);
    let mut seen = BTreeSet::new();
    for port in slice.items("ports") {
        let name = port.at("name");
        name.optional_name(NameRule::Label);
        if !seen.insert(name.as_text()) {
            name.duplicate();
        }
        port.at("protocol").one_of(&PROTOCOLS);
        app_protocol(&port);
    }
}
