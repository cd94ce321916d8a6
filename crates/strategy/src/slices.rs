//! EndpointSlices, and the older Endpoints. Loopback addresses are valid, because pods of local mode have them.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::{
    Strategy,
    checks::{
        IMMUTABLE, NOT_AN_IP, PROTOCOLS, app_protocol, ip, label_value, required_port, special_address,
        unique,
    },
    names::NameRule,
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

    fn warnings(&self, value: &Value, _live: Option<&Value>) -> Vec<String> {
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
                    Some(found) => special_address(found, &own),
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
                    special_address(found, &address);
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
        unique(&zone.at("name"), &mut zones, zone.text("name"));
        label_value(&zone.at("name"));
    }
}

fn hostname(endpoint: &Field<'_>) {
    let name = endpoint.at("hostname");
    if name.is_string() {
        name.name(NameRule::Label);
    }
}

fn ports(slice: &Field<'_>) {
    slice.at("ports").at_most(MAX_PORTS);
    let mut seen = BTreeSet::new();
    for port in slice.items("ports") {
        let name = port.at("name");
        name.optional_name(NameRule::Label);
        unique(&name, &mut seen, name.as_text());
        port.at("protocol").one_of(&PROTOCOLS);
        app_protocol(&port);
    }
}
