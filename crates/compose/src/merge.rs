//! The merge of a layer onto those below it, over borrowed trees.
//!
//! This is Kubernetes' strategic merge patch. The patch has no directives except those that may be in maps of strings.
//! Results borrow from the layers, so that subtrees that only one layer has are neither visited nor copied.

use std::collections::HashMap;

use longboat_template::reflect::{Struct, Ty};
use serde_json::{Map, Value};

use crate::keys::list_key;

/// A JSON tree that is composed of parts of other trees.
#[derive(Debug, Clone)]
pub(crate) enum Tree<'a> {
    /// A whole borrowed subtree.
    Leaf(&'a Value),
    /// An object, by key in ascending order.
    Object(Vec<(&'a str, Self)>),
    /// A list.
    List(Vec<Self>),
}

/// A borrowed part of a tree or of a plain value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View<'t, 'a> {
    /// A tree that is not a leaf.
    Tree(&'t Tree<'a>),
    /// A value.
    Json(&'a Value),
}

impl<'a> View<'_, 'a> {
    /// The member `key`.
    pub(crate) fn get(self, key: &str) -> Option<Self> {
        match self {
            Self::Json(json) => json.get(key).map(View::Json),
            Self::Tree(Tree::Object(entries)) => {
                entries.binary_search_by(|(k, _)| (*k).cmp(key)).ok().map(|i| entries[i].1.top())
            }
            Self::Tree(_) => None,
        }
    }

    /// The value at `path`.
    pub(crate) fn at(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |place, key| place.get(key))
    }

    /// The plain value. Returns `None` if layers were merged below it.
    pub(crate) fn json(self) -> Option<&'a Value> {
        match self {
            Self::Json(json) => Some(json),
            Self::Tree(_) => None,
        }
    }

    /// A string.
    pub(crate) fn as_str(self) -> Option<&'a str> {
        self.json()?.as_str()
    }

    /// Whether this is an empty object or list, or null.
    pub(crate) fn is_empty(self) -> bool {
        match self {
            Self::Json(Value::Object(map)) => map.is_empty(),
            Self::Json(Value::Array(items)) => items.is_empty(),
            Self::Json(json) => json.is_null(),
            Self::Tree(Tree::Object(entries)) => entries.is_empty(),
            Self::Tree(Tree::List(items)) => items.is_empty(),
            Self::Tree(Tree::Leaf(json)) => json.is_null(),
        }
    }

    /// Whether this is a non-empty list.
    pub(crate) fn is_filled_list(self) -> bool {
        match self {
            Self::Json(json) => json.as_array().is_some_and(|items| !items.is_empty()),
            Self::Tree(Tree::List(items)) => !items.is_empty(),
            Self::Tree(_) => false,
        }
    }

    /// An owned copy.
    pub(crate) fn to_value(self) -> Value {
        match self {
            Self::Json(json) => json.clone(),
            Self::Tree(tree) => tree.to_value(),
        }
    }
}

impl<'a> Tree<'a> {
    /// The root of this tree.
    pub(crate) fn top(&self) -> View<'_, 'a> {
        match self {
            Self::Leaf(json) => View::Json(json),
            other => View::Tree(other),
        }
    }

    /// The member `key`.
    pub(crate) fn get(&self, key: &str) -> Option<View<'_, 'a>> {
        self.top().get(key)
    }

    /// The value at `path`.
    pub(crate) fn at(&self, path: &[&str]) -> Option<View<'_, 'a>> {
        self.top().at(path)
    }

    /// Sets the value at `path`, whose parents must be objects.
    pub(crate) fn set(&mut self, path: &[&'a str], value: &'a Value) {
        let Some((key, rest)) = path.split_first() else {
            *self = Tree::Leaf(value);
            return;
        };
        let mut entries = std::mem::replace(self, Tree::List(Vec::new())).into_entries();
        let at = match entries.binary_search_by(|(k, _)| (*k).cmp(key)) {
            Ok(at) => at,
            Err(at) => {
                entries.insert(at, (key, Tree::Object(Vec::new())));
                at
            }
        };
        entries[at].1.set(rest, value);
        *self = Tree::Object(entries);
    }

    /// If there is a value at `path`, replaces it by the result of `change`, or removes it if the result is `None`.
    pub(crate) fn edit(&mut self, path: &[&str], change: &mut dyn FnMut(Self) -> Option<Self>) {
        if self.at(path).is_some() {
            let whole = std::mem::replace(self, Tree::List(Vec::new()));
            *self = whole.edited(path, change).unwrap_or_else(|| Tree::Object(Vec::new()));
        }
    }

    fn edited(self, path: &[&str], change: &mut dyn FnMut(Self) -> Option<Self>) -> Option<Self> {
        let Some((key, rest)) = path.split_first() else { return change(self) };
        let mut entries = self.into_entries();
        if let Ok(at) = entries.binary_search_by(|(k, _)| (*k).cmp(key)) {
            let (key, member) = entries.remove(at);
            if let Some(member) = member.edited(rest, change) {
                entries.insert(at, (key, member));
            }
        }
        Some(Tree::Object(entries))
    }

    /// Whether this is a reference to that value, or an equal scalar.
    pub(crate) fn is_same(&self, value: &Value) -> bool {
        match self {
            Self::Leaf(json) => {
                std::ptr::eq(*json, value) || (!json.is_object() && !json.is_array() && *json == value)
            }
            _ => false,
        }
    }

    /// An owned copy.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Leaf(json) => (*json).clone(),
            Self::Object(entries) => {
                Value::Object(entries.iter().map(|(k, v)| ((*k).to_owned(), v.to_value())).collect())
            }
            Self::List(items) => Value::Array(items.iter().map(Tree::to_value).collect()),
        }
    }

    fn into_entries(self) -> Vec<(&'a str, Self)> {
        match self {
            Self::Object(entries) => entries,
            Self::Leaf(Value::Object(map)) => map.iter().map(|(k, v)| (k.as_str(), Tree::Leaf(v))).collect(),
            _ => Vec::new(),
        }
    }

    fn into_items(self) -> Vec<Self> {
        match self {
            Self::List(items) => items,
            Self::Leaf(Value::Array(items)) => items.iter().map(Tree::Leaf).collect(),
            _ => Vec::new(),
        }
    }

    fn is_object(&self) -> bool {
        matches!(self, Self::Object(_) | Self::Leaf(Value::Object(_)))
    }

    fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::Leaf(Value::Array(_)))
    }
}

/// Merges `patch` onto `base`; both are normalised values of the struct type `ty`.
///
/// # Errors
///
/// The message of Kubernetes' implementation.
pub(crate) fn merge<'a>(ty: Ty, base: Tree<'a>, patch: &'a Value) -> Result<Tree<'a>, String> {
    let Value::Object(patch) = patch else { return Ok(Tree::Leaf(patch)) };
    // In the reference, the patch is the difference to `zeroJSON`, which has an empty model.uri. So an empty URI is never
    // part of the patch.
    let model = patch.get("model").and_then(Value::as_object);
    let unnamed = model.is_some_and(|m| m.get("uri").is_some_and(|uri| uri == ""));
    if !unnamed {
        return object(shape(ty), base, patch.iter().map(|(k, v)| (k.as_str(), v)));
    }
    let rest = patch.iter().filter(|(k, _)| *k != "model").map(|(k, v)| (k.as_str(), v));
    let mut merged = object(shape(ty), base, rest)?;
    let members: Vec<_> =
        model.into_iter().flatten().filter(|(k, _)| *k != "uri").map(|(k, v)| (k.as_str(), v)).collect();
    if !members.is_empty() {
        let Ty::Struct(s) = ty else { return Ok(merged) };
        let mut entries = merged.into_entries();
        let at = entries.binary_search_by(|(k, _)| (*k).cmp("model"));
        let base = match at {
            Ok(at) => std::mem::replace(&mut entries[at].1, Tree::List(Vec::new())),
            Err(_) => Tree::Object(Vec::new()),
        };
        let model = object(shape(field_type(s, "model")), base, members.into_iter())?;
        match at {
            Ok(at) => entries[at].1 = model,
            Err(at) => entries.insert(at, ("model", model)),
        }
        merged = Tree::Object(entries);
    }
    Ok(merged)
}

/// The types of an object's members.
#[derive(Clone, Copy)]
enum Shape {
    Struct(&'static Struct),
    Map(Ty),
    /// Without a schema, nothing inside can be merged.
    Raw,
}

fn shape(ty: Ty) -> Shape {
    match ty {
        Ty::Ptr(inner) => shape(*inner),
        Ty::Struct(s) => Shape::Struct(s),
        Ty::Map(_, inner) => Shape::Map(*inner),
        _ => Shape::Raw,
    }
}

/// The type of a struct's member, which may be in an inlined struct.
fn field_type(s: &'static Struct, key: &str) -> Ty {
    find_field(s, key).map_or(Ty::Any, |(_, ty)| ty)
}

/// The struct that declares the member, and the member's type.
pub(crate) fn find_field(s: &'static Struct, key: &str) -> Option<(&'static Struct, Ty)> {
    s.fields.iter().find_map(|field| match field.ty {
        Ty::Struct(inner) if field.json.is_empty() => find_field(inner, key),
        ty if field.json == key => Some((s, ty)),
        _ => None,
    })
}

const DIRECTIVE: &str = "$patch";

fn object<'a>(
    shape: Shape,
    base: Tree<'a>,
    patch: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
) -> Result<Tree<'a>, String> {
    if let Some((_, directive)) = patch.clone().find(|(key, _)| *key == DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(Tree::Object(
                patch.filter(|(k, _)| *k != DIRECTIVE).map(|(k, v)| (k, Tree::Leaf(v))).collect(),
            )),
            Some("delete") => Ok(Tree::Object(Vec::new())),
            other => {
                let shown: Vec<_> = patch.map(|(k, v)| format!("{k}:{}", scalar(v))).collect();
                let kind = other.map_or_else(|| directive.to_string(), ToOwned::to_owned);
                Err(format!("unknown patch type: {kind} in map: map[{}]", shown.join(" ")))
            }
        };
    }
    // Both sides are sorted by key. Inserting into the middle of a vector would take quadratic time for a large map.
    let mut base = base.into_entries().into_iter().peekable();
    let mut entries = Vec::with_capacity(base.len());
    for (key, value) in patch {
        while let Some(below) = base.next_if(|(other, _)| *other < key) {
            entries.push(below);
        }
        match base.next_if(|(other, _)| *other == key) {
            None if value.is_null() || has_directive(value) => {}
            None => entries.push((key, without_nulls(value))),
            Some(_) if value.is_null() => {}
            Some((_, old)) => entries.push((key, member(shape, key, old, value)?)),
        }
    }
    entries.extend(base);
    Ok(Tree::Object(entries))
}

/// Merges one member that both sides have.
fn member<'a>(shape_: Shape, key: &str, old: Tree<'a>, value: &'a Value) -> Result<Tree<'a>, String> {
    let both_objects = old.is_object() && value.is_object();
    let both_lists = old.is_list() && value.is_array();
    if !both_objects && !both_lists {
        return Ok(without_nulls(value));
    }
    match shape_ {
        Shape::Raw => {
            Err(format!("unable to find api field in struct RawExtension for the json field \"{key}\""))
        }
        Shape::Struct(s) => {
            let (holder, ty) = find_field(s, key).unwrap_or((s, Ty::Any));
            match value {
                Value::Object(map) => object(shape(ty), old, map.iter().map(|(k, v)| (k.as_str(), v))),
                Value::Array(items) => match (list_key(holder.name, key), ty) {
                    (Some(merge_key), Ty::Slice(_, element)) => list(*element, merge_key, old, items),
                    _ => Ok(Tree::Leaf(value)),
                },
                _ => Ok(Tree::Leaf(value)),
            }
        }
        Shape::Map(inner) => match value {
            Value::Object(map) => object(shape(inner), old, map.iter().map(|(k, v)| (k.as_str(), v))),
            _ => Ok(Tree::Leaf(value)),
        },
    }
}

/// Merges lists by key, and orders the result as Kubernetes does.
fn list<'a>(element: Ty, key: &str, base: Tree<'a>, patch: &'a [Value]) -> Result<Tree<'a>, String> {
    let base = base.into_items();
    // Keys are scalars, so they are plain values.
    let key_of = |tree: &Tree<'a>| tree.get(key).and_then(View::json);
    let base_keys: Vec<Option<&'a Value>> = base.iter().map(key_of).collect();
    let patch_keys: Vec<Option<&Value>> = patch.iter().map(|item| item.get(key)).collect();

    // Merge in place. New elements are appended, so that later elements with the same key find them.
    let in_base = first_positions(&base_keys);
    let mut first = in_base.clone();
    let mut keys = base_keys;
    let mut merged = base;
    for (item, item_key) in patch.iter().zip(&patch_keys) {
        let Some(item_key) = item_key else {
            return Err(format!("map: {} does not contain declared merge key: {key}", scalar(item)));
        };
        match (first.get(&Some(*item_key)), item) {
            (Some(&at), Value::Object(map)) => {
                let old = std::mem::replace(&mut merged[at], Tree::List(Vec::new()));
                merged[at] = object(shape(element), old, map.iter().map(|(k, v)| (k.as_str(), v)))?;
            }
            (Some(&at), _) => merged[at] = Tree::Leaf(item),
            (None, _) => {
                first.insert(Some(*item_key), merged.len());
                keys.push(Some(*item_key));
                merged.push(Tree::Leaf(item));
            }
        }
    }

    let in_patch = first_positions(&patch_keys);
    let mut from_patch = Vec::new();
    let mut base_only = Vec::new();
    for (tree, tree_key) in merged.into_iter().zip(&keys) {
        let of_base = in_base.get(tree_key).copied();
        match in_patch.get(tree_key) {
            Some(at) => from_patch.push((*at, of_base, tree)),
            None => base_only.push((of_base, tree)),
        }
    }
    from_patch.sort_by_key(|(at, ..)| *at);

    let mut out = Vec::with_capacity(from_patch.len() + base_only.len());
    let mut from_patch = from_patch.into_iter().peekable();
    let mut base_only = base_only.into_iter().peekable();
    loop {
        let base_first = match (base_only.peek(), from_patch.peek()) {
            (None, None) => return Ok(Tree::List(out)),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((mine, _)), Some((_, theirs, _))) => theirs.is_some_and(|theirs| mine < &Some(theirs)),
        };
        if base_first {
            out.extend(base_only.next().map(|(_, tree)| tree));
        } else {
            out.extend(from_patch.next().map(|(_, _, tree)| tree));
        }
    }
}

/// The first position of each key. Searching the list for each key would take quadratic time.
fn first_positions<'v>(keys: &[Option<&'v Value>]) -> HashMap<Option<&'v Value>, usize, ahash::RandomState> {
    let mut first = HashMap::with_capacity_and_hasher(keys.len(), ahash::RandomState::default());
    for (at, key) in keys.iter().enumerate() {
        first.entry(*key).or_insert(at);
    }
    first
}

/// Whether a map has a directive. If there is nothing to apply the directive to, the whole map is dropped.
fn has_directive(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.contains_key(DIRECTIVE))
}

/// A value of the patch that the base does not have, without nested nulls and directives.
fn without_nulls(value: &Value) -> Tree<'_> {
    fn is_plain(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.values().all(|v| !v.is_null() && !has_directive(v) && is_plain(v)),
            Value::Array(items) => items.iter().all(is_plain),
            _ => true,
        }
    }
    fn filtered(map: &Map<String, Value>) -> Tree<'_> {
        Tree::Object(
            map.iter()
                .filter(|(_, v)| !v.is_null() && !has_directive(v))
                .map(|(k, v)| (k.as_str(), without_nulls(v)))
                .collect(),
        )
    }
    match value {
        _ if is_plain(value) => Tree::Leaf(value),
        Value::Object(map) => filtered(map),
        Value::Array(items) => Tree::List(items.iter().map(without_nulls).collect()),
        _ => Tree::Leaf(value),
    }
}

/// A scalar as Go prints it in messages.
fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
