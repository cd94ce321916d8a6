//! Tables for the remaining kinds.

use serde_json::Value;

use super::printer::{
    AGE, NAME, Printer, age, boolean, integer, list, name, number, or, printer, selector, shortened, text,
    wide,
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

pub(crate) const LEASE: Printer = printer!(|o, now|
    NAME => name(o),
    text("Holder") => or(&o["spec"]["holderIdentity"], ""),
    AGE => age(o, now),
);

pub(crate) const WEBHOOKS: Printer = printer!(|o, now|
    NAME => name(o),
    integer("Webhooks") => list(&o["webhooks"]).count(),
    AGE => age(o, now),
);

pub(crate) const INGRESS_CLASS: Printer =
    Printer::new(&[NAME, text("Controller"), text("Parameters"), AGE], |o, now| {
        let parameters = &o["spec"]["parameters"];
        let shown = match parameters["kind"].as_str() {
            Some(kind) => format!("{kind}/{}", parameters["name"].as_str().unwrap_or_default()),
            None => "<none>".to_owned(),
        };
        vec![name(o), or(&o["spec"]["controller"], ""), Value::from(shown), age(o, now)]
    });

pub(crate) const NETWORK_POLICY: Printer = printer!(|o, now|
    NAME => name(o),
    text("Pod-Selector") => selector(&o["spec"]["podSelector"]),
    AGE => age(o, now),
);

pub(crate) const DISRUPTION_BUDGET: Printer = printer!(|o, now|
    NAME => name(o),
    text("Min Available") => or(&o["spec"]["minAvailable"], "N/A"),
    text("Max Unavailable") => or(&o["spec"]["maxUnavailable"], "N/A"),
    integer("Allowed Disruptions") => number(&o["status"]["disruptionsAllowed"]),
    AGE => age(o, now),
);

pub(crate) const STORAGE_CLASS: Printer = printer!(|o, now|
    NAME => name(o),
    text("Provisioner") => or(&o["provisioner"], ""),
    text("ReclaimPolicy") => or(&o["reclaimPolicy"], "Delete"),
    text("VolumeBindingMode") => or(&o["volumeBindingMode"], "Immediate"),
    text("AllowVolumeExpansion") => o["allowVolumeExpansion"] == true,
    AGE => age(o, now),
);

pub(crate) const PRIORITY_CLASS: Printer = printer!(|o, now|
    NAME => name(o),
    integer("Value") => number(&o["value"]),
    boolean("Global-Default") => o["globalDefault"] == true,
    AGE => age(o, now),
    text("PreemptionPolicy") => or(&o["preemptionPolicy"], ""),
);

pub(crate) const ENDPOINT_SLICE: Printer = printer!(|o, now|
    NAME => name(o),
    text("AddressType") => or(&o["addressType"], ""),
    text("Ports") => unset(
        list(&o["ports"]).map(|port| port["port"].as_i64().map_or("*".to_owned(), |p| p.to_string()))
    ),
    text("Endpoints") => unset(
        list(&o["endpoints"])
            .flat_map(|endpoint| list(&endpoint["addresses"]))
            .filter_map(Value::as_str)
            .map(str::to_owned)
    ),
    AGE => age(o, now),
);

fn unset(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() { "<unset>".to_owned() } else { shortened(&all) }
}

pub(crate) const ROLE_BINDING: Printer = printer!(|o, now|
    NAME => name(o),
    text("Role") => format!(
        "{}/{}",
        o["roleRef"]["kind"].as_str().unwrap_or_default(),
        o["roleRef"]["name"].as_str().unwrap_or_default()
    ),
    AGE => age(o, now),
    wide("Users") => subjects(o, "User"),
    wide("Groups") => subjects(o, "Group"),
    wide("ServiceAccounts") => subjects(o, "ServiceAccount"),
);

fn subjects(binding: &Value, kind: &str) -> String {
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
    all.join(", ")
}

pub(crate) const INGRESS: Printer = printer!(|o, now|
    {
        let hosts: Vec<String> =
            list(&o["spec"]["rules"]).filter_map(|r| r["host"].as_str()).map(str::to_owned).collect();
        let addresses: Vec<&str> = list(&o["status"]["loadBalancer"]["ingress"])
            .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()))
            .collect();
        let secure = list(&o["spec"]["tls"]).next().is_some();
    }
    NAME => name(o),
    text("Class") => or(&o["spec"]["ingressClassName"], "<none>"),
    text("Hosts") => if hosts.is_empty() { "*".to_owned() } else { shortened(&hosts) },
    text("Address") => addresses.join(","),
    text("Ports") => if secure { "80, 443" } else { "80" },
    AGE => age(o, now),
);
