//! Finds the model that replaces a requested model, by the rules of the pool's `InferenceModelRewrite` objects.

use jiff::Timestamp;
use rand::{Rng, seq::IndexedRandom as _};

/// One object's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelRewrite {
    pub(crate) name: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) rules: Vec<Rule>,
}

/// Models and their replacements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The models that the rule applies to. Empty means every model.
    pub(crate) models: Vec<String>,
    /// Has at least one entry.
    pub(crate) targets: Vec<Target>,
}

/// A replacement model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) model: String,
    /// The weight relative to the other targets. If any target has a weight, a target without one is never chosen.
    pub(crate) weight: Option<u32>,
}

/// All rewrites, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rewrites(Vec<ModelRewrite>);

impl Rewrites {
    pub(crate) fn new(rewrites: impl IntoIterator<Item = ModelRewrite>) -> Self {
        let mut rewrites: Vec<_> = rewrites.into_iter().collect();
        rewrites.sort_by(|left, right| (left.created, &left.name).cmp(&(right.created, &right.name)));
        Self(rewrites)
    }

    /// Returns the object that applies, and the replacement model. A rule that names the model wins over a rule for every
    /// model. Then older objects win over younger ones, and earlier rules over later ones.
    pub(crate) fn target(&self, model: &str, random: &mut impl Rng) -> Option<(&str, &str)> {
        let rules =
            || self.0.iter().flat_map(|rewrite| rewrite.rules.iter().map(move |rule| (rewrite, rule)));
        let exact = rules().find(|(_, rule)| rule.models.iter().any(|known| known == model));
        let (rewrite, rule) = exact.or_else(|| rules().find(|(_, rule)| rule.models.is_empty()))?;
        Some((&rewrite.name, &rule.choose(random)?.model))
    }
}

impl Rule {
    fn choose(&self, random: &mut impl Rng) -> Option<&Target> {
        let by_weight = self.targets.choose_weighted(random, |target| u64::from(target.weight.unwrap_or(0)));
        // Targets that all have no weight are equal.
        by_weight.ok().or_else(|| self.targets.choose(random))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    /// Models, and their targets with weights.
    type RewriteRow<'a> = (&'a [&'a str], &'a [(&'a str, Option<u32>)]);

    fn rewrite(name: &str, created: i64, rules: &[RewriteRow<'_>]) -> ModelRewrite {
        let rules = rules.iter().map(|(models, targets)| Rule {
            models: models.iter().map(|model| (*model).to_owned()).collect(),
            targets: targets
                .iter()
                .map(|(model, weight)| Target { model: (*model).to_owned(), weight: *weight })
                .collect(),
        });
        ModelRewrite {
            name: name.to_owned(),
            created: Some(Timestamp::from_second(created).unwrap()),
            rules: rules.collect(),
        }
    }

    #[test]
    fn the_very_model_goes_before_every_model_and_the_oldest_before_others() {
        let rewrites = Rewrites::new([
            rewrite("young", 3, &[(&["a"], &[("young-a", None)]), (&["b"], &[("young-b", None)])]),
            rewrite("old", 1, &[(&[], &[("all", None)]), (&["a"], &[("old-a", None)])]),
        ]);
        let mut random = StdRng::seed_from_u64(1);
        let mut target = |model| rewrites.target(model, &mut random);
        assert_eq!(target("a"), Some(("old", "old-a")));
        assert_eq!(target("b"), Some(("young", "young-b")));
        assert_eq!(target("c"), Some(("old", "all")));
        assert_eq!(Rewrites::default().target("a", &mut random), None);
    }

    #[test]
    fn targets_share_requests_by_weight() {
        let mut random = StdRng::seed_from_u64(7);
        let mut counts = |targets: &[(&str, Option<u32>)]| {
            let rewrites = Rewrites::new([rewrite("r", 1, &[(&["m"], targets)])]);
            let mut counts = BTreeMap::new();
            for _ in 0..4000 {
                *counts.entry(rewrites.target("m", &mut random).unwrap().1.to_owned()).or_insert(0_u32) += 1;
            }
            counts
        };
        let weighted = counts(&[("a", Some(3)), ("b", Some(1)), ("never", None)]);
        assert!(!weighted.contains_key("never"));
        assert!((2800..3200).contains(&weighted["a"]), "{weighted:?}");
        let equal = counts(&[("a", None), ("b", None)]);
        assert!((1800..2200).contains(&equal["a"]), "{equal:?}");
    }
}
