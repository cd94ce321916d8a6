//! Recent decisions, so that people can see why a request went to its endpoint.
//!
//! If no decisions are kept, a request pays one comparison. Otherwise the scheduler traces each pick, and new records replace
//! the oldest. A record contains names and numbers, never prompts.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use longboat_scheduler::{Decision, ProfileRun, Request, ScheduleError, Snapshot, millis};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde::{Serialize, Serializer};

use crate::metrics::RequestSummary;

/// The most endpoints that a record lists for a profile: first the picked ones, then those with the best scores.
const MAX_LISTED: usize = 64;
/// The most bytes that are kept of a name that the client chose.
const MAX_NAME_BYTES: usize = 256;
/// The most records in an answer, and the default without a limit in the query.
const MAX_LIMIT: usize = 100;
const DEFAULT_LIMIT: usize = 50;

/// The newest decisions, up to the capacity.
#[derive(Debug)]
pub(crate) struct Decisions {
    capacity: usize,
    recent: Mutex<VecDeque<Arc<Record>>>,
}

/// The parameters of `/debug/decisions`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// Only the decisions for this request id.
    id: Option<String>,
    /// The most records to answer with.
    limit: Option<usize>,
}

/// One decision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// The request's id. It may not be unique, because clients can repeat theirs.
    id: String,
    time: Timestamp,
    /// The model in the request to the endpoint.
    model: String,
    /// Time to decide, in microseconds.
    micros: u64,
    /// Endpoints before any filter.
    candidates: usize,
    /// Why no endpoint was picked.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Where the request went, `ip:port`, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    destination: Vec<String>,
    /// Blocks of the prompt that the picked endpoint holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<Prefix>,
    profiles: Vec<Profile>,
    /// The end of the response. Absent until the response has ended.
    #[serde(skip_serializing_if = "is_open", serialize_with = "end")]
    response: OnceLock<End>,
}

#[derive(Debug, Serialize)]
struct Prefix {
    matched: u32,
    /// The part of `matched` that is not scored, because many prompts share it.
    shared: u32,
    total: u32,
    /// `matched` as a share of `total`, 0 to 1.
    ratio: f64,
}

/// The result of one profile.
#[derive(Debug, Serialize)]
struct Profile {
    name: String,
    /// Whether this profile decided the destination.
    primary: bool,
    filters: Vec<FilterRow>,
    scorers: Vec<Scorer>,
    endpoints: Vec<ScoreRow>,
    /// How many endpoints were scored; `endpoints` may list fewer.
    scored: usize,
}

#[derive(Debug, Serialize)]
struct FilterRow {
    plugin: String,
    /// The number of candidates that passed.
    left: usize,
    /// The candidates that did not pass.
    dropped: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Scorer {
    plugin: String,
    weight: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScoreRow {
    endpoint: String,
    address: String,
    picked: bool,
    /// The weighted sum of `scores`.
    total: f64,
    /// One score for each of the profile's scorers, before it is clamped to 0 to 1 and weighted.
    scores: Vec<f64>,
    /// The endpoint's last metrics: waiting requests, running requests, and the used share of its KV cache.
    waiting: f64,
    running: f64,
    kv_usage: f64,
}

/// How a response ended. Times are in milliseconds from the request's arrival.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct End {
    /// The HTTP status, if it is not 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Whether the request ended before its response: the client left, a timeout of the route ended it, or the endpoint failed. The
    /// proxy does not say which.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cancelled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_millis: Option<u64>,
    millis: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    /// How many decisions are kept.
    capacity: usize,
    /// The newest first.
    decisions: Vec<&'a Record>,
}

// === impl Decisions ===

impl Decisions {
    /// Keeps the newest `capacity` decisions. 0 keeps none.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, recent: Mutex::default() }
    }

    /// Whether decisions are kept.
    pub(crate) fn are_kept(&self) -> bool {
        self.capacity > 0
    }

    /// Keeps a decision. Returns its record, so that the caller can add the end of the response.
    pub(crate) fn record(
        &self,
        request: &Request<'_>,
        candidates: &[Snapshot],
        decided: &Result<Decision, ScheduleError>,
        took: Duration,
    ) -> Option<Arc<Record>> {
        if !self.are_kept() {
            return None;
        }
        let record = Arc::new(Record::new(request, candidates, decided, took));
        let mut recent = self.recent.lock();
        if recent.len() >= self.capacity {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(&record));
        Some(record)
    }

    /// Returns the answer of several pickers to a query as JSON.
    pub(crate) fn answer<'a>(all: impl IntoIterator<Item = &'a Self>, query: &Query) -> String {
        let is_meant = |record: &&Arc<Record>| query.id.as_ref().is_none_or(|id| record.id == *id);
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let (mut capacity, mut found) = (0, Vec::new());
        for one in all {
            capacity += one.capacity;
            found.extend(one.recent.lock().iter().rev().filter(is_meant).take(limit).cloned());
        }
        // The sort is stable, and the records of one picker are nearly sorted.
        found.sort_by_key(|record| Reverse(record.time));
        let decisions = found.iter().map(AsRef::as_ref).take(limit).collect();
        let answer = Answer { capacity, decisions };
        serde_json::to_string(&answer).unwrap_or_else(|error| {
            tracing::error!(%error, "Cannot write decisions.");
            "{}".to_owned()
        })
    }
}

// === impl Query ===

impl Query {
    /// Reads `id=…&limit=…`.
    pub(crate) fn parse(query: &str) -> Result<Self, &'static str> {
        let mut read = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "id" => {
                    let id = percent_decode_str(value).decode_utf8().map_err(|_| "id: not UTF-8\n")?;
                    read.id = Some(shortened(&id));
                }
                "limit" => {
                    read.limit = Some(value.parse().map_err(|_| "limit: expected a number, as 20\n")?);
                }
                _ => return Err("expected `id` or `limit`\n"),
            }
        }
        Ok(read)
    }
}

// === impl Record ===

impl Record {
    fn new(
        request: &Request<'_>,
        candidates: &[Snapshot],
        decided: &Result<Decision, ScheduleError>,
        took: Duration,
    ) -> Self {
        let decision = decided.as_ref().ok();
        let hit = decision.and_then(|decision| Some((decision.prefix_hit()?, decision.shared_blocks())));
        let prefix = hit.map(|((matched, total), shared)| Prefix {
            matched,
            shared,
            total,
            ratio: f64::from(matched) / f64::from(total.max(1)),
        });
        let runs = decision.map_or(&[][..], |decision| &decision.runs);
        let primary = decision.map(|decision| decision.primary);
        let profiles = runs
            .iter()
            .enumerate()
            .map(|(index, run)| Profile::new(run, primary == Some(index), candidates))
            .collect();
        Self {
            id: shortened(request.id),
            time: Timestamp::now(),
            model: shortened(request.model),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            candidates: candidates.len(),
            error: decided.as_ref().err().map(ToString::to_string),
            destination: decision.map(|decision| decision.destination.clone()).unwrap_or_default(),
            prefix,
            profiles,
            response: OnceLock::new(),
        }
    }

    /// Records the end of the response, or of a request without one.
    pub(crate) fn ended(&self, end: &RequestSummary) {
        let usage = end.usage.as_ref();
        let _ = self.response.set(End {
            status: end.status.filter(|status| *status != 200),
            cancelled: !end.is_complete,
            first_byte_millis: end.first_byte.map(millis),
            millis: millis(end.duration),
            prompt_tokens: usage.map(|usage| usage.input),
            cached_tokens: usage.map(|usage| usage.cached),
            completion_tokens: usage.map(|usage| usage.output),
        });
    }
}

impl Profile {
    fn new(run: &ProfileRun, primary: bool, candidates: &[Snapshot]) -> Self {
        let name = |candidate: usize| candidates[candidate].endpoint.full_name();
        let mut before: Vec<usize> = (0..candidates.len()).collect();
        let filters = run.filtered.iter().map(|filter| {
            let dropped = before.iter().filter(|candidate| !filter.kept.contains(candidate));
            let dropped = dropped.take(MAX_LISTED).map(|candidate| name(*candidate)).collect();
            before.clone_from(&filter.kept);
            FilterRow { plugin: filter.plugin.clone(), left: filter.kept.len(), dropped }
        });
        let filters = filters.collect();
        let mut order: Vec<usize> = (0..run.totals.len()).collect();
        let rank = |index: usize| {
            let picked = run.targets.iter().position(|target| *target == run.totals[index].0);
            picked.unwrap_or(usize::MAX)
        };
        order.sort_by(|one, other| {
            rank(*one).cmp(&rank(*other)).then(run.totals[*other].1.total_cmp(&run.totals[*one].1))
        });
        let endpoints = order.into_iter().take(MAX_LISTED).map(|index| {
            let (candidate, total) = run.totals[index];
            let Snapshot { endpoint, metrics, .. } = &candidates[candidate];
            // Every scorer scores the candidates in the order of the totals.
            let scores = run.trace.iter().map(|scorer| scorer.scores[index].1).collect();
            ScoreRow {
                endpoint: endpoint.full_name(),
                address: endpoint.host_port.clone(),
                picked: run.targets.first() == Some(&candidate),
                total,
                scores,
                waiting: metrics.waiting,
                running: metrics.running,
                kv_usage: metrics.kv_usage,
            }
        });
        Self {
            name: run.name.clone(),
            primary,
            filters,
            scorers: run
                .trace
                .iter()
                .map(|scorer| Scorer { plugin: scorer.plugin.clone(), weight: scorer.weight })
                .collect(),
            endpoints: endpoints.collect(),
            scored: run.totals.len(),
        }
    }
}

/// Cuts a name that the client chose to at most `MAX_NAME_BYTES` bytes.
fn shortened(name: &str) -> String {
    name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned()
}

fn is_open(response: &OnceLock<End>) -> bool {
    response.get().is_none()
}

fn end<S: Serializer>(response: &OnceLock<End>, serializer: S) -> Result<S::Ok, S::Error> {
    response.get().serialize(serializer)
}
