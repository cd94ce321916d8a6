//! Where each leaf of an effective spec comes from.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_template::reflect::{Struct, Ty};
use serde_json::Value;

use crate::{keys::list_key, layer::Layer, merge::find_field, schema};

/// Which layer set each leaf of a spec, and what it replaced.
///
/// Paths read `template.containers[name=main].args[0]`: elements of lists that merge are found by their key, those of
/// other lists by position.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    leaves: BTreeMap<String, Leaf>,
}

/// A leaf and its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// The final value, rendered.
    pub value: Value,
    /// Who set it.
    pub origin: Origin,
    /// The value as its layer has it, before templates ran and later steps rewrote it.
    pub given: Option<Value>,
    /// What it replaced, latest first.
    pub replaced: Vec<Replaced>,
}

/// A value that a higher layer replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced {
    /// Who had set it.
    pub origin: Origin,
    /// The value as that layer has it.
    pub value: Value,
}

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A config.
    Config {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The service itself.
    Service,
    /// Composing: names, selectors, ports and references that follow from the rest.
    Derived,
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

    /// Follows the layers, lowest first, and then looks at what they led to.
    pub(crate) fn compute(layers: &[Arc<Layer>], own: &Value, spec: &LLMInferenceServiceSpec) -> Self {
        let mut history = History::default();
        for layer in layers {
            history.origin =
                Origin::Config { namespace: layer.namespace().to_owned(), name: layer.name().to_owned() };
            history.visit(schema::SPEC, layer.spec(), &mut String::new());
        }
        history.origin = Origin::Service;
        history.visit(schema::SPEC, own, &mut String::new());

        let mut leaves = BTreeMap::new();
        // A spec always serialises: it has string keys only.
        let spec = serde_json::to_value(spec).unwrap_or_default();
        for_each_leaf(schema::SPEC, &spec, &mut String::new(), &mut |path, value| {
            let mut entries = history.entries.remove(path).unwrap_or_default();
            let latest = entries.pop();
            entries.reverse();
            let (origin, given) =
                latest.map_or((Origin::Derived, None), |latest| (latest.origin, Some(latest.value)));
            leaves.insert(path.to_owned(), Leaf { value: value.clone(), origin, given, replaced: entries });
        });
        Self { leaves }
    }
}

/// What was set at each path so far, lowest layer first.
struct History {
    origin: Origin,
    entries: BTreeMap<String, Vec<Replaced>>,
}

impl Default for History {
    fn default() -> Self {
        Self { origin: Origin::Derived, entries: BTreeMap::new() }
    }
}

impl History {
    fn visit(&mut self, ty: Ty, json: &Value, path: &mut String) {
        let origin = self.origin.clone();
        let entries = &mut self.entries;
        for_each_leaf(ty, json, path, &mut |path, value| {
            // An empty object adds nothing to what is there, and an absent model URI is written as "".
            let says_nothing = value.as_object().is_some_and(serde_json::Map::is_empty)
                || path == "model.uri" && value == ""
                || value.as_array().is_some_and(Vec::is_empty) && path.ends_with(".containers");
            if says_nothing && entries.contains_key(path) {
                return;
            }
            entries
                .entry(path.to_owned())
                .or_default()
                .push(Replaced { origin: origin.clone(), value: value.clone() });
        });
    }
}

/// Calls `visit` for every scalar and every empty object or list.
fn for_each_leaf(ty: Ty, json: &Value, path: &mut String, visit: &mut impl FnMut(&str, &Value)) {
    let length = path.len();
    match (ty, json) {
        (Ty::Ptr(inner), _) => for_each_leaf(*inner, json, path, visit),
        (_, Value::Object(map)) if !map.is_empty() => {
            for (key, value) in map {
                push_key(path, key);
                match ty {
                    Ty::Struct(s) => member(s, key, value, path, visit),
                    Ty::Map(_, inner) => for_each_leaf(*inner, value, path, visit),
                    _ => for_each_leaf(Ty::Any, value, path, visit),
                }
                path.truncate(length);
            }
        }
        (_, Value::Array(items)) if !items.is_empty() => {
            let inner = match ty {
                Ty::Slice(_, inner) => *inner,
                _ => Ty::Any,
            };
            elements(inner, None, items, path, visit);
        }
        _ => visit(path, json),
    }
}

fn member(
    s: &'static Struct,
    key: &str,
    json: &Value,
    path: &mut String,
    visit: &mut impl FnMut(&str, &Value),
) {
    let (holder, ty) = find_field(s, key).unwrap_or((s, Ty::Any));
    match (ty, json) {
        (Ty::Slice(_, inner), Value::Array(items)) if !items.is_empty() => {
            elements(*inner, list_key(holder.name, key), items, path, visit);
        }
        _ => for_each_leaf(ty, json, path, visit),
    }
}

fn elements(
    ty: Ty,
    merge_key: Option<&str>,
    items: &[Value],
    path: &mut String,
    visit: &mut impl FnMut(&str, &Value),
) {
    let length = path.len();
    for (i, item) in items.iter().enumerate() {
        let found = merge_key.and_then(|key| Some((key, item.get(key)?)));
        // Writing to a String cannot fail.
        let _ = match found {
            Some((key, Value::String(value))) => write!(path, "[{key}={value}"),
            Some((key, value)) => write!(path, "[{key}={value}"),
            None => write!(path, "[{i}"),
        };
        if let Some((key, value)) = found {
            // Keys can repeat (two variables of one name): the later ones are numbered.
            let earlier = items[..i].iter().filter(|other| other.get(key) == Some(value)).count();
            if earlier > 0 {
                let _ = write!(path, "#{}", earlier + 1);
            }
        }
        path.push(']');
        for_each_leaf(ty, item, path, visit);
        path.truncate(length);
    }
}

fn push_key(path: &mut String, key: &str) {
    if key.contains(['.', '[', '/']) {
        let _ = write!(path, "[{key:?}]");
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}
