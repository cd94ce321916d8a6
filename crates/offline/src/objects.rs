//! Children as JSON objects, in the order in which they are written.

use longboat_plan::{Child, ChildKind, Children, ObjectRef, Snapshot, yaml};
use serde::Serialize;
use serde_json::{Value, json};

/// The kind of a child as manifests have it, such as `Deployment`.
pub(crate) fn kind_of(child: ChildKind) -> &'static str {
    child.go_type().rsplit('.').next().unwrap_or_default()
}

/// A child as the controller would write it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its key.
    pub reference: ObjectRef,
    /// The object.
    pub value: Value,
}

/// Returns all children of a service.
pub(crate) fn of<S>(children: &Children<S>) -> Vec<Object> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
            let mut all = Vec::new();
            $(add(&children.$field, &mut all);)*
            all
        }};
    }
    longboat_plan::kinds!(children each)
}

/// Returns all children of a service as YAML documents. `secret` changes each Secret before it is printed.
pub(crate) fn documents<S>(children: &Children<S>, secret: impl Fn(&mut Value)) -> String {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
            let mut text = String::new();
            $(document(&children.$field, &secret, &mut text);)*
            text
        }};
    }
    longboat_plan::kinds!(children each)
}

fn document<K: Child + Serialize>(objects: &[K], secret: &impl Fn(&mut Value), text: &mut String) {
    for object in objects {
        text.push_str("---\n");
        // A tree of JSON costs three times the rest, so only Secrets, which have values to hide, become one.
        if K::CHILD_KIND == ChildKind::Secret {
            let mut value = one(object);
            secret(&mut value);
            text.push_str(&yaml::to_yaml(&value));
        } else {
            text.push_str(&object.to_yaml());
        }
    }
}

/// The effect of writing a child: the live object, if there is one, and the object after the write. They are equal if nothing
/// would be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) reference: ObjectRef,
    pub(crate) live: Option<Value>,
    pub(crate) after: Value,
}

/// Returns the effect of writing each child.
pub(crate) fn writes<S>(children: &Children<S>, snapshot: &Snapshot) -> Vec<Write> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
            let mut all = Vec::new();
            $(write(&children.$field, snapshot, &mut all);)*
            all
        }};
    }
    longboat_plan::kinds!(children each)
}

fn write<K: Child + Serialize>(planned: &[K], snapshot: &Snapshot, all: &mut Vec<Write>) {
    for object in planned {
        let reference = object.reference();
        let found =
            K::observed(snapshot).get(reference.key.namespace.as_deref(), reference.key.name.as_deref());
        let live = found.map(one);
        let after = match (found, &live) {
            // The controller makes the same decision before a write.
            (Some(found), Some(live)) if !object.differs(found) => live.clone(),
            (found, _) => {
                let mut after = object.clone();
                // A live object that must be replaced leaves nothing to its successor.
                if let Some(found) = found.filter(|found| !object.must_be_recreated(found)) {
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

/// Returns one object. The values of a Secret are replaced by their sizes, because they must not be printed.
pub(crate) fn one<K: Serialize>(object: &K) -> Value {
    // Kubernetes objects have string keys only, so this cannot fail.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if value["kind"] == "Secret"
        && let Some(Value::Object(data)) = value.get_mut("data")
    {
        for entry in data.values_mut() {
            let encoded = entry.as_str().unwrap_or_default();
            // Base64 has four characters for three bytes, and `=` for each byte that is missing.
            let padding = encoded.bytes().rev().take_while(|b| *b == b'=').count();
            *entry = json!(format!("<{} bytes>", encoded.len() / 4 * 3 - padding));
        }
    }
    prune(&mut value);
    value
}

/// Removes nulls, and in metadata also empty maps and lists.
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
