//! Fields of a spec that `v1alpha1` lacks, and the annotations that hold them in `v1alpha1`.

use std::collections::{HashMap, VecDeque};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    criticality::{ByPosition, adapters, take_named},
    fields::{Fields, map_at},
    pool,
};
use crate::v1alpha2::LLMInferenceServiceSpec;

/// The prefix of annotations in `v1alpha1` that hold the fields of the spec that only `v1alpha2` has. The path within the
/// spec follows (`…/v1alpha2.kvCacheOffloading.cpu`), and the value is JSON.
///
/// There is one annotation for each field that can have an owner. Server-side apply releases a field by removing it from the
/// object in every version in which managers own fields. With a single annotation for all fields, it could not remove just
/// one of them: a field that a manager of `v1alpha2` has released would come back as soon as there is a manager of
/// `v1alpha1`.
pub const KEPT_PREFIX: &str = "internal.serving.kserve.io/v1alpha2.";

/// Maps whose fields have separate owners, with these fields.
const MAPS: [(&str, &[&str]); 3] = [
    ("kvCacheOffloading", &["cpu", "evictionPolicy", "secondary"]),
    ("prefill.kvCacheOffloading", &["cpu", "evictionPolicy", "secondary"]),
    ("model.confidential", &["enabled", "resourceId"]),
];
/// Fields that are owned as a whole.
const FIELDS: [&str; 4] = [
    "model.lora.adapters",
    "router.scheduler.pool.spec.targetPorts",
    "router.scheduler.pool.spec.appProtocol",
    "router.scheduler.pool.spec.endpointPickerRef",
];

const KV_CACHE: &str = "kvCacheOffloading";
const CONFIDENTIAL: &str = "confidential";
const POOL: &[&str] = &["router", "scheduler", "pool", "spec"];

/// Converts down: removes the fields that `v1alpha1` lacks from a spec and returns them. Changes the pool to its older
/// shape.
///
/// `criticalities` are the criticalities of adapters in the annotations.
pub(super) fn take(spec: &mut Fields, criticalities: &ByPosition) -> Fields {
    let mut kept = Fields::new();
    if let Some(value) = take_some(spec, KV_CACHE) {
        kept.insert(KV_CACHE.to_owned(), value);
    }
    if let Some(prefill) = map_at(spec, &["prefill"])
        && let Some(value) = take_some(prefill, KV_CACHE)
    {
        kept.insert("prefill".to_owned(), json!({ KV_CACHE: value }));
    }
    if let Some(model) = map_at(spec, &["model"]) {
        let of_model = take_of_model(model, criticalities);
        if !of_model.is_empty() {
            kept.insert("model".to_owned(), Value::Object(of_model));
        }
    }
    if let Some(pool) = map_at(spec, POOL) {
        let of_pool = pool::down(pool);
        if !of_pool.is_empty() {
            kept.insert("router".to_owned(), json!({"scheduler": {"pool": {"spec": of_pool}}}));
        }
    }
    kept
}

fn take_of_model(model: &mut Fields, criticalities: &ByPosition) -> Fields {
    let mut kept = Fields::new();
    // `v1alpha2` has no such field, so a value there has no meaning, and must not get one by the conversion.
    model.remove("criticality");
    if let Some(value) = take_some(model, CONFIDENTIAL) {
        kept.insert(CONFIDENTIAL.to_owned(), value);
    }
    // Nothing prunes adapters, so they keep all their fields, except for the one that has a meaning in `v1alpha1`.
    let of_adapters: Vec<Value> = adapters(model)
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(at, adapter)| Some((at, adapter.as_object_mut()?)))
        .map(|(at, adapter)| {
            let mut kept = Fields::new();
            if let Some(name) = adapter.get("name").and_then(Value::as_str) {
                kept.insert("name".to_owned(), name.into());
            }
            let own = if criticalities.contains_key(&at.to_string()) {
                adapter.remove("criticality")
            } else {
                take_named(adapter).map(Value::String)
            };
            if let Some(own) = own {
                kept.insert("criticality".to_owned(), own);
            }
            Value::Object(kept)
        })
        .collect();
    if of_adapters.iter().any(|adapter| adapter.get("criticality").is_some()) {
        kept.insert("lora".to_owned(), json!({ "adapters": of_adapters }));
    }
    kept
}

/// Returns annotations for the removed fields.
pub(super) fn write(kept: &Fields) -> Vec<(String, Value)> {
    let mut annotations = Vec::new();
    let mut add = |path: &str, value: &Value| {
        annotations.push((format!("{KEPT_PREFIX}{path}"), Value::String(value.to_string())));
    };
    for (path, fields) in MAPS {
        // `read` knows these fields only, so a map that has others is kept whole.
        match at_path(kept, path) {
            Some(Value::Object(map))
                if !map.is_empty() && map.keys().all(|key| fields.contains(&key.as_str())) =>
            {
                map.iter().for_each(|(key, value)| add(&format!("{path}.{key}"), value));
            }
            Some(value) => add(path, value),
            None => {}
        }
    }
    for path in FIELDS {
        if let Some(value) = at_path(kept, path) {
            add(path, value);
        }
    }
    annotations
}

/// Reads the fields in annotations. Ignores text that this code cannot have written: users may write anything into
/// annotations, and an unreadable object would be worse than a missing field.
pub(super) fn read(mut annotations: Fields) -> Fields {
    let mut kept = Value::Object(Fields::new());
    let mut take = |path: &str, is_map: bool| {
        let Some(Value::String(text)) = annotations.remove(&format!("{KEPT_PREFIX}{path}")) else { return };
        let Ok(value) = serde_json::from_str::<Value>(&text) else { return };
        // The check is needed because serde also reads a struct from a list.
        if is_map && !value.is_object() {
            return;
        }
        let mut place = &mut kept;
        for key in path.split('.') {
            if !place.is_object() {
                *place = Value::Object(Fields::new());
            }
            place = &mut place[key];
        }
        *place = value;
    };
    for (path, fields) in MAPS {
        take(path, true);
        for field in fields {
            take(&format!("{path}.{field}"), false);
        }
    }
    for path in FIELDS {
        take(path, false);
    }
    let is_readable = LLMInferenceServiceSpec::deserialize(&kept).is_ok();
    match kept {
        Value::Object(kept) if is_readable => kept,
        _ => Fields::new(),
    }
}

fn at_path<'a>(map: &'a Fields, path: &str) -> Option<&'a Value> {
    let mut keys = path.split('.');
    let first = map.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.get(key))
}

/// Converts up: puts the kept fields back if their parents still exist, and changes the pool to its newer shape.
pub(super) fn put_back(spec: &mut Fields, mut kept: Fields) {
    put_some(spec, KV_CACHE, &mut kept);
    if let Some(prefill) = map_at(spec, &["prefill"])
        && let Some(kept) = map_at(&mut kept, &["prefill"])
    {
        put_some(prefill, KV_CACHE, kept);
    }
    if let Some(model) = map_at(spec, &["model"])
        && let Some(kept) = map_at(&mut kept, &["model"])
    {
        put_some(model, CONFIDENTIAL, kept);
        if let (Some(adapters), Some(kept)) = (adapters(model), adapters(kept)) {
            for (adapter, mut kept) in pairs(adapters, std::mem::take(kept), &["name"]) {
                if let Some(own) = kept.remove("criticality") {
                    adapter.entry("criticality").or_insert(own);
                }
            }
        }
    }
    if let Some(pool) = map_at(spec, POOL) {
        let kept = map_at(&mut kept, POOL).map(std::mem::take).unwrap_or_default();
        pool::up(pool, kept);
    }
}

/// Pairs the items of a list with the kept parts of items that have the same values of `keys`. If several items have the
/// same values, they are paired in order.
pub(super) fn pairs<'a>(
    items: &'a mut [Value],
    kept: Vec<Value>,
    keys: &'a [&'a str],
) -> impl Iterator<Item = (&'a mut Fields, Fields)> {
    let identity = |item: &Fields| keys.iter().map(|key| item.get(*key).cloned()).collect::<Vec<_>>();
    let mut by_identity: HashMap<_, VecDeque<Fields>> = HashMap::new();
    for item in kept {
        if let Value::Object(item) = item {
            by_identity.entry(identity(&item)).or_default().push_back(item);
        }
    }
    items
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .filter_map(move |item| by_identity.get_mut(&identity(item))?.pop_front().map(|kept| (item, kept)))
}

/// Removes and returns a field. Null counts as missing.
pub(super) fn take_some(map: &mut Fields, key: &str) -> Option<Value> {
    map.remove(key).filter(|value| !value.is_null())
}

/// Moves a kept field to `map`, unless `map` already has the field.
pub(super) fn put_some(map: &mut Fields, key: &str, kept: &mut Fields) {
    if let Some(value) = take_some(kept, key)
        && !map.contains_key(key)
    {
        map.insert(key.to_owned(), value);
    }
}
