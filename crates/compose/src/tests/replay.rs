//! Provenance covers every leaf, and replaying it gives the spec: each leaf has the value that its layer sets at its path,
//! rendered by its template or changed by its rule, and no higher layer sets another value there.

use std::collections::BTreeMap;

use longboat_api::child_name;
use serde_json::{Map, Value, json};

use crate::{Effective, Leaf, Origin, provenance, render, rules, schema};

/// Returns the errors in the provenance of a spec, one line per leaf.
pub(super) fn faults(effective: &Effective) -> Vec<String> {
    let spec = serde_json::to_value(&effective.spec).unwrap();
    let provenance = effective.provenance();
    let mut faults = Vec::new();

    // The leaves alone must give the complete spec.
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

    let named = effective.layers().iter().map(|layer| (layer.origin(), leaves(layer.spec())));
    let said: Vec<(Origin, BTreeMap<String, Vec<Value>>)> =
        named.chain([(Origin::Service, leaves(effective.own()))]).collect();
    for (path, leaf) in provenance.iter() {
        if let Err(fault) = follow(&said, effective, path, leaf) {
            faults.push(format!("{path} = {}: {fault}", leaf.value));
        }
    }
    faults
}

/// The leaves of a layer by path, in the form for merging. Elements with the same key have the same path: whether they become
/// one element depends on the lists below.
fn leaves(spec: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    provenance::for_each(spec, &mut |path, value| {
        found.entry(unnumbered(path)).or_default().push(value.clone());
    });
    found
}

/// Removes the number in `env[name=A#2]`.
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
    let Some(given) = &leaf.layer_value else {
        return match (&leaf.origin, leaf.rule) {
            (Origin::Derived, Some(_)) => decided(effective, path, leaf),
            (origin, rule) => Err(format!("no layer gives it, yet {origin} set it by {rule:?}")),
        };
    };
    let key = unnumbered(path);
    let says =
        |leaves: &BTreeMap<String, Vec<Value>>| leaves.get(&key).is_some_and(|all| all.contains(given));
    let at = said.iter().rposition(|(origin, leaves)| *origin == leaf.origin && says(leaves));
    let Some(at) = at else { return Err(format!("{} does not say {given}", leaf.origin)) };
    for (origin, leaves) in &said[at + 1..] {
        // A layer merges into the first element with a key.
        let others = leaves.get(path).into_iter().flatten();
        if let Some(other) = others.into_iter().find(|other| !is_silent(path, other)) {
            // The service takes the name of the model from its last base config that has one.
            if path == "model.name" && *origin == Origin::Service && other == given {
                continue;
            }
            return Err(format!("{origin} says {other} above {}", leaf.origin));
        }
    }
    let said = printed(effective, given)?;
    match leaf.rule {
        None if said == leaf.value => Ok(()),
        Some(_) if said != leaf.value => decided(effective, path, leaf),
        rule => Err(format!("{} says {given}, which is printed as {said}, by {rule:?}", leaf.origin)),
    }
}

/// Returns a layer's value after rendering it alone, as the name of a model.
fn printed(effective: &Effective, given: &Value) -> Result<Value, String> {
    if !render::has_template(given, &|_| true) {
        return Ok(given.clone());
    }
    let config = json!({ "metadata": {}, "spec": { "model": { "name": given } }, "status": {} });
    let spec = render::whole(&config, &effective.data).map_err(|error| error.to_string())?;
    Ok(spec["model"]["name"].clone())
}

/// Checks that the rules of `rules.rs` and `dra.rs` lead to this value at this path.
fn decided(effective: &Effective, path: &str, leaf: &Leaf) -> Result<(), String> {
    let service = &effective.data[schema::SERVICE_KEY]["metadata"];
    let name = service["name"].as_str().unwrap_or_default();
    let router = effective.spec.router.as_ref();
    let scheduler = router.and_then(|router| router.scheduler.as_ref());
    if leaf.rule == Some(rules::EMPTIED) {
        let mut specs = effective.layers().iter().map(|layer| layer.spec()).chain([effective.own()]);
        let had_more = specs
            .any(|spec| matches!(spec.pointer(&leaf.pointer), Some(Value::Object(map)) if !map.is_empty()));
        return if had_more { Ok(()) } else { Err("nothing was taken away".to_owned()) };
    }
    let expected = if path.starts_with("router.scheduler.pool.spec.selector.matchLabels") {
        match path.rsplit(['.', '/', '"']).find(|part| !part.is_empty() && *part != "]") {
            Some("part-of") => json!("llminferenceservice"),
            Some("name") => json!(name),
            _ => json!("workload"),
        }
    } else if path == "router.scheduler.template.serviceAccountName" {
        json!(child_name(name, "-epp-sa"))
    } else if path == "router.scheduler.pool.spec.endpointPickerRef.port.number" {
        json!(9002)
    } else if path == "model.name" {
        json!(name)
    } else if path.starts_with("router.scheduler.config.inline") && effective.scheduler_config_map.is_some()
        || path.ends_with(".env[name=KSERVE_KV_TRANSFER_ARGS].value")
        || path.ends_with(".emptyDir.sizeLimit")
    {
        // Tests of their own say what these are.
        leaf.value.clone()
    } else if path.starts_with("router.scheduler.config.inline") {
        match path.rsplit('.').next() {
            Some("weight") => json!(4),
            _ => json!("lora-affinity-scorer"),
        }
    } else if let Some(field) = path.strip_prefix("router.route.http.spec.parentRefs[") {
        let (at, field) = field.split_once("].").ok_or("no field of a parent")?;
        let refs = router.and_then(|router| router.gateway.as_ref()).map(|gateway| &gateway.refs);
        let at: usize = at.parse().map_err(|_| "no position")?;
        let gateway = refs.and_then(|refs| refs.get(at)).ok_or("there is no such Gateway")?;
        match field {
            "group" => json!("gateway.networking.k8s.io"),
            "kind" => json!("Gateway"),
            "name" => json!(gateway.name),
            "namespace" => json!(gateway.namespace),
            "sectionName" => json!(gateway.section_name),
            _ => Value::Null,
        }
    } else if path.starts_with("router.route.http.spec.rules[") && path.contains(".backendRefs[") {
        // The backend was the pool that the controller would create, or the last layer left the rule without a backend.
        let (_, field) = path.rsplit_once('.').ok_or("no field of a back end")?;
        match (field, scheduler) {
            ("group", None) => json!(""),
            ("kind", None) => json!("Service"),
            ("name", None) => json!(child_name(name, "-kserve-workload-svc")),
            ("group", Some(_)) => json!("inference.networking.k8s.io"),
            ("kind", Some(_)) => json!("InferencePool"),
            ("name", Some(scheduler)) => {
                let external = json!(scheduler.external_pool());
                if external.is_null() { json!(child_name(name, "-inference-pool")) } else { external }
            }
            ("port", _) => json!(8000),
            ("weight", _) => json!(1),
            _ => Value::Null,
        }
    } else if path.contains("resourceClaims[") || path.contains(".claims[") {
        match path.rsplit('.').next() {
            Some("name") => json!("managed-device"),
            _ => json!(child_name(name, "-managed-dra")),
        }
    } else {
        Value::Null
    };
    if expected == leaf.value { Ok(()) } else { Err(format!("no rule leads to it: {:?}", leaf.rule)) }
}

/// Whether merging this value has no effect.
fn is_silent(path: &str, value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty() && path.ends_with(".containers"),
        Value::String(text) => text.is_empty() && path == "model.uri",
        _ => false,
    }
}

/// Sets a value at a JSON pointer, and creates missing parents. Lists may be filled in any order.
fn place(root: &mut Value, pointer: &str, value: Value) -> Option<()> {
    let mut slot = root;
    for step in pointer.split('/').skip(1) {
        let key = step.replace("~1", "/").replace("~0", "~");
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
