//! Services: defaults and validation.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use super::{Strategy, exposure, names::NameRule};
use crate::Cause;

/// Services.
#[derive(Debug)]
pub(crate) struct Service;

impl Strategy for Service {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"loadBalancer": {}});
    }

    fn prepare_update(&self, value: &mut Value, live: &Value) {
        prepare_update(value, live);
    }

    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate(value, live)
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        warnings(value)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label1035
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn shows_deleted(&self) -> bool {
        true
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }
}

/// Keeps the addresses of the live Service if the update does not name addresses.
fn prepare_update(value: &mut Value, live: &Value) {
    if value["spec"]["type"] == "ExternalName" || live["spec"]["type"] == "ExternalName" {
        return;
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if value["spec"].get(key).is_none()
            && let Some(kept) = live["spec"].get(key)
        {
            value["spec"][key] = kept.clone();
        }
    }
    drop_type_dependent(value, live);
    if value["spec"]["clusterIP"] != live["spec"]["clusterIP"]
        && value["spec"]["clusterIPs"] == live["spec"]["clusterIPs"]
    {
        value["spec"]["clusterIPs"] = json!([value["spec"]["clusterIP"]]);
    }
    let types = ["NodePort", "LoadBalancer"];
    let has_ports = |object: &Value| object["spec"]["type"].as_str().is_some_and(|t| types.contains(&t));
    if has_ports(value) && has_ports(live) {
        let mut old = HashMap::new();
        for port in live["spec"]["ports"].as_array().into_iter().flatten() {
            old.entry((&port["port"], &port["protocol"])).or_insert(&port["nodePort"]);
        }
        for port in value.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if port["nodePort"].is_null()
                && let Some(&same) = old.get(&(&port["port"], &port["protocol"]))
            {
                port["nodePort"] = same.clone();
            }
        }
    }
}

/// Whether services of this type listen on ports of the nodes.
fn on_nodes(service: &Value) -> bool {
    matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

/// Drops the fields that only the old type has, unless the update sets them.
fn drop_type_dependent(value: &mut Value, live: &Value) {
    if !on_nodes(live) || on_nodes(value) {
        return;
    }
    let old: HashSet<&Value> =
        live["spec"]["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]).collect();
    for port in value.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if old.contains(&port["nodePort"])
            && let Some(fields) = port.as_object_mut()
        {
            fields.remove("nodePort");
        }
    }
    if value["spec"]["externalTrafficPolicy"] == live["spec"]["externalTrafficPolicy"]
        && let Some(spec) = value["spec"].as_object_mut()
    {
        spec.remove("externalTrafficPolicy");
        spec.remove("allocateLoadBalancerNodePorts");
    }
}

/// Returns warnings about fields that have no effect.
fn warnings(value: &Value) -> Vec<String> {
    let external = value["spec"]["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    if value["spec"]["type"] == "ExternalName" && external {
        return vec!["spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned()];
    }
    Vec::new()
}

/// Returns all validation errors of a Service.
fn validate(value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &value["spec"];
    let kind = spec["type"].as_str().unwrap_or_default();
    let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !known.contains(&kind) {
        causes.push(Cause::unsupported("spec.type", &spec["type"], &known));
    }
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let headless = spec["clusterIP"] == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !name.is_empty() {
            for problem in super::names::problems(super::names::NameRule::Label, name) {
                causes.push(Cause::invalid(format!("{at}.name"), &port["name"], problem));
            }
            if !names.insert(name) {
                causes.push(Cause::duplicate(format!("{at}.name"), &port["name"]));
            }
        }
        if !numbers.insert(format!("{} {}", port["protocol"], port["port"])) {
            causes.push(exposure::twice(port, &at));
        }
        exposure::port(port, &at, &mut causes);
        let number = port["port"].as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            causes.push(Cause::invalid(
                format!("{at}.port"),
                &Value::from(number),
                "must be between 1 and 65535, inclusive",
            ));
        }
        if !on_nodes(value) && port["nodePort"].as_i64().is_some_and(|p| p != 0) {
            causes.push(Cause::forbidden(
                format!("{at}.nodePort"),
                format!("may not be used when `type` is '{kind}'"),
            ));
        }
        if let Some(target) = port["targetPort"].as_i64().filter(|t| !(1..=65535).contains(t)) {
            causes.push(Cause::invalid(
                format!("{at}.targetPort"),
                &Value::from(target),
                "must be between 1 and 65535, inclusive",
            ));
        }
        let protocol = port["protocol"].as_str().unwrap_or_default();
        if !["SCTP", "TCP", "UDP"].contains(&protocol) {
            causes.push(Cause::unsupported(
                format!("{at}.protocol"),
                &port["protocol"],
                &["SCTP", "TCP", "UDP"],
            ));
        }
    }
    exposure::validate(spec, &mut causes);
    if let Some(live) = live
        && kind != "ExternalName"
        && live["spec"]["clusterIPs"].is_array()
        && live["spec"]["clusterIPs"] != spec["clusterIPs"]
    {
        causes.push(Cause::invalid("spec.clusterIPs[0]", &spec["clusterIPs"], "may not change once set"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_ports_are_compared_entry_by_entry() {
        // With a look at each port for each port, these are some thousand million looks.
        const COUNT: usize = 30_000;
        let service = |kind: &str, node_ports: bool| {
            let port = |number: usize| {
                let port = json!({"port": number, "protocol": "TCP", "nodePort": number + 1});
                if node_ports { port } else { json!({"port": number, "protocol": "TCP"}) }
            };
            json!({"spec": {"type": kind, "clusterIP": "10.0.0.1", "ports": (0..COUNT).map(port).collect::<Value>()}})
        };
        let live = service("NodePort", true);
        let mut value = service("NodePort", false);
        prepare_update(&mut value, &live);
        assert!(value == live, "the ports keep their node ports");
        let mut value = service("ClusterIP", true);
        prepare_update(&mut value, &live);
        assert!(value == service("ClusterIP", false), "other types have no node ports");
    }
}
