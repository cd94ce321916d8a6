//! The fields of a spec that `v1alpha1` lacks, and how they survive in it.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::{
    Fields,
    criticality::{ByPosition, adapters, take_named},
    map_at, pool,
};
use crate::v1alpha2::LLMInferenceServiceSpec;

/// In `v1alpha1`: a JSON object with the fields of the spec that only `v1alpha2` has, each where it is in the spec. In
/// `status.annotations`: the same for the status.
pub const KEPT_FIELDS: &str = "internal.serving.kserve.io/v1alpha2-fields";

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

/// What an annotation keeps, if it can have been written here: whoever may write an object may write anything into it, and
/// an object that nobody can read would be worse than a field less.
pub(super) fn read(text: &str) -> Option<Fields> {
    let kept: Value = serde_json::from_str(text).ok()?;
    serde_json::from_value::<LLMInferenceServiceSpec>(kept.clone()).ok()?;
    match kept {
        Value::Object(kept) => Some(kept),
        _ => None,
    }
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
