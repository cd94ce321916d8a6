//! The set of field paths.

use std::collections::BTreeMap;

use super::{Element, Path};

/// A set of paths. It may contain a path without the prefixes of that path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) nodes: BTreeMap<Element, Node>,
}

/// The part of a set at and below an element. Never empty inside a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Whether the path that ends here is in the set.
    pub(super) member: bool,
    /// The rest of each path that continues below this element.
    pub(super) below: Set,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl Set {
    /// Creates a set of these paths.
    pub fn of(paths: &[Path]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }

    /// Whether the set has no paths.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of paths.
    pub fn len(&self) -> usize {
        self.nodes.values().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds a path. The empty path is never a member.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.nodes.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    /// Whether the set contains the path.
    pub fn has(&self, path: &[Element]) -> bool {
        match path.split_first() {
            None => false,
            Some((first, rest)) => self
                .nodes
                .get(first)
                .is_some_and(|node| if rest.is_empty() { node.member } else { node.below.has(rest) }),
        }
    }

    /// Whether the set contains the path that consists of this element.
    pub(crate) fn has_element(&self, element: &Element) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// The rest of each path that continues below an element. Returns `None` if there are none.
    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.nodes.get(element).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The first elements of the paths. For each: whether it is itself a path in the set, and the rest of the paths that
    /// continue below it.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (&Element, bool, &Self)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.below))
    }

    /// Sets the part of the set at and below an element.
    pub(crate) fn put(&mut self, element: Element, member: bool, below: Self) {
        let node = Node { member, below };
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// The paths that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.extend(other);
        union
    }

    /// Adds the paths of the other set.
    pub(crate) fn extend(&mut self, other: &Self) {
        for (element, node) in &other.nodes {
            let mine = self.nodes.entry(element.clone()).or_default();
            mine.member |= node.member;
            mine.below.extend(&node.below);
        }
    }

    /// The paths that are in both sets.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, node| {
            other.nodes.get(element).map_or_else(Node::default, |theirs| Node {
                member: node.member && theirs.member,
                below: node.below.intersection(&theirs.below),
            })
        })
    }

    /// The paths that are in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(|element, node| match other.nodes.get(element) {
            None => node.clone(),
            Some(theirs) => {
                Node { member: node.member && !theirs.member, below: node.below.difference(&theirs.below) }
            }
        })
    }

    /// Like [`Self::difference`], but a path in the other set also removes every path below it.
    #[must_use]
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        self.combine(|element, node| match other.nodes.get(element) {
            None => node.clone(),
            Some(theirs) if theirs.member => Node::default(),
            Some(theirs) => {
                Node { member: node.member, below: node.below.recursive_difference(&theirs.below) }
            }
        })
    }

    fn combine(&self, rule: impl Fn(&Element, &Node) -> Node) -> Self {
        let nodes = self
            .nodes
            .iter()
            .map(|(element, node)| (element, rule(element, node)))
            .filter(|(_, node)| !node.is_empty())
            .map(|(element, node)| (element.clone(), node))
            .collect();
        Self { nodes }
    }

    /// All paths. A path precedes the paths below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Path>) {
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            if node.member {
                paths.push(Path(prefix.clone()));
            }
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }
}
