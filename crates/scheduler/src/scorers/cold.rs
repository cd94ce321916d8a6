//! The ranking of scorers that only act on requests without a cached prefix.

use crate::prelude::*;

/// Scores candidates by their rank, the lowest key best. Candidates with equal keys come in random order. If some candidate has
/// the beginning of the request in its cache, all scores are equal.
pub(super) fn rank(
    context: &Context<'_>,
    prefix: usize,
    candidates: &[Candidate],
    scores: &mut [f64],
    key: impl Fn(Slot) -> f64,
) {
    if !context.prefix(prefix).is_cold() {
        scores.fill(0.5);
        return;
    }
    if let [only] = scores {
        *only = 1.0;
        return;
    }
    let slots = candidates.iter().map(|&candidate| context.endpoint(candidate).slot);
    let mut ranked: Vec<(f64, usize)> = slots.enumerate().map(|(place, slot)| (key(slot), place)).collect();
    // The sort is stable, so what the shuffle has done stays among equal keys.
    context.shuffle(&mut ranked);
    ranked.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    let last = float(candidates.len() as u64 - 1);
    for (position, (_, place)) in ranked.into_iter().enumerate() {
        scores[place] = 1.0 - float(position as u64) / last;
    }
}
