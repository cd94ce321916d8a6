//! The outcome of a pick.

use std::sync::Arc;

use longboat_api::sidecar_headers;

use crate::{
    endpoint::{Candidate, Metrics, Slot},
    finding::Finding,
    inflight::TargetLoad,
    prefix::Matches,
    producers::encoder_cache::lookup::EncoderLookup,
};

/// The profile whose target computes the prompt for another endpoint.
pub(crate) const PREFILL: &str = "prefill";

/// The result of one profile.
#[derive(Debug, Clone)]
pub struct ProfileRun {
    /// The profile's name.
    pub name: String,
    /// The picked endpoints as positions in the candidate list, best first. Has at least one entry.
    pub targets: Vec<Candidate>,
    /// The weighted totals of the candidates that passed the filters.
    pub totals: Vec<(Candidate, f64)>,
    /// Whether the profile's picker has no regard to the totals.
    pub ignores_scores: bool,
    /// The candidates that each filter kept. Empty unless traces are on.
    pub filtered: Vec<FilterTrace>,
    /// The scores of each scorer. Empty unless traces are on.
    pub trace: Vec<ScorerTrace>,
}

/// The endpoints of each stage, as positions in the candidate list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// The endpoint that decodes.
    pub decode: Option<Candidate>,
    /// The endpoint that computes the prompt, if it is another one.
    pub prefill: Option<Candidate>,
}

/// The stages that other endpoints do before the decode endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disaggregation {
    /// Whether another endpoint computes the prompt.
    pub prefill: bool,
    /// Whether other endpoints encode the images.
    pub encode: bool,
}

/// The candidates that one filter kept.
#[derive(Debug, Clone)]
pub struct FilterTrace {
    /// The plugin's name, or the name of a built-in rule that dropped candidates.
    pub plugin: String,
    /// The candidates that passed.
    pub kept: Vec<Candidate>,
}

/// The scores of one scorer, before they are clamped and weighted.
#[derive(Debug, Clone)]
pub struct ScorerTrace {
    /// The plugin's name.
    pub plugin: String,
    /// The factor of the scores.
    pub weight: f64,
    /// Score per candidate.
    pub scores: Vec<(Candidate, f64)>,
}

/// The result that a profile handler makes from its profiles' results.
pub(crate) struct HandlerResult {
    /// The index of the run whose targets are the destination.
    pub(crate) primary: usize,
    /// The destination, if it differs from the primary run's targets.
    pub(crate) destination: Option<Vec<String>>,
    pub(crate) set: Vec<(&'static str, String)>,
    pub(crate) remove: Vec<&'static str>,
}

impl HandlerResult {
    /// The result with a run's targets unchanged.
    pub(crate) fn plain(primary: usize) -> Self {
        Self { primary, destination: None, set: Vec::new(), remove: Vec::new() }
    }
}

/// An endpoint that will hold the prompt's prefixes.
#[derive(Debug, Clone)]
pub(crate) struct PrefixHolder {
    pub(crate) slot: Slot,
    pub(crate) metrics: Arc<Metrics>,
}

/// The part of a prompt that an endpoint has cached, according to a prefix producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixHit {
    /// The index of the producer among [`Scheduler::prefix_producers`](crate::Scheduler::prefix_producers).
    pub producer: usize,
    /// Cached blocks.
    pub matched: u32,
    /// Blocks of the prompt.
    pub total: u32,
    /// Cached bytes.
    pub bytes: u32,
}

/// The flow and the priority of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The flow, as metrics name it.
    pub fairness_id: String,
    /// The priority.
    pub priority: i64,
}

/// A pick that can be committed.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The profiles that ran and found an endpoint, in the order in which they ran.
    pub runs: Vec<ProfileRun>,
    /// The index of the run that decides the destination.
    pub primary: usize,
    /// The endpoints for the proxy to try, as `ip:port`, best first. Has at least one entry.
    pub destination: Vec<String>,
    /// Request headers to set for the model server.
    pub set_headers: Vec<(&'static str, String)>,
    /// Request headers to remove, because only the picker may set them.
    pub remove_headers: Vec<&'static str>,
    /// Response headers to set.
    pub response_headers: Vec<(String, String)>,
    /// The flow that the load counts for. The caller sets it before the commit; the load of each flow is known then.
    pub flow: Option<Arc<Flow>>,
    /// What each producer has found about the request.
    pub(crate) findings: Vec<Finding>,
    /// The endpoints that may receive the request.
    pub(crate) targets: Vec<Slot>,
    /// The time of the decision.
    pub(crate) now: u64,
    /// The first targets of the primary run and of the run named `prefill`. These endpoints will hold the prompt.
    pub(crate) prefix_holders: Vec<PrefixHolder>,
    /// The load at the first target of every run.
    pub(crate) reserve: Vec<TargetLoad>,
    /// Whether the tokens count until the response ends, as they do if the output is estimated. Otherwise, prefill ends them.
    pub(crate) holds_tokens: bool,
    /// The requested time per token for the primary target, in milliseconds. 0 if none is requested.
    pub(crate) tpot_ms: f64,
}

impl Decision {
    /// Returns the stages of the request. Returns `None` if the profile handler does not know such stages.
    pub fn disaggregation(&self) -> Option<Disaggregation> {
        let set = |header: &str| self.set_headers.iter().any(|(name, _)| *name == header);
        // A handler that knows the stages sets or removes each of their headers.
        let knows = set(sidecar_headers::PREFILL) || self.remove_headers.contains(&sidecar_headers::PREFILL);
        knows.then(|| Disaggregation {
            prefill: set(sidecar_headers::PREFILL),
            encode: set(sidecar_headers::ENCODE),
        })
    }

    /// Returns the endpoint that decodes, and the endpoint that computes the prompt if a `prefill` profile ran.
    pub fn stages(&self) -> Stages {
        let first = |run: &ProfileRun| run.targets.first().copied();
        let prefill = self.runs.iter().find(|run| run.name == PREFILL).and_then(first);
        Stages { decode: first(self.primary_run()), prefill }
    }

    /// The run that decides where the request goes.
    pub fn primary_run(&self) -> &ProfileRun {
        &self.runs[self.primary]
    }

    /// Returns how many of the blocks that the primary target held are not scored, because many prompts share them.
    pub fn shared_blocks(&self) -> u32 {
        let target = self.primary_run().targets.first().copied();
        let matches = Matches::cached(&self.findings).zip(target);
        matches.map_or(0, |(matches, target)| matches.matched(target).saturating_sub(matches.own(target)))
    }

    /// Returns the number of prompt blocks that the primary target held, and the number of all blocks. Returns `None` if the
    /// configuration does not use prefixes.
    pub fn prefix_hit(&self) -> Option<(u32, u32)> {
        let matches = Matches::cached(&self.findings)?;
        let target = *self.primary_run().targets.first()?;
        Some((matches.matched(target), matches.total()))
    }

    /// Returns the lookups of the producers of encoder caches, if the request has media.
    pub fn encoder_lookups(&self) -> impl Iterator<Item = &EncoderLookup> {
        let lookups = self.findings.iter().filter_map(Finding::get::<EncoderLookup>);
        lookups.filter(|lookup| !lookup.media.is_empty())
    }

    /// Returns what each prefix producer knows about the primary target. Producers that plan, and do not know, are left out.
    pub fn prefix_hits(&self) -> impl Iterator<Item = PrefixHit> {
        let target = self.primary_run().targets.first().copied();
        let lookups = self.findings.iter().filter_map(Finding::get::<Matches>);
        let known = lookups.enumerate().filter(|(_, lookup)| lookup.is_cached());
        known.zip(std::iter::repeat(target)).filter_map(|((producer, lookup), target)| {
            let matched = lookup.matched(target?);
            // A token has about four bytes.
            let bytes = matched.saturating_mul(lookup.block_tokens()).saturating_mul(4);
            Some(PrefixHit { producer, matched, total: lookup.total(), bytes })
        })
    }
}
