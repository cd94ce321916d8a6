//! The effects of CustomResourceDefinitions: their conditions, and the resources that they define.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    clock,
    deletion::remove_finalizer,
    edit::edit_stored,
    kinds::custom,
    state::State,
    store::{Key, StoredObject},
};

/// The table of definitions.
pub(crate) const TABLE: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// The finalizer that keeps a definition until all its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Serves the definitions that were loaded from a state directory.
pub(crate) fn restore(state: &State) {
    for (key, stored) in state.store.list(TABLE, None).objects {
        serve(state, &key.name, &stored.value);
    }
    crate::allocation::restore(state);
}

/// Reacts to a write of a definition.
pub(crate) fn changed(state: &State, before: Option<&Value>, after: Option<&Value>) {
    let Some(after) = after else {
        if let Some(name) = before.and_then(|b| b["metadata"]["name"].as_str()) {
            state.registry.remove_custom(name);
            state.store.drop_table(&custom::table(before.unwrap_or(&Value::Null)));
            reconsider_others(state);
        }
        return;
    };
    let name = after["metadata"]["name"].as_str().unwrap_or_default();
    reconsider(state, name);
    reconsider_others(state);
    if after["metadata"]["deletionTimestamp"].is_string() {
        empty(state, name);
    }
}

/// Evaluates definitions with name conflicts again: a deleted or renamed definition may have freed their names.
fn reconsider_others(state: &State) {
    for (key, stored) in state.store.list(TABLE, None).objects {
        if !holds(stored.value.head(), "NamesAccepted") {
            reconsider(state, &key.name);
        }
    }
}

/// Updates the status of a definition, and serves its versions.
fn reconsider(state: &State, name: &str) {
    let Some(stored) = state.store.get(TABLE, &Key::new("", name)) else {
        return;
    };
    let others: Vec<Arc<StoredObject>> = state
        .store
        .list(TABLE, None)
        .objects
        .into_iter()
        .filter(|(key, _)| key.name != name)
        .map(|(_, stored)| stored)
        .collect();
    let written = edit_stored(state, TABLE, &stored, |crd| {
        let others: Vec<&Value> = others.iter().map(|other| other.value.head()).collect();
        if let Some(status) = longboat_schema::names_status(crd, &others, &clock::now()) {
            crd["status"] = status;
        }
    });
    if let Ok(written) = written {
        serve(state, name, &written.value);
    }
}

/// Marks a definition for deletion. It stays until all its objects are deleted.
pub(crate) fn mark_deleted(crd: &mut Value) {
    let mut finalizers = crd["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|f| f == CLEANUP) {
        finalizers.push(Value::from(CLEANUP));
    }
    crd["metadata"]["finalizers"] = Value::Array(finalizers);
    crd["metadata"]["deletionTimestamp"] = Value::from(clock::now());
    longboat_schema::terminating(crd, false, &clock::now());
}

/// Whether a condition of a definition is true.
fn holds(crd: &Value, kind: &str) -> bool {
    let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn serve(state: &State, name: &str, crd: &Value) {
    if !holds(crd, "Established") {
        state.registry.remove_custom(name);
        return;
    }
    let resources = custom::resources(crd);
    if let Some(first) = resources.first() {
        state.store.create_table(&first.table);
    }
    state.registry.put_custom(name, resources);
}

/// Deletes the objects of a definition that is being deleted, then the definition once no object is left.
fn empty(state: &State, name: &str) {
    let key = Key::new("", name);
    let Some(stored) = state.store.get(TABLE, &key) else { return };
    let resources = custom::resources(&stored.value);
    let Some(first) = resources.first() else { return };
    if state.store.count(&first.table) > 0 {
        // an error means that the definition is gone
        let _ = edit_stored(state, TABLE, &stored, |crd| {
            longboat_schema::terminating(crd, true, &clock::now());
        });
    }
    for (_, object) in state.store.list(&first.table, None).objects {
        // an error means that the object is gone
        let _ = edit_stored(state, &first.table, &object, |value| {
            if value["metadata"]["deletionTimestamp"].is_null() {
                value["metadata"]["deletionTimestamp"] = Value::from(clock::now());
                value["metadata"]["deletionGracePeriodSeconds"] = Value::from(0);
                crate::strategy::bump_for_deletion(value);
            }
        });
    }
    finish_if_empty(state, &key, &first.table);
}

/// Called when a custom resource is gone. Deletes its definition if the definition was waiting for that.
pub(crate) fn instance_gone(state: &State, crd_name: &str) {
    let key = Key::new("", crd_name);
    let Some(stored) = state.store.get(TABLE, &key) else { return };
    if stored.metadata()["deletionTimestamp"].is_null() {
        return;
    }
    finish_if_empty(state, &key, &custom::table(stored.value.head()));
}

/// Deletes a definition if its table has no objects. They are counted now: others may delete them, too.
fn finish_if_empty(state: &State, key: &Key, table: &str) {
    if state.store.count(table) > 0 {
        return;
    }
    let Some(stored) = state.store.get(TABLE, key) else { return };
    let before = stored.value.clone();
    let done = edit_stored(state, TABLE, &stored, |crd| remove_finalizer(&mut crd["metadata"], CLEANUP));
    if done.is_ok() && state.store.get(TABLE, key).is_none() {
        changed(state, Some(&before), None);
    }
}
