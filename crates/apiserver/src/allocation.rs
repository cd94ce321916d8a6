//! The addresses and ports that the server hands out to Services.

use std::{collections::HashSet, net::Ipv4Addr, sync::Arc};

use serde_json::{Value, json};

use crate::{
    addresses::Addresses,
    kinds::Resource,
    state::State,
    status::{ApiError, Cause},
    strategy::{self, defaults::fill},
};

/// What a Service loses that becomes one of the type `ExternalName`.
const ADDRESS_FIELDS: [&str; 4] = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/// Whether this is the kind that gets addresses.
pub(crate) fn is_service(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "services"
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
    fn nothing(state: &Arc<State>) -> Self {
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

/// Allocates what the server hands out to an object: the addresses of a Service. The allocation is freed again unless the
/// write succeeds.
pub(crate) fn allocate(
    state: &Arc<State>,
    resource: &Resource,
    value: &mut Value,
    live: Option<&Value>,
) -> Result<Allocation, ApiError> {
    let mut allocation = Allocation::nothing(state);
    if !is_service(resource) {
        return Ok(allocation);
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let spec = &mut value["spec"];
    if spec["type"] == "ExternalName" {
        if let Some(fields) = spec.as_object_mut() {
            // Only in an update: in a new Service, validation refuses these fields.
            let lost = ADDRESS_FIELDS.iter().filter(|_| live.is_some());
            lost.chain(&["internalTrafficPolicy"]).for_each(|key| drop(fields.remove(*key)));
        }
        return Ok(allocation);
    }
    let causes = strategy::address_causes(value);
    if !causes.is_empty() {
        return Err(ApiError::invalid(resource.about_kind(&name), &causes));
    }
    let spec = &mut value["spec"];
    // Declared after `allocation`, so that an error drops it first: to free what it holds, the allocation takes this lock.
    let mut all = state.addresses.lock();
    let had = live.is_some_and(|l| l["spec"]["clusterIP"].is_string());
    let refuse = |cause| ApiError::invalid(resource.about_kind(&name), &[cause]);
    let given = spec["clusterIP"].as_str().unwrap_or_default();
    if given.is_empty() {
        let address = all
            .allocate()
            .ok_or_else(|| ApiError::internal(format!("no cluster IP is free in {}", all.range())))?;
        allocation.addresses.push(address);
        spec["clusterIP"] = Value::from(address.to_string());
    } else if given != "None" && !had {
        allocation.addresses.push(take_address(&mut all, given).map_err(refuse)?);
    }
    default_ip_families(spec);
    if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"))
        && spec["allocateLoadBalancerNodePorts"] != false
    {
        let held = live.map(node_ports).unwrap_or_default();
        let ports = spec.pointer_mut("/ports").and_then(Value::as_array_mut);
        for (index, port) in ports.into_iter().flatten().enumerate() {
            match port["nodePort"].as_u64().and_then(|p| u16::try_from(p).ok()) {
                None => {
                    let free =
                        all.allocate_port().ok_or_else(|| ApiError::internal("no node port is free"))?;
                    allocation.ports.push(free);
                    port["nodePort"] = Value::from(free);
                }
                Some(given) if held.contains(&given) => {}
                Some(given) => {
                    take_port(&mut all, index, given).map_err(refuse)?;
                    allocation.ports.push(given);
                }
            }
        }
    }
    drop(all);
    Ok(allocation)
}

/// Takes the cluster IP that a Service names.
fn take_address(all: &mut Addresses, given: &str) -> Result<Ipv4Addr, Cause> {
    let refuse = |why: String| Cause::invalid("spec.clusterIPs", &json!([given]), why);
    let address: Ipv4Addr = given.parse().map_err(|_| {
        let why = "IPv6 is not configured on this cluster";
        Cause::invalid("spec.clusterIPs[0]", &json!([given]), why)
    })?;
    match all.take(address) {
        Ok(true) => Ok(address),
        Ok(false) => Err(refuse(format!("failed to allocate IP {given}: provided IP is already allocated"))),
        Err(()) => Err(refuse(format!(
            "failed to allocate IP {given}: the provided IP is not in the valid range. The range of valid IPs is {}",
            all.range()
        ))),
    }
}

/// Takes the node port that the port at `index` names.
fn take_port(all: &mut Addresses, index: usize, given: u16) -> Result<(), Cause> {
    let problem = if !Addresses::is_node_port(given) {
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    } else if all.take_port(given) {
        return Ok(());
    } else {
        "provided port is already allocated"
    };
    Err(Cause::invalid(format!("spec.ports[{index}].nodePort"), &Value::from(given), problem))
}

/// Fills in the IP families of a Service whose cluster IP is known.
fn default_ip_families(spec: &mut Value) {
    let address = spec["clusterIP"].clone();
    fill(spec, "clusterIPs", json!([address]));
    // without a selector, another controller creates the endpoints, of any IP family
    let anything = spec["clusterIP"] == "None" && spec["selector"].is_null();
    fill(spec, "ipFamilyPolicy", if anything { "RequireDualStack" } else { "SingleStack" });
    let both = anything && spec["ipFamilyPolicy"] == "RequireDualStack";
    fill(spec, "ipFamilies", if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
}

/// The node ports that a Service holds.
fn node_ports(service: &Value) -> HashSet<u16> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| u16::try_from(port["nodePort"].as_u64()?).ok()).collect()
}

/// The cluster IPs that a Service holds.
fn cluster_ips(service: &Value) -> HashSet<Ipv4Addr> {
    let addresses = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    addresses.filter_map(|address| address.as_str()?.parse().ok()).collect()
}

/// Frees the addresses and ports that the new state no longer holds.
pub(crate) fn release(state: &State, before: Option<&Value>, after: Option<&Value>) {
    let Some(before) = before else { return };
    let mut all = state.addresses.lock();
    for address in cluster_ips(before).difference(&after.map(cluster_ips).unwrap_or_default()) {
        all.free(*address);
    }
    for port in node_ports(before).difference(&after.map(node_ports).unwrap_or_default()) {
        all.free_port(*port);
    }
}

/// Records the addresses of the Services that were loaded from a state directory.
pub(crate) fn restore(state: &State) {
    let mut all = state.addresses.lock();
    for (_, stored) in state.store.list("/services", None).objects {
        for address in cluster_ips(&stored.value) {
            // an address outside the range comes from another configuration, and the Service keeps it
            let _ = all.take(address);
        }
        for port in node_ports(&stored.value) {
            all.take_port(port);
        }
    }
}
