//! Migrates field sets that were recorded with another schema, in which some lists and maps were not atomic yet.

use crate::{
    fields::{Element, Set},
    schema::{Node, Relation},
};

/// Returns the set as it would be with this schema, or `None` if it is right already.
pub fn reconcile(set: &Set, node: Node<'_>) -> Option<Set> {
    let mut atomics = Set::default();
    visit(Some(set), node, false, &mut Vec::new(), &mut atomics);
    (!atomics.is_empty()).then(|| set.recursive_difference(&atomics).union(&atomics))
}

fn visit(set: Option<&Set>, node: Node<'_>, whole: bool, path: &mut Vec<Element>, atomics: &mut Set) {
    let atom = node.atom();
    if let Some(map) = &atom.map {
        if map.is_deduced() {
            return;
        }
        if map.atomic && !whole {
            if set.is_some_and(|set| !set.is_empty()) {
                atomics.insert(path);
            }
            return;
        }
        for (element, member, below) in set.into_iter().flat_map(Set::elements) {
            let entry = match element {
                Element::Field(name) => map.entry(name),
                _ => map.other(),
            };
            if let Some(entry) = entry {
                descend(element, member, below, entry, path, atomics);
            }
        }
    } else if let (None, Some(list)) = (atom.scalar, &atom.list) {
        if list.relation == Relation::Atomic && !whole {
            atomics.insert(path);
            return;
        }
        for (element, member, below) in set.into_iter().flat_map(Set::elements) {
            descend(element, member, below, list.element, path, atomics);
        }
    }
}

fn descend(
    element: &Element,
    member: bool,
    below: &Set,
    node: Node<'_>,
    path: &mut Vec<Element>,
    atomics: &mut Set,
) {
    let below = (!below.is_empty()).then_some(below);
    path.push(element.clone());
    visit(below, node, member && below.is_none(), path, atomics);
    path.pop();
}
