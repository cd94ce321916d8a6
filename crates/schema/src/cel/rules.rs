//! The rules of a node, with a common memo.

use std::sync::OnceLock;

use serde_json::Value;

use super::{
    memo::{self, Memo},
    rule::Rule,
    shape::Shape,
};

/// The rules of a node. A filter of a route has fourteen rules, which all depend only on its type and on which fields it has.
/// So a single lookup decides all of them.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    each: Vec<Rule>,
    together: OnceLock<Option<SharedMemo>>,
}

/// The parts of a value that all rules without `oldSelf` read together, and the values for which they held.
#[derive(Debug, Default)]
struct SharedMemo {
    looks_at: Shape,
    memo: Memo,
}

// === impl Rules ===

impl Rules {
    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.each.iter()
    }

    /// Whether all rules without `oldSelf` held for a value with the same relevant parts, which are in `seen` afterwards.
    /// Returns `None` if the parts are too long to be remembered.
    pub(crate) fn known(&self, value: &Value, seen: &mut Vec<u8>) -> Option<bool> {
        let together = self.together()?;
        memo::seen(value, &together.looks_at, seen).then(|| together.memo.knows(seen))
    }

    /// The parts of a value that the rules without `oldSelf` read together.
    pub(super) fn looks_at(&self) -> Option<&Shape> {
        self.together().map(|together| &together.looks_at)
    }

    /// Records that these rules held for a value with these parts.
    pub(crate) fn note(&self, seen: &[u8]) {
        if let Some(together) = self.together() {
            together.memo.note(seen);
        }
    }

    fn together(&self) -> Option<&SharedMemo> {
        self.together
            .get_or_init(|| {
                let shapes: Vec<&Shape> = self.each.iter().filter_map(Rule::looks_at).collect();
                // A single rule has its own memo.
                (shapes.len() > 1).then(|| {
                    let mut together = SharedMemo::default();
                    for shape in shapes {
                        together.looks_at.add(shape);
                    }
                    together
                })
            })
            .as_ref()
    }
}

impl FromIterator<Rule> for Rules {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self { each: rules.into_iter().collect(), together: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Rule, Rules};

    fn rules(sources: &[&str]) -> Rules {
        sources.iter().map(|source| Rule::new(&json!({"rule": source}))).collect()
    }

    #[test]
    fn what_one_of_them_looks_at_tells_values_apart() {
        let rules = rules(&["self.a == 1", "!has(self.b)", "self.c == oldSelf.c"]);
        let mut seen = Vec::new();
        assert_eq!(rules.known(&json!({"a": 1, "c": 1}), &mut seen), Some(false));
        rules.note(&seen);
        assert_eq!(rules.known(&json!({"a": 1, "c": 2}), &mut seen), Some(true));
        assert_eq!(rules.known(&json!({"a": 1, "b": 1}), &mut seen), Some(false));
        assert_eq!(rules.known(&json!({"a": 2}), &mut seen), Some(false));
    }

    #[test]
    fn what_is_long_and_a_single_rule_are_not_remembered_here() {
        let mut seen = Vec::new();
        let long = json!({"a": "x".repeat(1000), "b": 1});
        assert_eq!(rules(&["self.a != ''", "self.b == 1"]).known(&long, &mut seen), None);
        assert_eq!(rules(&["self.a != ''"]).known(&json!({"a": "x"}), &mut seen), None);
    }
}
