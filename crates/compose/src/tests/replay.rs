//! Provenance covers every leaf, and replaying it gives the spec: each leaf has the value that the layer it names gives at its
//! path, printed by the template or changed by the rule that it names, and no layer above says anything else there.

use std::collections::BTreeMap;

use longboat_template::reflect::Value as Data;
use serde_json::{Map, Value};

use crate::{Effective, Leaf, Origin, leaf, provenance, schema};

/// What is wrong with the provenance of a spec, one line for each leaf.
pub(super) fn faults(effective: &Effective) -> Vec<String> {
    let spec = serde_json::to_value(&effective.spec).unwrap();
    let provenance = effective.provenance();
    let mut faults = Vec::new();

    // The spec is nothing but its leaves.
    let mut rebuilt = Value::Null;
    for (path, leaf) in provenance.iter() {
        if place(&mut rebuilt, &leaf.pointer, leaf.value.clone()).is_none() {
            faults.push(format!("{path}: {} cannot be replayed", leaf.pointer));
        }
    }
    if rebuilt.is_null() {
        rebuilt = Value::Object(Map::new());
    }
    if rebuilt != spec {
        faults.push(format!("replayed: {rebuilt}\ncomposed: {spec}"));
    }

    let named = effective.layers().iter().map(|layer| {
        let origin =
            Origin::Config { namespace: layer.namespace().to_owned(), name: layer.name().to_owned() };
        (origin, leaves(layer.spec()))
    });
    let said: Vec<(Origin, BTreeMap<String, Vec<Value>>)> =
        named.chain([(Origin::Service, leaves(effective.own()))]).collect();
    for (path, leaf) in provenance.iter() {
        if let Err(fault) = follow(&said, effective, path, leaf) {
            faults.push(format!("{path} = {}: {fault}", leaf.value));
        }
    }
    faults
}

/// The leaves of a layer by path, as it takes part in merging. Elements of one key have one path: whether they become one is
/// decided by what they merge with.
fn leaves(spec: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    provenance::for_each(spec, &mut |path, value| {
        found.entry(unnumbered(path)).or_default().push(value.clone());
    });
    found
}

/// `env[name=A#2]` without the number.
fn unnumbered(path: &str) -> String {
    let mut parts = path.split('#');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Follows a leaf from its layer to its value.
fn follow(
    said: &[(Origin, BTreeMap<String, Vec<Value>>)],
    effective: &Effective,
    path: &str,
    leaf: &Leaf,
) -> Result<(), String> {
    let Some(given) = &leaf.given else {
        return match (&leaf.origin, leaf.rule) {
            (Origin::Derived, Some(_)) => Ok(()),
            (origin, rule) => Err(format!("no layer gives it, yet {origin} set it by {rule:?}")),
        };
    };
    let key = unnumbered(path);
    let says =
        |leaves: &BTreeMap<String, Vec<Value>>| leaves.get(&key).is_some_and(|all| all.contains(given));
    let at = said.iter().rposition(|(origin, leaves)| *origin == leaf.origin && says(leaves));
    let Some(at) = at else { return Err(format!("{} does not say {given}", leaf.origin)) };
    for (origin, leaves) in &said[at + 1..] {
        // A layer merges into the first element of a key.
        let others = leaves.get(path).into_iter().flatten();
        if let Some(other) = others.into_iter().find(|other| !is_silent(path, other)) {
            return Err(format!("{origin} says {other} above {}", leaf.origin));
        }
    }
    let printed = given.as_str().filter(|text| text.contains(leaf::ACTION)).map(|text| {
        let template = leaf::parse(text).ok_or("its template does not parse")?;
        let data = Data::typed(schema::TEMPLATE_DATA, Some(&effective.data));
        leaf::render(&template, &data).ok_or("its template does not render")
    });
    match (printed.transpose()?, leaf.rule) {
        (None, None) if *given == leaf.value => Ok(()),
        (None, Some(_)) if *given != leaf.value => Ok(()),
        // Where it is rewritten after it was printed, the template is what is told.
        (Some(text), None) if leaf.value == *text || rewritten(path) => Ok(()),
        (printed, rule) => {
            Err(format!("{} says {given}, which is printed as {printed:?}, by {rule:?}", leaf.origin))
        }
    }
}

/// Back ends of the managed route follow the scheduler, also where a template names them.
fn rewritten(path: &str) -> bool {
    path.starts_with("router.route.http.spec.")
}

/// What merges without saying anything.
fn is_silent(path: &str, value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty() && path.ends_with(".containers"),
        Value::String(text) => text.is_empty() && path == "model.uri",
        _ => false,
    }
}

/// Puts a value at a JSON pointer, and makes what is on the way: lists are filled in order or not.
fn place(root: &mut Value, pointer: &str, value: Value) -> Option<()> {
    let mut slot = root;
    for step in pointer.split('/').skip(1) {
        let key = step.replace("~1", "/").replace("~0", "~");
        // Keys of maps may be digits too, but no map of a spec has such keys beside lists.
        slot = match (slot.is_null(), key.parse::<usize>()) {
            (true, Ok(_)) => {
                *slot = Value::Array(Vec::new());
                slot
            }
            (true, Err(_)) => {
                *slot = Value::Object(Map::new());
                slot
            }
            _ => slot,
        };
        slot = match slot {
            Value::Array(items) => {
                let at: usize = key.parse().ok()?;
                if items.len() <= at {
                    items.resize(at + 1, Value::Null);
                }
                &mut items[at]
            }
            Value::Object(map) => map.entry(key).or_insert(Value::Null),
            _ => return None,
        };
    }
    *slot = value;
    Some(())
}
