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
    shared: OnceLock<Option<SharedMemo>>,
}

/// The parts of a value that all rules without `oldSelf` read together, and the values for which they held.
#[derive(Debug, Default)]
struct SharedMemo {
    reads: Shape,
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

    /// Whether all rules without `oldSelf` held for a value with the same relevant parts, which are in `key` afterwards.
    /// Returns `None` if the parts are too long to be remembered.
    pub(crate) fn lookup(&self, value: &Value, key: &mut Vec<u8>) -> Option<bool> {
        let shared = self.shared()?;
        memo::write_key(value, &shared.reads, key).then(|| shared.memo.contains(key))
    }

    /// The parts of a value that the rules without `oldSelf` read together.
    pub(super) fn reads(&self) -> Option<&Shape> {
        self.shared().map(|shared| &shared.reads)
    }

    /// Records that these rules held for a value with these parts.
    pub(crate) fn remember(&self, key: &[u8]) {
        if let Some(shared) = self.shared() {
            shared.memo.insert(key);
        }
    }

    fn shared(&self) -> Option<&SharedMemo> {
        self.shared
            .get_or_init(|| {
                let shapes: Vec<&Shape> = self.each.iter().filter_map(Rule::reads).collect();
                // A single rule has its own memo.
                (shapes.len() > 1).then(|| {
                    let mut shared = SharedMemo::default();
                    for shape in shapes {
                        shared.reads.add(shape);
                    }
                    shared
                })
            })
            .as_ref()
    }
}

impl FromIterator<Rule> for Rules {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self { each: rules.into_iter().collect(), shared: OnceLock::new() }
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
    fn what_one_of_them_reads_tells_values_apart() {
        let rules = rules(&["self.a == 1", "!has(self.b)", "self.c == oldSelf.c"]);
        let mut key = Vec::new();
        assert_eq!(rules.lookup(&json!({"a": 1, "c": 1}), &mut key), Some(false));
        rules.remember(&key);
        assert_eq!(rules.lookup(&json!({"a": 1, "c": 2}), &mut key), Some(true));
        assert_eq!(rules.lookup(&json!({"a": 1, "b": 1}), &mut key), Some(false));
        assert_eq!(rules.lookup(&json!({"a": 2}), &mut key), Some(false));
    }

    #[test]
    fn what_is_long_and_a_single_rule_are_not_remembered_here() {
        let mut key = Vec::new();
        let long = json!({"a": "x".repeat(1000), "b": 1});
        assert_eq!(rules(&["self.a != ''", "self.b == 1"]).lookup(&long, &mut key), None);
        assert_eq!(rules(&["self.a != ''"]).lookup(&json!({"a": "x"}), &mut key), None);
    }
}
