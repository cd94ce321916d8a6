//! The difference between a service's pod and the pod of the layers below it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::merge::{Tree, View};

/// The difference between a merged pod and the pod of the layers. Equal parts are removed from the tree, so that little is
/// left to deserialize.
pub(crate) struct PodChanges<'a> {
    /// The fields that differ or were removed, except lists of containers.
    pub(crate) fields: Vec<&'a str>,
    /// The containers.
    pub(crate) containers: ListChanges<'a>,
    /// The init containers.
    pub(crate) init_containers: ListChanges<'a>,
}

/// The difference between two lists of containers.
pub(crate) enum ListChanges<'a> {
    /// The lists are equal.
    None,
    /// The items of the merged list, in order.
    Items(Vec<Item<'a>>),
    /// The tree has the whole list.
    Replaced,
}

/// The origin of an item in a merged list.
pub(crate) enum Item<'a> {
    /// The item at this index in the list of the layers.
    Kept(usize),
    /// The item at this index in the list of the layers, except for these fields. The tree has an item with only these
    /// fields.
    Changed(usize, Vec<&'a str>),
    /// A new item, which the tree has completely.
    Own,
}

/// Removes from `pod` what equals `base`, the pod of the layers. Returns no tree if nothing differs, and no changes if `pod`
/// has nothing in common with the layers.
pub(crate) fn pod<'a>(
    pod: Tree<'a>,
    base: &'a Map<String, Value>,
) -> (Option<Tree<'a>>, Option<PodChanges<'a>>) {
    let mut changes =
        PodChanges { fields: Vec::new(), containers: ListChanges::None, init_containers: ListChanges::None };
    let entries = match pod {
        Tree::Leaf(Value::Object(map)) if std::ptr::eq(map, base) => return (None, Some(changes)),
        Tree::Object(entries) => entries,
        other => return (Some(other), None),
    };
    let (mut entries, fields) = differing(entries, base);
    for field in fields {
        let list = match field {
            "containers" => &mut changes.containers,
            "initContainers" => &mut changes.init_containers,
            field => {
                changes.fields.push(field);
                continue;
            }
        };
        *list = ListChanges::Replaced;
        let Some((_, tree)) = entries.iter_mut().find(|(key, _)| *key == field) else { continue };
        if let (Tree::List(items), Some(Value::Array(base))) = (&mut *tree, base.get(field)) {
            let mut unlike = Vec::new();
            let base = Containers::of(base);
            let origins = std::mem::take(items).into_iter().map(|item| origin(item, &base, &mut unlike));
            *list = ListChanges::Items(origins.collect());
            *tree = Tree::List(unlike);
        }
    }
    (Some(Tree::Object(entries)), Some(changes))
}

/// The containers of the lower layers. Searching them for each container would take quadratic time.
struct Containers<'a> {
    by_address: HashMap<*const Value, usize, ahash::RandomState>,
    by_name: HashMap<&'a str, (usize, &'a Map<String, Value>), ahash::RandomState>,
}

// === impl Containers ===

impl<'a> Containers<'a> {
    fn of(list: &'a [Value]) -> Self {
        let by_address = list.iter().enumerate().map(|(at, item)| (std::ptr::from_ref(item), at)).collect();
        let mut by_name = HashMap::default();
        for (at, item) in list.iter().enumerate() {
            if let Some(map) = item.as_object()
                && let Some(name) = map.get("name").and_then(Value::as_str)
            {
                by_name.entry(name).or_insert((at, map));
            }
        }
        Self { by_address, by_name }
    }
}

/// Returns the origin of a container. Appends to `unlike` what must be deserialized of it.
fn origin<'a>(item: Tree<'a>, base: &Containers<'a>, unlike: &mut Vec<Tree<'a>>) -> Item<'a> {
    let same = match &item {
        Tree::Leaf(json) => base.by_address.get(&std::ptr::from_ref(*json)),
        _ => None,
    };
    if let Some(at) = same {
        return Item::Kept(*at);
    }
    let name = item.get("name").and_then(View::as_str);
    let under = name.and_then(|name| base.by_name.get(name).copied());
    match (item, under) {
        (Tree::Object(entries), Some((at, base))) => {
            let (entries, fields) = differing(entries, base);
            unlike.push(Tree::Object(entries));
            Item::Changed(at, fields)
        }
        (item, _) => {
            unlike.push(item);
            Item::Own
        }
    }
}

/// Returns the entries that differ from `base`, and the keys of those entries and of entries that were removed.
fn differing<'a>(
    entries: Vec<(&'a str, Tree<'a>)>,
    base: &'a Map<String, Value>,
) -> (Vec<(&'a str, Tree<'a>)>, Vec<&'a str>) {
    let known = entries.iter().filter(|(key, _)| base.contains_key(*key)).count();
    let mut keys = Vec::new();
    if known < base.len() {
        let gone = |key: &&str| entries.binary_search_by(|(entry, _)| (*entry).cmp(*key)).is_err();
        keys.extend(base.keys().map(String::as_str).filter(gone));
    }
    let differs = |(key, tree): &(&'a str, Tree<'a>)| !base.get(*key).is_some_and(|base| tree.is_same(base));
    let changed: Vec<_> = entries.into_iter().filter(differs).collect();
    keys.extend(changed.iter().map(|(key, _)| *key));
    (changed, keys)
}
