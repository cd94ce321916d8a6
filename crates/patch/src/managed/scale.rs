//! Ownership of replicas in the scale subresource.

use serde_json::{Value, json};

use crate::fields::{Path, Set};

use super::entries::{self, Manager, OwnedFields, Ownership};

/// The version of the Scale kind.
const SCALE: &str = "autoscaling/v1";

fn replicas_in_scale() -> Path {
    Path::of_fields(&["spec", "replicas"])
}

/// Returns the `managedFields` of a Scale: the entries of the object that own its replicas, converted to entries about a
/// Scale. `replicas` returns the path of the replicas in a version of the object.
pub fn scale_to_subresource(parent: &Value, replicas: &dyn Fn(&str) -> Option<Path>) -> Value {
    let mut scale = Ownership::new();
    for (manager, owned) in entries::decode(parent).unwrap_or_default() {
        if replicas(&owned.api_version).is_some_and(|path| owned.set.has(&path.0)) {
            let set = Set::of(&[replicas_in_scale()]);
            scale.insert(manager, OwnedFields { set, api_version: SCALE.to_owned(), ..owned });
        }
    }
    let mut holder = json!({});
    entries::encode(&mut holder, &scale);
    holder.pointer("/metadata/managedFields").cloned().unwrap_or(Value::Null)
}

/// Updates the ownership of the replicas in `parent` after a write to its Scale.
///
/// `scale` is the Scale after the write, with `managedFields`. `api_version` is the version of `parent`.
pub fn scale_to_parent(
    parent: &mut Value,
    api_version: &str,
    scale: &Value,
    replicas: &dyn Fn(&str) -> Option<Path>,
) {
    let mut of_scale = entries::decode(scale).unwrap_or_default();
    let mut merged = Ownership::new();
    for (manager, mut owned) in entries::decode(parent).unwrap_or_default() {
        let path = replicas(&owned.api_version);
        let Some(path) = path.filter(|path| owned.set.has(&path.0)) else {
            merged.insert(manager, owned);
            continue;
        };
        let api_version = if owned.applied { String::new() } else { SCALE.to_owned() };
        let in_scale = Manager { api_version, ..manager.clone() };
        if of_scale.remove(&in_scale).is_none() {
            // Another manager has set the replicas through the Scale.
            owned.set = owned.set.difference(&Set::of(&[path]));
        }
        if !owned.set.is_empty() {
            merged.insert(manager, owned);
        }
    }
    for (mut manager, owned) in of_scale {
        let Some(path) = replicas(api_version) else { continue };
        if !owned.set.has(&replicas_in_scale().0) {
            continue;
        }
        if !owned.applied {
            api_version.clone_into(&mut manager.api_version);
        }
        // Upstream takes the time from the object's entries, in which a new manager has none.
        let entry =
            OwnedFields { set: Set::of(&[path]), api_version: api_version.to_owned(), time: None, ..owned };
        merged.insert(manager, entry);
    }
    entries::encode(parent, &merged);
}
