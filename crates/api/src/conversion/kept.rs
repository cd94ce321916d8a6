//! Fields of a spec that `v1alpha1` lacks: annotations hold them there.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::{
    Fields,
    criticality::{ByPosition, adapters, take_named},
    map_at, pool,
};
use crate::v1alpha2::LLMInferenceServiceSpec;

/// In `v1alpha1`: keys of annotations that hold the fields of the spec that only `v1alpha2` has. The path within the spec
/// follows (`…/v1alpha2.kvCacheOffloading.cpu`), the value is JSON.
///
/// One annotation for each field that somebody can own: server-side apply gives up a field by leaving it out of the object
/// in every version that has managers. In one text for all fields there is nothing to leave out, and what a manager of
/// `v1alpha2` gave up would come back as soon as there is a manager of `v1alpha1`.
pub const KEPT_PREFIX: &str = "internal.serving.kserve.io/v1alpha2.";

/// Maps whose fields are owned one by one, with these fields.
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

/// Going down: takes out of a spec what `v1alpha1` has no place for, and turns the pool into its older shape.
///
/// `criticalities` are those of adapters that annotations name.
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
    // `v1alpha2` has no such field: what stands there means nothing, and must not come to mean something.
    model.remove("criticality");
    if let Some(value) = take_some(model, CONFIDENTIAL) {
        kept.insert(CONFIDENTIAL.to_owned(), value);
    }
    // Nothing prunes adapters, so they keep all their fields, except for the one that `v1alpha1` would understand.
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

/// What was taken, as annotations.
pub(super) fn write(kept: &Fields) -> Vec<(String, Value)> {
    let mut annotations = Vec::new();
    let mut add = |path: &str, value: &Value| {
        annotations.push((format!("{KEPT_PREFIX}{path}"), Value::String(value.to_string())));
    };
    for (path, fields) in MAPS {
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

/// The fields that annotations hold. Text that this code cannot have written is ignored: users may write anything into
/// annotations, and an object that nobody can read would be worse than a missing field.
pub(super) fn read(mut annotations: Fields) -> Fields {
    let mut kept = Value::Object(Fields::new());
    let mut take = |path: &str, is_map: bool| {
        let Some(Value::String(text)) = annotations.remove(&format!("{KEPT_PREFIX}{path}")) else { return };
        let Ok(value) = serde_json::from_str::<Value>(&text) else { return };
        // To serde, a list is as good as a map.
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
    let readable = serde_json::from_value::<LLMInferenceServiceSpec>(kept.clone()).is_ok();
    match kept {
        Value::Object(kept) if readable => kept,
        _ => Fields::new(),
    }
}

fn at_path<'a>(map: &'a Fields, path: &str) -> Option<&'a Value> {
    let mut keys = path.split('.');
    let first = map.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.get(key))
}

/// Going up: puts back what was kept, where its parent still is, and turns the pool into its newer shape.
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

/// The items of a list with those that were kept of it, matched by the values of `keys`: the first of those values with
/// the first, the second with the second.
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

/// Takes a field; null is none.
pub(super) fn take_some(map: &mut Fields, key: &str) -> Option<Value> {
    map.remove(key).filter(|value| !value.is_null())
}

/// Moves a field from what was kept, unless there is one already.
pub(super) fn put_some(map: &mut Fields, key: &str, kept: &mut Fields) {
    if let Some(value) = take_some(kept, key)
        && !map.contains_key(key)
    {
        map.insert(key.to_owned(), value);
    }
}
