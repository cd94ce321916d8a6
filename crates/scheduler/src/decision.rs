//! The outcome of a pick.

use std::sync::Arc;

use crate::{
    context::Candidate,
    endpoint::{Metrics, Slot},
    handlers::disagg::{ENCODE_HEADER, PREFILL_HEADER},
    media::{EncoderLookup, Sent},
    prefix::Matches,
    scheduler::PREFILL,
};

/// What one profile made of the candidates.
#[derive(Debug, Clone)]
pub struct ProfileRun {
    /// The profile's name.
    pub name: String,
    /// Who was picked: positions in the candidate list, best first; at least one.
    pub targets: Vec<Candidate>,
    /// Weighted totals of the candidates that passed the filters.
    pub totals: Vec<(Candidate, f64)>,
    /// What each filter left, where that was asked for.
    pub filtered: Vec<FilterTrace>,
    /// Each scorer's own scores, where they were asked for.
    pub trace: Vec<ScorerTrace>,
}

/// Who does what for a request: positions in the candidate list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// Who answers.
    pub decode: Option<Candidate>,
    /// Who computes the prompt, if that is another.
    pub prefill: Option<Candidate>,
}

/// Which stages a request goes through before it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disaggregation {
    /// Its prompt is computed elsewhere.
    pub prefill: bool,
    /// Its images are encoded elsewhere.
    pub encode: bool,
}

/// What one filter left.
#[derive(Debug, Clone)]
pub struct FilterTrace {
    /// The plugin's name, or what else dropped candidates.
    pub plugin: String,
    /// The candidates that passed.
    pub kept: Vec<Candidate>,
}

/// The scores of one scorer, before they are clamped and weighed.
#[derive(Debug, Clone)]
pub struct ScorerTrace {
    /// The plugin's name.
    pub plugin: String,
    /// What its scores are multiplied with.
    pub weight: f64,
    /// Score per candidate.
    pub scores: Vec<(Candidate, f64)>,
}

/// What a profile handler made of its profiles' results.
pub(crate) struct Picked {
    /// Index of the run whose targets are the destination.
    pub(crate) primary: usize,
    /// The destination, where it is not simply the primary run's targets.
    pub(crate) destination: Option<Vec<String>>,
    pub(crate) set: Vec<(&'static str, String)>,
    pub(crate) remove: Vec<&'static str>,
}

impl Picked {
    /// A run's targets as they are.
    pub(crate) fn plain(primary: usize) -> Self {
        Self { primary, destination: None, set: Vec::new(), remove: Vec::new() }
    }
}

/// An endpoint that will hold the prompt's prefixes.
#[derive(Debug, Clone)]
pub(crate) struct Learner {
    pub(crate) slot: Slot,
    pub(crate) metrics: Arc<Metrics>,
}

/// A session to remember.
#[derive(Debug, Clone)]
pub(crate) struct Remember {
    pub(crate) state: usize,
    pub(crate) id: String,
    pub(crate) slot: Slot,
    pub(crate) expires: u64,
    pub(crate) now: u64,
}

/// A pick that can be committed.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The profiles that ran and found something, in that order.
    pub runs: Vec<ProfileRun>,
    /// Which of them decides where the request goes.
    pub primary: usize,
    /// The endpoints for the proxy to try, `ip:port`, best first; at least one.
    pub destination: Vec<String>,
    /// Request headers to set for the model server.
    pub set_headers: Vec<(&'static str, String)>,
    /// Request headers to remove: only we may set them.
    pub remove_headers: Vec<&'static str>,
    /// Response headers to set.
    pub response_headers: Vec<(String, String)>,
    /// What producers of encoder caches found, where the request has media.
    pub encoder_lookups: Vec<EncoderLookup>,
    pub(crate) remember: Vec<Remember>,
    pub(crate) sent: Sent,
    pub(crate) prefixes: Vec<Matches>,
    /// When it was made.
    pub(crate) now: u64,
    /// First targets of the primary run and of the one named `prefill`: they will hold the prompt.
    pub(crate) learners: Vec<Learner>,
    /// Every run's first target: its slot, whether it prefills only, and its uncached prompt tokens.
    pub(crate) reserve: Vec<(Slot, bool, u64)>,
    /// The time for a token that the primary target is asked for, in milliseconds; 0: none.
    pub(crate) tpot_ms: f64,
}

impl Decision {
    /// Which stages were decided on, where the profile handler knows such stages.
    pub fn disaggregation(&self) -> Option<Disaggregation> {
        let set = |header: &str| self.set_headers.iter().any(|(name, _)| *name == header);
        // Such a handler says something about each header, if only that it must not be there.
        let knows = set(PREFILL_HEADER) || self.remove_headers.contains(&PREFILL_HEADER);
        knows.then(|| Disaggregation { prefill: set(PREFILL_HEADER), encode: set(ENCODE_HEADER) })
    }

    /// The endpoints that compute the prompt and that decode, where those are two.
    pub fn stages(&self) -> Stages {
        let first = |run: &ProfileRun| run.targets.first().copied();
        let prefill = self.runs.iter().find(|run| run.name == PREFILL).and_then(first);
        Stages { decode: first(self.primary_run()), prefill }
    }

    /// The run that decides where the request goes.
    pub fn primary_run(&self) -> &ProfileRun {
        &self.runs[self.primary]
    }

    /// Whether any candidate held a prefix of the prompt, and how many blocks of how many the primary target held.
    /// `None` when nothing in the configuration looks at prefixes.
    pub fn prefix_hit(&self) -> Option<(u32, u32)> {
        let matches = Matches::cached(&self.prefixes)?;
        let target = *self.primary_run().targets.first()?;
        Some((matches.matched(target), matches.total()))
    }

    /// Bytes of the prompt that the primary target held, at four bytes for a token.
    pub fn prefix_hit_bytes(&self) -> u32 {
        let found = Matches::cached(&self.prefixes).zip(self.primary_run().targets.first());
        found.map_or(0, |(matches, target)| {
            matches.matched(*target).saturating_mul(matches.block_tokens()).saturating_mul(4)
        })
    }
}
