//! Children as plain objects, in the order in which they are written.

use longboat_plan::{Child, ChildKind, Children, ObjectRef, Snapshot, yaml};
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
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
            let mut all = Vec::new();
            $(add(&children.$field, &mut all);)*
            all
        }};
    }
    longboat_plan::kinds!(children each)
}

/// All children of a service as YAML documents, and its Secrets as `secret` leaves them.
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
        if K::CHILD_KIND == ChildKind::Secret {
            let mut value = one(object);
            secret(&mut value);
            text.push_str(&yaml::to_yaml(&value));
        } else {
            text.push_str(&object.to_yaml());
        }
    }
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
        let found = K::observed(snapshot).get(&reference.namespace, &reference.name);
        let live = found.map(one);
        let after = match (found, &live) {
            // The same decision as before a write.
            (Some(found), Some(live)) if !object.differs(found) => live.clone(),
            (found, _) => {
                let mut after = object.clone();
                // What makes way for its successor leaves it nothing.
                if let Some(found) = found.filter(|found| !object.is_fixed(found)) {
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
