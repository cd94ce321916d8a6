//! Services: defaults, and the allocation of their addresses.

use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc};

use serde_json::{Value, json};

use super::{Strategy, drop_empty, exposure, fill, names::NameRule};
use crate::{
    addresses::Addresses,
    kinds::Resource,
    server::State,
    status::{ApiError, Cause},
};

/// Services.
#[derive(Debug)]
pub(crate) struct Service;

impl Strategy for Service {
    fn default(&self, value: &mut Value) {
        default(value);
    }

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

    fn allocate(
        &self,
        state: &Arc<State>,
        resource: &Resource,
        value: &mut Value,
        live: Option<&Value>,
    ) -> Result<Allocation, ApiError> {
        allocate(state, resource, value, live)
    }

    fn after_write(&self, state: &State, before: Option<&Value>, after: Option<&Value>) {
        release(state, before, after);
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

/// Fills in the defaults of a Service.
fn default(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    drop_empty(
        spec,
        &[
            "selector",
            "clusterIP",
            "externalName",
            "externalIPs",
            "loadBalancerIP",
            "publishNotReadyAddresses",
            "type",
            "sessionAffinity",
        ],
    );
    fill(spec, "type", "ClusterIP");
    fill(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" && spec["sessionAffinityConfig"].is_null() {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
    }
    exposure::default(spec);
    for port in spec.pointer_mut("/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_empty(port, &["name", "nodePort", "protocol"]);
        fill(port, "protocol", "TCP");
        let number = port["port"].clone();
        if matches!(&port["targetPort"], Value::Null) || port["targetPort"] == "" || port["targetPort"] == 0 {
            port["targetPort"] = if number.is_null() { json!(0) } else { number };
        }
    }
    match spec["type"].as_str() {
        Some("NodePort" | "LoadBalancer") => {
            fill(spec, "externalTrafficPolicy", "Cluster");
            fill(spec, "internalTrafficPolicy", "Cluster");
            if spec["type"] == "LoadBalancer" {
                fill(spec, "allocateLoadBalancerNodePorts", true);
            }
        }
        Some("ClusterIP") => fill(spec, "internalTrafficPolicy", "Cluster"),
        _ => {}
    }
    if value.get("status").is_some() {
        fill(&mut value["status"], "loadBalancer", json!({}));
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
        let old = live["spec"]["ports"].as_array().cloned().unwrap_or_default();
        for port in value.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if port["nodePort"].is_null()
                && let Some(same) =
                    old.iter().find(|o| o["port"] == port["port"] && o["protocol"] == port["protocol"])
            {
                port["nodePort"] = same["nodePort"].clone();
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
    let old: Vec<Value> =
        live["spec"]["ports"].as_array().into_iter().flatten().map(|port| port["nodePort"].clone()).collect();
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

/// Addresses and ports that are allocated for a write. They are freed again unless the write succeeds.
pub(crate) struct Allocation {
    state: Arc<State>,
    addresses: Vec<Ipv4Addr>,
    ports: Vec<u16>,
}

// === impl Allocation ===

impl Allocation {
    /// An allocation for a write that needs no addresses.
    pub(super) fn nothing(state: &Arc<State>) -> Self {
        Self { state: Arc::clone(state), addresses: Vec::new(), ports: Vec::new() }
    }

    /// Called after a successful write: the stored object holds the addresses from now on.
    pub(crate) fn keep(mut self) {
        self.addresses.clear();
        self.ports.clear();
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut all = self.state.addresses.lock();
        for address in &self.addresses {
            all.free(*address);
        }
        for port in &self.ports {
            all.free_port(*port);
        }
    }
}

/// Allocates the addresses of a Service.
fn allocate(
    state: &Arc<State>,
    resource: &Resource,
    value: &mut Value,
    live: Option<&Value>,
) -> Result<Allocation, ApiError> {
    let mut allocation = Allocation::nothing(state);
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let spec = &mut value["spec"];
    if spec["type"] == "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if let Some(fields) = spec.as_object_mut() {
                fields.remove(key);
            }
        }
        return Ok(allocation);
    }
    let mut all = state.addresses.lock();
    let had = live.is_some_and(|l| l["spec"]["clusterIP"].is_string());
    let given = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if given.is_empty() {
        let address = all
            .allocate()
            .ok_or_else(|| ApiError::internal(format!("no cluster IP is free in {}", all.range())))?;
        allocation.addresses.push(address);
        spec["clusterIP"] = Value::from(address.to_string());
    } else if given != "None" && !had {
        let refuse = |why: String| {
            ApiError::invalid(
                resource.about_kind(&name),
                &[Cause::invalid("spec.clusterIPs", &json!([given]), why)],
            )
        };
        let address: Ipv4Addr = given
            .parse()
            .map_err(|_| refuse("failed to allocate IP: not a valid IPv4 address".to_owned()))?;
        match all.take(address) {
            Ok(true) => allocation.addresses.push(address),
            Ok(false) => {
                return Err(refuse(format!(
                    "failed to allocate IP {given}: provided IP is already allocated"
                )));
            }
            Err(()) => {
                return Err(refuse(format!(
                    "failed to allocate IP {given}: the provided IP is not in the valid range. The range of valid IPs \
                     is {}",
                    all.range()
                )));
            }
        }
    }
    let address = spec["clusterIP"].clone();
    fill(spec, "clusterIPs", json!([address]));
    // without a selector, another controller creates the endpoints, of any IP family
    let anything = spec["clusterIP"] == "None" && spec["selector"].is_null();
    fill(spec, "ipFamilyPolicy", if anything { "RequireDualStack" } else { "SingleStack" });
    let both = anything && spec["ipFamilyPolicy"] == "RequireDualStack";
    fill(spec, "ipFamilies", if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
        && spec["allocateLoadBalancerNodePorts"] != false
    {
        let ports = spec.pointer_mut("/ports").and_then(Value::as_array_mut);
        for (index, port) in ports.into_iter().flatten().enumerate() {
            match port["nodePort"].as_u64().and_then(|p| u16::try_from(p).ok()) {
                None => {
                    let free =
                        all.allocate_port().ok_or_else(|| ApiError::internal("no node port is free"))?;
                    allocation.ports.push(free);
                    port["nodePort"] = Value::from(free);
                }
                Some(given) => {
                    let kept = live.is_some_and(|l| holds_port(l, given));
                    let problem = if kept {
                        None
                    } else if !Addresses::is_node_port(given) {
                        Some(
                            "provided port is not in the valid range. The range of valid ports is 30000-32767",
                        )
                    } else if all.take_port(given) {
                        allocation.ports.push(given);
                        None
                    } else {
                        Some("provided port is already allocated")
                    };
                    if let Some(problem) = problem {
                        let field = format!("spec.ports[{index}].nodePort");
                        return Err(ApiError::invalid(
                            resource.about_kind(&name),
                            &[Cause::invalid(field, &Value::from(given), problem)],
                        ));
                    }
                }
            }
        }
    }
    drop(all);
    Ok(allocation)
}

fn holds_port(service: &Value, port: u16) -> bool {
    service["spec"]["ports"].as_array().into_iter().flatten().any(|p| p["nodePort"] == port)
}

/// Frees the addresses and ports that the new state no longer holds.
fn release(state: &State, before: Option<&Value>, after: Option<&Value>) {
    let Some(before) = before else { return };
    let held = |object: Option<&Value>| {
        let addresses: Vec<Ipv4Addr> = object
            .and_then(|o| o["spec"]["clusterIPs"].as_array())
            .into_iter()
            .flatten()
            .filter_map(|ip| ip.as_str()?.parse().ok())
            .collect();
        let ports: Vec<u16> = object
            .and_then(|o| o["spec"]["ports"].as_array())
            .into_iter()
            .flatten()
            .filter_map(|p| p["nodePort"].as_u64().and_then(|p| u16::try_from(p).ok()))
            .collect();
        (addresses, ports)
    };
    let (old, new) = (held(Some(before)), held(after));
    let mut all = state.addresses.lock();
    old.0.iter().filter(|a| !new.0.contains(a)).for_each(|a| all.free(*a));
    old.1.iter().filter(|p| !new.1.contains(p)).for_each(|p| all.free_port(*p));
}

/// Records the addresses of the Services that were loaded from a state directory.
pub(crate) fn restore(state: &State) {
    let mut all = state.addresses.lock();
    for (_, stored) in state.store.list("/services", None).objects {
        for ip in stored.value["spec"]["clusterIPs"].as_array().into_iter().flatten() {
            if let Some(address) = ip.as_str().and_then(|i| i.parse().ok()) {
                // an address outside the range comes from another configuration, and the Service keeps it
                let _ = all.take(address);
            }
        }
        for port in stored.value["spec"]["ports"].as_array().into_iter().flatten() {
            if let Some(port) = port["nodePort"].as_u64().and_then(|p| u16::try_from(p).ok()) {
                all.take_port(port);
            }
        }
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
