//! A pick in progress: runs profiles for the profile handler.

use std::sync::Arc;

use crate::{
    context::Context,
    decision::{FilterTrace, ProfileRun, ScorerTrace},
    endpoint::Candidate,
    error::ScheduleError,
    pairing,
    profile::Profile,
    stopwatch::{Stopwatch, without_timing},
};

/// The name of a rule in traces: endpoints without recent metrics are used only if there are no others.
const RECENT_METRICS: &str = "recent-metrics";

/// The name of a rule in traces: prefill and decode must be able to exchange KV cache.
const KV_REVISION: &str = "kv-revision";

/// A pick in progress. A profile handler controls it.
pub(crate) struct Run<'r, 'c> {
    pub(crate) profiles: &'r [Profile],
    /// Whether the candidates of each filter and the scores of each scorer are recorded.
    pub(crate) trace: bool,
    /// The stopwatch of the profile handler, which does not count the profiles that it runs.
    pub(crate) handler_watch: Option<&'r Arc<dyn Stopwatch>>,
    pub(crate) context: &'r Context<'c>,
    pub(crate) runs: Vec<ProfileRun>,
}

impl Run<'_, '_> {
    /// Runs the profile with this name. Returns `None` if there is no such profile, or if its filters dropped all candidates.
    pub(crate) fn profile(&mut self, name: &str) -> Option<usize> {
        let profile = self.profiles.iter().find(|profile| profile.name == name)?;
        without_timing(self.handler_watch, || self.run(profile, None))
    }

    /// Like [`Self::profile`], but only with endpoints that can exchange KV cache with the target of `run`.
    pub(crate) fn profile_beside(&mut self, name: &str, run: usize) -> Option<usize> {
        let profile = self.profiles.iter().find(|profile| profile.name == name)?;
        let peer = self.runs[run].targets.first().copied();
        without_timing(self.handler_watch, || self.run(profile, peer))
    }

    /// Whether there is a profile with this name.
    pub(crate) fn has_profile(&self, name: &str) -> bool {
        self.profiles.iter().any(|profile| profile.name == name)
    }

    /// Runs the only profile.
    pub(crate) fn only_profile(&mut self) -> Result<usize, ScheduleError> {
        let profile = &self.profiles[0];
        let run = without_timing(self.handler_watch, || self.run(profile, None));
        run.ok_or_else(|| ScheduleError::filtered_by(&profile.name))
    }

    fn run(&mut self, profile: &Profile, peer: Option<Candidate>) -> Option<usize> {
        let mut candidates: Vec<Candidate> = (0..self.context.candidates.len()).collect();
        let trace = self.trace;
        let mut filter_traces = Vec::new();
        // The pairing rule runs before the filters, because some filters keep all candidates instead of none.
        if let Some(peer) = peer {
            pairing::keep(self.context, peer, &mut candidates);
            if trace && candidates.len() < self.context.candidates.len() {
                filter_traces.push(FilterTrace { plugin: KV_REVISION.to_owned(), kept: candidates.clone() });
            }
            if candidates.is_empty() {
                return None;
            }
        }
        for (name, filter) in &profile.filters {
            filter.filter(self.context, &mut candidates);
            if trace {
                filter_traces.push(FilterTrace { plugin: name.clone(), kept: candidates.clone() });
            }
            if candidates.is_empty() {
                return None;
            }
        }
        // Endpoints without recent metrics are used only if there are no others. This rule comes after the filters, because an
        // endpoint that a filter drops must not keep the others from being used.
        let fresh = |candidate: &Candidate| self.context.candidates[*candidate].fresh;
        if candidates.iter().any(fresh) {
            let before = candidates.len();
            candidates.retain(fresh);
            if trace && candidates.len() < before {
                filter_traces
                    .push(FilterTrace { plugin: RECENT_METRICS.to_owned(), kept: candidates.clone() });
            }
        }
        let mut totals = vec![0.0; candidates.len()];
        let mut scores = vec![0.0; candidates.len()];
        let mut scorer_traces = Vec::new();
        for weighted in &profile.scorers {
            scores.fill(0.0);
            weighted.scorer.score(self.context, &candidates, &mut scores);
            for (total, score) in totals.iter_mut().zip(&scores) {
                // `clamp` keeps NaN, and a total that is NaN would sort above all others.
                let counted = if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) };
                *total += counted * weighted.weight;
            }
            if trace {
                scorer_traces.push(ScorerTrace {
                    plugin: weighted.name.clone(),
                    weight: weighted.weight,
                    scores: candidates.iter().copied().zip(scores.iter().copied()).collect(),
                });
            }
        }
        let totals: Vec<_> = candidates.into_iter().zip(totals).collect();
        // A copy, because pickers shuffle, weight and cut the list.
        let targets = profile.picker.pick(self.context, totals.clone());
        // So each run has a first target, which others rely on.
        if targets.is_empty() {
            return None;
        }
        self.runs.push(ProfileRun {
            name: profile.name.clone(),
            targets,
            totals,
            ignores_scores: profile.picker.ignores_scores(),
            filtered: filter_traces,
            trace: scorer_traces,
        });
        Some(self.runs.len() - 1)
    }
}
