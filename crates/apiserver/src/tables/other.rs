//! Tables for the remaining kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, NAME, Printer, age, boolean, integer, list, name, number, or, selector, shortened, text, wide,
};

pub(crate) const API_SERVICE: Printer =
    Printer::new(&[NAME, text("Service"), text("Available"), AGE], |o, now| {
        let service = &o["spec"]["service"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let served = if service.is_object() {
            format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
        } else {
            "Local".to_owned()
        };
        let available = list(&o["status"]["conditions"]).find(|condition| condition["type"] == "Available");
        let available = match available {
            Some(condition) if condition["status"] == "True" => "True".to_owned(),
            Some(condition) => format!("{} ({})", text(&condition["status"]), text(&condition["reason"])),
            None => "Unknown".to_owned(),
        };
        vec![name(o), Value::from(served), Value::from(available), age(o, now)]
    });

/// A ResourceClaim. Its state is a list of Kubernetes' own words, joined by commas.
pub(crate) const RESOURCE_CLAIM: Printer = Printer::new(&[NAME, text("State"), AGE], |o, now| {
    let deleted = o["metadata"]["deletionTimestamp"].is_string();
    let allocated = o["status"]["allocation"].is_object();
    let states = [
        (deleted, "deleted"),
        (allocated, "allocated"),
        (list(&o["status"]["reservedFor"]).next().is_some(), "reserved"),
        (!allocated && !deleted, "pending"),
    ];
    let states: Vec<&str> = states.into_iter().filter_map(|(holds, state)| holds.then_some(state)).collect();
    vec![name(o), Value::from(states.join(",")), age(o, now)]
});

pub(crate) const LEASE: Printer = Printer::new(&[NAME, text("Holder"), AGE], |o, now| {
    vec![name(o), or(&o["spec"]["holderIdentity"], ""), age(o, now)]
});

pub(crate) const WEBHOOKS: Printer = Printer::new(&[NAME, integer("Webhooks"), AGE], |o, now| {
    vec![name(o), Value::from(list(&o["webhooks"]).count()), age(o, now)]
});

pub(crate) const INGRESS_CLASS: Printer =
    Printer::new(&[NAME, text("Controller"), text("Parameters"), AGE], |o, now| {
        let parameters = &o["spec"]["parameters"];
        let shown = match parameters["kind"].as_str() {
            Some(kind) => format!("{kind}/{}", parameters["name"].as_str().unwrap_or_default()),
            None => "<none>".to_owned(),
        };
        vec![name(o), or(&o["spec"]["controller"], ""), Value::from(shown), age(o, now)]
    });

pub(crate) const NETWORK_POLICY: Printer = Printer::new(&[NAME, text("Pod-Selector"), AGE], |o, now| {
    vec![name(o), selector(&o["spec"]["podSelector"]), age(o, now)]
});

pub(crate) const DISRUPTION_BUDGET: Printer = Printer::new(
    &[NAME, text("Min Available"), text("Max Unavailable"), integer("Allowed Disruptions"), AGE],
    |o, now| {
        vec![
            name(o),
            or(&o["spec"]["minAvailable"], "N/A"),
            or(&o["spec"]["maxUnavailable"], "N/A"),
            Value::from(number(&o["status"]["disruptionsAllowed"])),
            age(o, now),
        ]
    },
);

pub(crate) const STORAGE_CLASS: Printer = Printer::new(
    &[
        NAME,
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        text("AllowVolumeExpansion"),
        AGE,
    ],
    |o, now| {
        vec![
            name(o),
            or(&o["provisioner"], ""),
            or(&o["reclaimPolicy"], "Delete"),
            or(&o["volumeBindingMode"], "Immediate"),
            Value::from(o["allowVolumeExpansion"] == true),
            age(o, now),
        ]
    },
);

pub(crate) const PRIORITY_CLASS: Printer = Printer::new(
    &[NAME, integer("Value"), boolean("Global-Default"), AGE, text("PreemptionPolicy")],
    |o, now| {
        vec![
            name(o),
            Value::from(number(&o["value"])),
            Value::from(o["globalDefault"] == true),
            age(o, now),
            or(&o["preemptionPolicy"], ""),
        ]
    },
);

pub(crate) const ENDPOINT_SLICE: Printer =
    Printer::new(&[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE], slice);

fn slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(&slice["ports"])
        .map(|port| port["port"].as_i64().map_or("*".to_owned(), |p| p.to_string()))
        .collect();
    let addresses: Vec<String> = list(&slice["endpoints"])
        .flat_map(|endpoint| list(&endpoint["addresses"]))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let unset = |all: Vec<String>| {
        let text = shortened(&all);
        Value::from(if text == "<none>" { "<unset>".to_owned() } else { text })
    };
    vec![name(slice), or(&slice["addressType"], ""), unset(ports), unset(addresses), age(slice, now)]
}

pub(crate) const ROLE_BINDING: Printer =
    Printer::new(&[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")], binding);

fn binding(binding: &Value, now: Timestamp) -> Vec<Value> {
    let of = |kind: &str| {
        let all: Vec<String> = list(&binding["subjects"])
            .filter(|s| s["kind"] == kind)
            .map(|s| {
                let name = s["name"].as_str().unwrap_or_default();
                match s["namespace"].as_str() {
                    Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                    _ => name.to_owned(),
                }
            })
            .collect();
        Value::from(all.join(", "))
    };
    let role = &binding["roleRef"];
    vec![
        name(binding),
        Value::from(format!(
            "{}/{}",
            role["kind"].as_str().unwrap_or_default(),
            role["name"].as_str().unwrap_or_default()
        )),
        age(binding, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

pub(crate) const INGRESS: Printer =
    Printer::new(&[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE], ingress);

fn ingress(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let hosts: Vec<String> =
        list(&ingress["spec"]["rules"]).filter_map(|r| r["host"].as_str()).map(str::to_owned).collect();
    let addresses: Vec<&str> = list(&ingress["status"]["loadBalancer"]["ingress"])
        .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()))
        .collect();
    let secure = list(&ingress["spec"]["tls"]).next().is_some();
    let hosts = shortened(&hosts);
    vec![
        name(ingress),
        or(&ingress["spec"]["ingressClassName"], "<none>"),
        Value::from(if hosts == "<none>" { "*".to_owned() } else { hosts }),
        Value::from(addresses.join(",")),
        Value::from(if secure { "80, 443" } else { "80" }),
        age(ingress, now),
    ]
}
