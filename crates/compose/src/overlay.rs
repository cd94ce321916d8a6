//! What a service changed of a pod that layers below it brought.

use serde_json::{Map, Value};

use crate::merge::{Tree, View};

/// The difference to the pod of the layers. Equal parts are removed from the tree, so that little is left to read.
pub(crate) struct PodChanges<'a> {
    /// The fields that differ or went, but for containers.
    pub(crate) fields: Vec<&'a str>,
    /// The containers.
    pub(crate) containers: ListChanges<'a>,
    /// The init containers.
    pub(crate) init_containers: ListChanges<'a>,
}

/// What became of a list of containers.
pub(crate) enum ListChanges<'a> {
    /// It is as it was.
    None,
    /// Its items, in their order.
    Items(Vec<Item<'a>>),
    /// The tree has all of it.
    Replaced,
}

/// Where an item of a merged list comes from.
pub(crate) enum Item<'a> {
    /// It is the item of the layers at this index.
    Kept(usize),
    /// It is that item but for these fields. The tree has an item with them.
    Changed(usize, Vec<&'a str>),
    /// It is the service's. The tree has it.
    Own,
}

/// Takes out of `pod` what is as in `base`, the pod of the layers; all of it, if nothing differs. Nothing is taken out of a
/// pod that nothing was merged into.
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
            let origins = std::mem::take(items).into_iter().map(|item| origin(item, base, &mut unlike));
            *list = ListChanges::Items(origins.collect());
            *tree = Tree::List(unlike);
        }
    }
    (Some(Tree::Object(entries)), Some(changes))
}

/// Where a container comes from; what is to be read of it goes to `unlike`.
fn origin<'a>(item: Tree<'a>, base: &'a [Value], unlike: &mut Vec<Tree<'a>>) -> Item<'a> {
    let same = base.iter().position(|base| item.is_same(base));
    if let Some(at) = same {
        return Item::Kept(at);
    }
    let name = item.get("name").and_then(View::as_str);
    let under = name.and_then(|name| {
        base.iter().enumerate().find_map(|(at, base)| {
            let base = base.as_object()?;
            (base.get("name")?.as_str()? == name).then_some((at, base))
        })
    });
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

/// The entries that differ from `base`, and the keys of these and of those that went.
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
