//! The origin of each leaf in a composed spec.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
    sync::Arc,
};

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_template::reflect::{Struct, Ty};
use serde_json::Value;

use crate::{field_path::FieldPath, keys::list_key, kv_cache, layer::Layer, origin::Origin, rules, schema};

/// Which layer set each leaf of a spec, and what it replaced.
///
/// Paths have the form `template.containers[name=main].args[0]`: elements of lists that merge are addressed by key, those of
/// other lists by position.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    leaves: BTreeMap<String, Leaf>,
    gone: BTreeMap<String, Vec<LayerValue>>,
}

/// A leaf and its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// The final value, rendered.
    pub value: Value,
    /// The JSON pointer of the leaf in the spec. It has the same steps as the path.
    pub pointer: String,
    /// The layer that set it.
    pub origin: Origin,
    /// The value in its layer, before templates were rendered and later steps changed it.
    pub layer_value: Option<Value>,
    /// The values that it replaced, latest first.
    pub replaced: Vec<LayerValue>,
    /// The rule by which composition created or changed the value, if it did.
    pub rule: Option<&'static str>,
}

/// A value in one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerValue {
    /// The layer.
    pub origin: Origin,
    /// The value.
    pub value: Value,
}

impl Provenance {
    /// The leaf at a path.
    pub fn get(&self, path: &str) -> Option<&Leaf> {
        self.leaves.get(path)
    }

    /// All leaves by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Leaf)> {
        self.leaves.iter().map(|(path, leaf)| (path.as_str(), leaf))
    }

    /// The values that layers set and the spec does not have, because they were removed or replaced as part of a list. By
    /// path, latest first.
    pub fn gone(&self) -> impl Iterator<Item = (&str, &[LayerValue])> {
        self.gone.iter().map(|(path, entries)| (path.as_str(), entries.as_slice()))
    }

    /// Follows the layers, lowest first, and the service's own spec above them. Then compares them with what merging and
    /// rendering made of them, and with the result.
    pub(crate) fn compute(
        layers: &[Arc<Layer>],
        own: &Value,
        rendered: &Value,
        spec: &LLMInferenceServiceSpec,
    ) -> Self {
        let mut history = History::default();
        for layer in layers {
            history.origin = layer.origin();
            history.visit(schema::TYPES.spec, layer.spec());
        }
        history.origin = Origin::Service;
        history.visit(schema::TYPES.spec, own);
        // The model's name in a base config takes the place of the service's, which may be a default.
        let bases = own["baseRefs"].as_array().map_or(0, Vec::len);
        let named =
            layers.iter().rev().take(bases).any(|layer| layer.spec().pointer("/model/name").is_some());
        if named && let Some(names) = history.entries.get_mut("model.name") {
            names.pop();
        }

        let mut rendered_leaves: HashMap<String, &Value> = HashMap::new();
        for_each_leaf(schema::TYPES.spec, rendered, &mut Cursor::default(), &mut |cursor, value| {
            rendered_leaves.insert(cursor.place.path.clone(), value);
        });
        let mut leaves = BTreeMap::new();
        // A spec can always be serialized, because it has only string keys.
        let spec = serde_json::to_value(spec).unwrap_or_default();
        for_each_leaf(schema::TYPES.spec, &spec, &mut Cursor::default(), &mut |cursor, value| {
            let FieldPath { path, pointer } = &cursor.place;
            let mut entries = history.entries.remove(path).unwrap_or_default();
            // A leaf that the rendered spec lacks comes from a rewrite, even if a layer has a value at the same position of a
            // list.
            let before = rendered_leaves.get(path);
            let latest = before.and_then(|_| entries.pop());
            // An absent URI is written as "".
            entries.retain(|entry| path != "model.uri" || entry.value != "");
            entries.reverse();
            let (origin, layer_value) =
                latest.map_or((Origin::Derived, None), |latest| (latest.origin, Some(latest.value)));
            let rule = match (before, &layer_value) {
                (Some(before), Some(_)) => (*before != value).then(|| rules::of(path, rendered)),
                _ if is_empty(value) && below(&history.entries, path) => Some(rules::EMPTIED),
                _ => Some(rules::of(path, rendered)),
            };
            let leaf = Leaf {
                value: value.clone(),
                pointer: pointer.to_owned(),
                origin,
                layer_value,
                replaced: entries,
                rule,
            };
            leaves.insert(path.to_owned(), leaf);
        });
        // A slot that stays empty is removed, which nobody needs to know.
        let empty_slot = format!(".env[name={}].name", kv_cache::SLOT);
        history.entries.retain(|path, _| !path.ends_with(&empty_slot));
        // An empty object or list is a leaf only until it gets elements.
        history.entries.retain(|_, entries| entries.iter().any(|entry| !is_empty(&entry.value)));
        for entries in history.entries.values_mut() {
            entries.reverse();
        }
        Self { leaves, gone: history.entries }
    }
}

/// Whether a layer set a value below a path.
fn below(entries: &BTreeMap<String, Vec<LayerValue>>, path: &str) -> bool {
    let from = entries.range(path.to_owned()..).take_while(|(other, _)| other.starts_with(path));
    from.into_iter().any(|(other, _)| other[path.len()..].starts_with(['.', '[']))
}

/// Calls `visit` with the path and the value of each leaf of a spec.
pub(crate) fn for_each(spec: &Value, visit: &mut impl FnMut(&str, &Value)) {
    for_each_leaf(schema::TYPES.spec, spec, &mut Cursor::default(), &mut |cursor, value| {
        visit(&cursor.place.path, value);
    });
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// The values at each path so far, lowest layer first.
#[derive(Default)]
struct History {
    origin: Origin,
    entries: BTreeMap<String, Vec<LayerValue>>,
    /// The lists that merge and that a layer has set.
    lists: BTreeSet<String>,
}

impl History {
    fn visit(&mut self, ty: Ty, json: &Value) {
        let origin = self.origin.clone();
        let entries = &mut self.entries;
        let mut cursor = Cursor { known: std::mem::take(&mut self.lists), ..Cursor::default() };
        for_each_leaf(ty, json, &mut cursor, &mut |cursor, value| {
            let path = &cursor.place.path;
            // An empty object adds nothing to an existing object, and an absent model URI is written as "".
            let known = entries.get(path).and_then(|known| known.last());
            let is_empty_object = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
            let says_nothing = known.is_some_and(|known| {
                is_empty_object(value) && is_empty_object(&known.value)
                    || path == "model.uri" && value == ""
                    || value.as_array().is_some_and(Vec::is_empty) && path.ends_with(".containers")
            });
            if says_nothing {
                return;
            }
            entries
                .entry(path.to_owned())
                .or_default()
                .push(LayerValue { origin: origin.clone(), value: value.clone() });
        });
        self.lists = cursor.known;
        self.lists.extend(cursor.lists);
    }
}

/// The position of a walk through a spec.
#[derive(Default)]
struct Cursor {
    place: FieldPath,
    /// Lists of lower layers with which this layer's lists merge. Elements with the same key become one element there, but
    /// stay separate in a new list.
    known: BTreeSet<String>,
    /// Lists that merge, as far as the walk has passed them.
    lists: Vec<String>,
}

/// Calls `visit` for every scalar and every empty object or list.
fn for_each_leaf<'a>(
    ty: Ty,
    json: &'a Value,
    cursor: &mut Cursor,
    visit: &mut impl FnMut(&Cursor, &'a Value),
) {
    let mark = cursor.place.mark();
    match (ty, json) {
        (Ty::Ptr(inner), _) => for_each_leaf(*inner, json, cursor, visit),
        (_, Value::Object(map)) if !map.is_empty() => {
            for (key, value) in map {
                cursor.place.enter(key);
                match ty {
                    Ty::Struct(s) => member(s, key, value, cursor, visit),
                    Ty::Map(_, inner) => for_each_leaf(*inner, value, cursor, visit),
                    _ => for_each_leaf(Ty::Any, value, cursor, visit),
                }
                cursor.place.back_to(mark);
            }
        }
        (_, Value::Array(items)) if !items.is_empty() => {
            let inner = match ty {
                Ty::Slice(_, inner) => *inner,
                _ => Ty::Any,
            };
            elements(inner, None, items, cursor, visit);
        }
        _ => visit(cursor, json),
    }
}

fn member<'a>(
    s: &'static Struct,
    key: &str,
    json: &'a Value,
    cursor: &mut Cursor,
    visit: &mut impl FnMut(&Cursor, &'a Value),
) {
    let (holder, ty) = schema::find_field(s, key).unwrap_or((s, Ty::Any));
    let (Ty::Slice(_, inner), Value::Array(items)) = (ty, json) else {
        return for_each_leaf(ty, json, cursor, visit);
    };
    let merge_key = list_key(holder.name, key);
    if merge_key.is_some() {
        cursor.lists.push(cursor.place.path.clone());
    }
    if items.is_empty() {
        for_each_leaf(ty, json, cursor, visit);
    } else {
        elements(*inner, merge_key, items, cursor, visit);
    }
}

fn elements<'a>(
    ty: Ty,
    merge_key: Option<&str>,
    items: &'a [Value],
    cursor: &mut Cursor,
    visit: &mut impl FnMut(&Cursor, &'a Value),
) {
    let mark = cursor.place.mark();
    let merges = cursor.known.contains(&cursor.place.path);
    let mut seen: HashMap<&Value, usize> = HashMap::new();
    for (i, item) in items.iter().enumerate() {
        let found = merge_key.and_then(|key| Some((key, item.get(key)?)));
        let mut name = found.map(|(key, value)| match value {
            Value::String(value) => format!("{key}={value}"),
            value => format!("{key}={value}"),
        });
        if let Some((_, value)) = found.filter(|_| !merges) {
            // Keys can repeat, for instance two variables with one name. Later ones get a number.
            let nth = seen.entry(value).or_default();
            *nth += 1;
            if let Some(name) = name.as_mut().filter(|_| *nth > 1) {
                // Writing to a String cannot fail.
                let _ = write!(name, "#{nth}");
            }
        }
        cursor.place.enter_element(name.as_deref(), i);
        for_each_leaf(ty, item, cursor, visit);
        cursor.place.back_to(mark);
    }
}
