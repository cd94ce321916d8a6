//! Children as plain objects, in the order in which they are written.

use longboat_plan::{Child, Children, ObjectRef, Snapshot};
use serde::Serialize;
use serde_json::{Value, json};

/// A child as it would be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub reference: ObjectRef,
    /// The object.
    pub value: Value,
}

/// All children of a service.
pub(crate) fn of<S>(children: &Children<S>) -> Vec<Object> {
    let Children {
        config_maps,
        secrets,
        service_accounts,
        roles,
        role_bindings,
        cluster_role_bindings,
        deployments,
        services,
        inference_pools,
        inference_pools_x,
        http_routes,
        state: _,
    } = children;
    let mut all = Vec::new();
    add(config_maps, &mut all);
    add(secrets, &mut all);
    add(service_accounts, &mut all);
    add(roles, &mut all);
    add(role_bindings, &mut all);
    add(cluster_role_bindings, &mut all);
    add(deployments, &mut all);
    add(services, &mut all);
    add(inference_pools, &mut all);
    add(inference_pools_x, &mut all);
    add(http_routes, &mut all);
    all
}

/// What writing a child would change: the live object, if there is one, and the object as it would be afterwards. The two
/// are equal where nothing would be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) reference: ObjectRef,
    pub(crate) live: Option<Value>,
    pub(crate) after: Value,
}

/// All children beside the live ones.
pub(crate) fn writes<S>(children: &Children<S>, snapshot: &Snapshot) -> Vec<Write> {
    let Children {
        config_maps,
        secrets,
        service_accounts,
        roles,
        role_bindings,
        cluster_role_bindings,
        deployments,
        services,
        inference_pools,
        inference_pools_x,
        http_routes,
        state: _,
    } = children;
    let mut all = Vec::new();
    write(config_maps, snapshot, &mut all);
    write(secrets, snapshot, &mut all);
    write(service_accounts, snapshot, &mut all);
    write(roles, snapshot, &mut all);
    write(role_bindings, snapshot, &mut all);
    write(cluster_role_bindings, snapshot, &mut all);
    write(deployments, snapshot, &mut all);
    write(services, snapshot, &mut all);
    write(inference_pools, snapshot, &mut all);
    write(inference_pools_x, snapshot, &mut all);
    write(http_routes, snapshot, &mut all);
    all
}

fn write<K: Child + Serialize>(planned: &[K], snapshot: &Snapshot, all: &mut Vec<Write>) {
    for object in planned {
        let reference = object.reference();
        let found = K::observed(snapshot).get(&reference.namespace, &reference.name);
        let live = found.map(one);
        let after = match (found, &live) {
            // The same decision as before a write.
            (Some(found), Some(live)) if !object.differs(found) => live.clone(),
            (found, _) => {
                let mut after = object.clone();
                if let Some(found) = found {
                    after.carry_over(found);
                }
                after.fill_in_defaults();
                one(&after)
            }
        };
        all.push(Write { reference, live, after });
    }
}

fn add<K: Child + Serialize>(objects: &[K], all: &mut Vec<Object>) {
    for object in objects {
        all.push(Object { reference: object.reference(), value: one(object) });
    }
}

/// One object. What a Secret holds is replaced by its size: it is for nobody's terminal.
pub(crate) fn one<K: Serialize>(object: &K) -> Value {
    // Kubernetes objects have string keys only, so this cannot fail.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if value["kind"] == "Secret"
        && let Some(Value::Object(data)) = value.get_mut("data")
    {
        for entry in data.values_mut() {
            let encoded = entry.as_str().unwrap_or_default();
            let padding = encoded.bytes().rev().take_while(|b| *b == b'=').count();
            *entry = json!(format!("<{} bytes>", encoded.len() / 4 * 3 - padding));
        }
    }
    prune(&mut value);
    value
}

/// Drops what says nothing: nulls, and the empty maps and lists of metadata.
fn prune(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    object.retain(|_, member| !member.is_null());
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|_, member| match member {
            Value::Object(map) => !map.is_empty(),
            Value::Array(items) => !items.is_empty(),
            member => !member.is_null(),
        });
    }
}
