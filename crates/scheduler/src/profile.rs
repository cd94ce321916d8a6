//! A profile: filters, scorers and a picker, which choose endpoints one after the other.

use std::sync::Arc;

use crate::{context::Context, endpoint::Candidate};

/// A profile of the configuration.
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) filters: Vec<(String, Arc<dyn Filter>)>,
    pub(crate) scorers: Vec<WeightedScorer>,
    pub(crate) picker: Arc<dyn Picker>,
    /// The picker's name. `None` for the default picker.
    pub(crate) picker_name: Option<String>,
}

/// A scorer in a profile.
pub(crate) struct WeightedScorer {
    pub(crate) name: String,
    pub(crate) weight: f64,
    pub(crate) scorer: Arc<dyn Scorer>,
}

/// Drops candidates. May change the order of the others.
pub(crate) trait Filter: Send + Sync {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>);
}

/// Scores candidates; 1 is best. Values outside 0 to 1 are clamped before they are weighted.
pub(crate) trait Scorer: Send + Sync {
    /// `scores` has one entry per candidate, which starts at 0.
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]);
}

/// Chooses from scored candidates, best first. There is at least one candidate.
pub(crate) trait Picker: Send + Sync {
    fn pick(&self, context: &Context<'_>, scored: Vec<(Candidate, f64)>) -> Vec<Candidate>;

    /// Whether it picks without regard to the scores.
    fn ignores_scores(&self) -> bool {
        false
    }
}
