//! The set.

use std::collections::BTreeMap;

use super::{Element, Path};

/// A set of paths. A path may be in it without the paths that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) nodes: BTreeMap<Element, Node>,
}

/// What a set holds at and below an element. Never empty inside a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Whether the path that ends here is in the set.
    pub(super) member: bool,
    /// The paths that go on from here.
    pub(super) below: Set,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl Set {
    /// A set of these paths.
    pub fn of(paths: &[Path]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }

    /// Whether no path is in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many paths are in it.
    pub fn len(&self) -> usize {
        self.nodes.values().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds a path; the empty path is no member of any set.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.nodes.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    /// Whether the path is in it.
    pub fn has(&self, path: &[Element]) -> bool {
        match path.split_first() {
            None => false,
            Some((first, rest)) => self
                .nodes
                .get(first)
                .is_some_and(|node| if rest.is_empty() { node.member } else { node.below.has(rest) }),
        }
    }

    /// Whether the path of one element is in it.
    pub(crate) fn has_element(&self, element: &Element) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// The paths that go on from an element, without it.
    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.nodes.get(element).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The first elements of its paths, each with whether it is a path itself, and what goes on from it.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (&Element, bool, &Self)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.below))
    }

    /// Adds what `other` holds below an element.
    pub(crate) fn put(&mut self, element: Element, member: bool, below: Self) {
        let node = Node { member, below };
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// Paths in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.absorb(other);
        union
    }

    fn absorb(&mut self, other: &Self) {
        for (element, node) in &other.nodes {
            let mine = self.nodes.entry(element.clone()).or_default();
            mine.member |= node.member;
            mine.below.absorb(&node.below);
        }
    }

    /// Paths in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, node| {
            other.nodes.get(element).map_or_else(Node::default, |theirs| Node {
                member: node.member && theirs.member,
                below: node.below.intersection(&theirs.below),
            })
        })
    }

    /// Paths in this and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(|element, node| match other.nodes.get(element) {
            None => node.clone(),
            Some(theirs) => {
                Node { member: node.member && !theirs.member, below: node.below.difference(&theirs.below) }
            }
        })
    }

    /// As [`Self::difference`], but a path in the other also takes away every path that goes on from it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
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

    /// All its paths, a path before those that go on from it.
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
