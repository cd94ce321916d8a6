//! Services: defaults and validation.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use super::{Strategy, checks, defaults::fill, exposure, names::NameRule};
use crate::{Cause, Field, causes_of};

/// Services.
#[derive(Debug)]
pub(crate) struct Service;

impl Strategy for Service {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"loadBalancer": {}});
        let spec = &mut value["spec"];
        if spec["clusterIP"].as_str().is_some_and(|address| !address.is_empty()) {
            let address = spec["clusterIP"].clone();
            fill(spec, "clusterIPs", json!([address]));
        }
    }

    fn prepare_update(&self, value: &mut Value, live: &Value) {
        prepare_update(value, live);
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let spec = object.at("spec");
        let kind = spec.at("type");
        let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        if !known.contains(&kind.as_text()) {
            kind.unsupported(&known);
        }
        let count = spec.list("ports").len();
        if count == 0 && spec["clusterIP"] != "None" && kind.as_text() != "ExternalName" {
            spec.at("ports").required("");
        }
        let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        for port in spec.items("ports") {
            let name = port.at("name");
            if !name.as_text().is_empty() {
                name.name(NameRule::Label);
                checks::unique(&name, &mut names, name.as_text());
            } else if count > 1 {
                name.required("");
            }
            if !numbers.insert(format!("{} {}", port["protocol"], port["port"])) {
                port.causes().push(repeated(&port));
            }
            checks::port_name(&port.at("targetPort"));
            checks::app_protocol(&port);
            checks::required_port(&port.at("port"));
            if !on_nodes(object) && port["nodePort"].as_i64().is_some_and(|p| p != 0) {
                port.at("nodePort").forbidden(format!("may not be used when `type` is '{}'", kind.as_text()));
            }
            checks::port(&port.at("targetPort"));
            let protocol = port.at("protocol");
            if !checks::PROTOCOLS.contains(&protocol.as_text()) {
                protocol.unsupported(&checks::PROTOCOLS);
            }
        }
        exposure::validate(&spec);
        let addresses = spec.at("clusterIPs");
        if let Some(live) = live.map(|live| &live["spec"]["clusterIPs"])
            && kind.as_text() != "ExternalName"
            && live.is_array()
            && live != addresses.value
        {
            addresses.named("spec.clusterIPs[0]").invalid("may not change once set");
        }
        let class = spec.at("loadBalancerClass");
        let was_balanced = |live: &Value| live["spec"]["type"] == "LoadBalancer";
        if let Some(live) = live.filter(|live| was_balanced(live) && kind.as_text() == "LoadBalancer")
            && live["spec"]["loadBalancerClass"] != *class.value
        {
            class.invalid("may not change once set");
        }
    }

    fn warnings(&self, value: &Value, _live: Option<&Value>) -> Vec<String> {
        let external = value["spec"]["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
        if value["spec"]["type"] == "ExternalName" && external {
            return vec!["spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned()];
        }
        Vec::new()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label1035
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }
}

/// Returns why a server would allocate no addresses for a Service.
pub fn address_causes(service: &Value) -> Vec<Cause> {
    causes_of(service, "", |service| exposure::addresses(&service.at("spec")))
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
    let is_external = |service: &Value| exposure::is_external(&service["spec"]);
    let is_balanced = |service: &Value| service["spec"]["type"] == "LoadBalancer";
    for (key, was_kept) in [
        ("externalTrafficPolicy", is_external(value) || !is_external(live)),
        ("loadBalancerClass", is_balanced(value) || !is_balanced(live)),
        ("allocateLoadBalancerNodePorts", is_balanced(value) || !is_balanced(live)),
    ] {
        if !was_kept
            && value["spec"][key] == live["spec"][key]
            && let Some(spec) = value["spec"].as_object_mut()
        {
            spec.remove(key);
        }
    }
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
}

/// Returns the error for a duplicate port. The value has the form that Go shows.
fn repeated(port: &Field<'_>) -> Cause {
    let shown = format!(
        "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
        port["protocol"], port["port"]
    );
    Cause {
        reason: "FieldValueDuplicate",
        message: format!("Duplicate value: {shown}"),
        field: port.path.clone(),
    }
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
