//! What two policies do differently with the same requests, and what decides that.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::{
    choice::{Choice, Decider, choice, decider},
    numbers::{float, ratio, rounded},
    report::Report,
    request_times::RequestTimes,
    sample::{Outcome, SampledRequest},
};

/// A prompt without a cached prefix is long from so many tokens on.
const LONG_PROMPT_TOKENS: usize = 4096;

/// Kinds of requests. The first that applies counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// A later turn of a conversation.
    Turn,
    /// A request for a LoRA adapter.
    Adapter,
    /// An endpoint has the beginning of the prompt in its cache.
    CachedPrefix,
    /// No endpoint has, and the prompt is long.
    LongPrompt,
    /// All others.
    Other,
}

/// A number with the first policy and with the other one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Pair<T = f64> {
    /// With the first policy.
    pub first: T,
    /// With the other one.
    pub other: T,
}

/// Means of requests that both policies answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Means {
    /// The number of these requests.
    pub requests: usize,
    /// The time to the first token, in milliseconds.
    pub ttft: Pair,
    /// The part of it in the picker's queue.
    pub picker_queue: Pair,
    /// The part of it in the engine's queue.
    pub engine_queue: Pair,
    /// The rest: the computation of the prompt.
    pub prefill: Pair,
    /// Tokens of the prompt that were cached.
    pub cached_tokens: Pair,
    /// Tokens of the prompt.
    pub prompt_tokens: f64,
}

/// The requests of a kind in the samples of both policies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindDifference {
    /// The kind.
    pub kind: RequestKind,
    /// The sampled requests of this kind.
    pub sampled: usize,
    /// Requests for which this policy decides otherwise: another endpoint with or without their prefix, or none.
    pub moved: usize,
    /// Requests that leave the endpoint with their prefix.
    pub left_prefix: usize,
    /// Requests that move to the endpoint with their prefix.
    pub joined_prefix: usize,
    /// Requests that only this policy refuses.
    pub refused: Pair<usize>,
    /// What those that go elsewhere gain and lose.
    pub moved_means: Means,
    /// What decides with the first policy, and for how many of those that go elsewhere: the most frequent one first.
    pub first_deciders: Vec<(Decider, usize)>,
    /// The same of the other policy.
    pub other_deciders: Vec<(Decider, usize)>,
}

/// A request that stands for many.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    /// Its place in the traffic, from 0.
    pub request: u64,
    /// Its session.
    pub session: Option<String>,
    /// Its turn in the session, from 1.
    pub turn: Option<u32>,
    /// Its adapter.
    pub adapter: Option<String>,
    /// Tokens of its prompt.
    pub prompt_tokens: usize,
    /// What the first policy did.
    pub first: Choice,
    /// What the other policy did.
    pub other: Choice,
}

/// What another policy does differently than the first one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The first policy.
    pub first: String,
    /// The other one.
    pub other: String,
    /// The requests in the samples of both.
    pub sampled: usize,
    /// The kinds of which requests go elsewhere. The one whose times to the first token change most in sum comes first.
    pub kinds: Vec<KindDifference>,
    /// What the requests that do not go elsewhere gain and lose.
    pub stayed: Means,
    /// A request of the first kind with a usual change.
    pub example: Option<Example>,
}

/// A request in the samples of both runs.
#[derive(Debug, Clone, Copy)]
struct RequestPair<'a> {
    first: &'a SampledRequest,
    other: &'a SampledRequest,
}

/// Where a request went, as far as it can be compared between two runs: the numbers of endpoints mean nothing if caches matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    WithPrefix,
    WithoutPrefix,
    Endpoint(usize),
    Nowhere,
}

/// Compares the samples of two reports. `None` if they have no request in common.
pub(crate) fn difference(first: &Report, other: &Report) -> Option<Difference> {
    let known: HashMap<u64, &SampledRequest> =
        other.sample.iter().map(|request| (request.number, request)).collect();
    let paired = |first| Some(RequestPair { first, other: known.get(&first.number)? });
    let pairs: Vec<RequestPair<'_>> = first.sample.iter().filter_map(paired).collect();
    if pairs.is_empty() {
        return None;
    }
    let mut by_kind: BTreeMap<RequestKind, Vec<RequestPair<'_>>> = BTreeMap::new();
    for pair in &pairs {
        by_kind.entry(pair.kind()).or_default().push(*pair);
    }
    let mut kinds: Vec<(KindDifference, Vec<RequestPair<'_>>)> = by_kind
        .into_iter()
        .map(|(kind, pairs)| {
            let moved: Vec<RequestPair<'_>> = pairs.iter().copied().filter(RequestPair::is_moved).collect();
            (KindDifference::of(kind, pairs.len(), &moved), moved)
        })
        .filter(|(kind, _)| kind.moved > 0)
        .collect();
    kinds.sort_by(|(a, _), (b, _)| b.importance().total_cmp(&a.importance()));
    let example = kinds.first().and_then(|(kind, moved)| example(kind, moved));
    let stayed: Vec<RequestPair<'_>> = pairs.iter().copied().filter(|pair| !pair.is_moved()).collect();
    Some(Difference {
        first: first.policy.clone(),
        other: other.policy.clone(),
        sampled: pairs.len(),
        kinds: kinds.into_iter().map(|(kind, _)| kind).collect(),
        stayed: Means::of(&stayed),
        example,
    })
}

/// Returns the request in the middle of those whose times change in the direction of the sum.
fn example(kind: &KindDifference, moved: &[RequestPair<'_>]) -> Option<Example> {
    let sum = kind.moved_means.ttft.change();
    let mut usual: Vec<(f64, RequestPair<'_>)> = moved
        .iter()
        .filter_map(|pair| Some((pair.times()?.ttft.change(), *pair)))
        .filter(|(change, _)| change * sum >= 0.0)
        .collect();
    usual.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    // If the two differ in refusals only, any of these is an example.
    let pair = usual.get(usual.len() / 2).map(|(_, pair)| *pair).or_else(|| moved.first().copied())?;
    let SampledRequest { number, session, turn, adapter, prompt_tokens, .. } = pair.first.clone();
    Some(Example {
        request: number,
        session,
        turn,
        adapter,
        prompt_tokens,
        first: choice(pair.first, pair.other),
        other: choice(pair.other, pair.first),
    })
}

// === impl Pair ===

impl Pair {
    /// The other one minus the first one.
    pub(crate) fn change(self) -> f64 {
        self.other - self.first
    }
}

// === impl Means ===

impl Means {
    fn of(pairs: &[RequestPair<'_>]) -> Self {
        let all: Vec<Self> = pairs.iter().filter_map(RequestPair::times).collect();
        let number = float(all.len() as u64);
        let mean = |of: &dyn Fn(&Self) -> f64| rounded(ratio(all.iter().map(of).sum(), number));
        let means = |of: fn(&Self) -> Pair| Pair {
            first: mean(&|request| of(request).first),
            other: mean(&|request| of(request).other),
        };
        Self {
            requests: all.len(),
            ttft: means(|request| request.ttft),
            picker_queue: means(|request| request.picker_queue),
            engine_queue: means(|request| request.engine_queue),
            prefill: means(|request| request.prefill),
            cached_tokens: means(|request| request.cached_tokens),
            prompt_tokens: mean(&|request| request.prompt_tokens),
        }
    }
}

// === impl KindDifference ===

impl KindDifference {
    fn of(kind: RequestKind, sampled: usize, moved: &[RequestPair<'_>]) -> Self {
        let count = |is: &dyn Fn(&RequestPair<'_>) -> bool| moved.iter().filter(|pair| is(pair)).count();
        let is_refused = |request: &SampledRequest| destination(request) == Destination::Nowhere;
        let keeps = |request: &SampledRequest| destination(request) == Destination::WithPrefix;
        let deciders = |decided: &dyn Fn(&RequestPair<'_>) -> Decider| {
            let mut counts: BTreeMap<Decider, usize> = BTreeMap::new();
            for pair in moved {
                *counts.entry(decided(pair)).or_default() += 1;
            }
            let mut counts: Vec<_> = counts.into_iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            counts
        };
        Self {
            kind,
            sampled,
            moved: moved.len(),
            left_prefix: count(&|pair| keeps(pair.first) && !keeps(pair.other) && !is_refused(pair.other)),
            joined_prefix: count(&|pair| !keeps(pair.first) && keeps(pair.other) && !is_refused(pair.first)),
            refused: Pair {
                first: count(&|pair| is_refused(pair.first)),
                other: count(&|pair| is_refused(pair.other)),
            },
            moved_means: Means::of(moved),
            first_deciders: deciders(&|pair| decider(pair.first, pair.other)),
            other_deciders: deciders(&|pair| decider(pair.other, pair.first)),
        }
    }

    /// How much its requests change the result: the sum of their times, and more than that if requests are refused.
    fn importance(&self) -> f64 {
        let refused = float(self.refused.first.abs_diff(self.refused.other) as u64);
        let times = self.moved_means.ttft.change().abs() * float(self.moved_means.requests as u64);
        refused * 1e6 + times
    }
}

fn destination(request: &SampledRequest) -> Destination {
    match (&request.pick, request.outcome) {
        (_, Outcome::Refused(_)) | (None, _) => Destination::Nowhere,
        (Some(pick), _) => match pick.keeps_prefix() {
            Some(true) => Destination::WithPrefix,
            Some(false) => Destination::WithoutPrefix,
            None => Destination::Endpoint(pick.endpoint),
        },
    }
}

// === impl RequestPair ===

impl RequestPair<'_> {
    fn is_moved(&self) -> bool {
        destination(self.first) != destination(self.other)
    }

    fn kind(&self) -> RequestKind {
        let has_prefix =
            |request: &SampledRequest| request.pick.as_ref().is_some_and(|pick| pick.holder.is_some());
        if self.first.turn.is_some_and(|turn| turn > 1) {
            RequestKind::Turn
        } else if self.first.adapter.is_some() {
            RequestKind::Adapter
        } else if has_prefix(self.first) || has_prefix(self.other) {
            RequestKind::CachedPrefix
        } else if self.first.prompt_tokens >= LONG_PROMPT_TOKENS {
            RequestKind::LongPrompt
        } else {
            RequestKind::Other
        }
    }

    /// The numbers of this request alone, if both policies answer it.
    fn times(&self) -> Option<Means> {
        let (Outcome::Answered(first), Outcome::Answered(other)) = (self.first.outcome, self.other.outcome)
        else {
            return None;
        };
        let in_millis = |of: fn(&RequestTimes) -> u64| Pair {
            first: float(of(&first)) / 1e6,
            other: float(of(&other)) / 1e6,
        };
        let cached = |times: RequestTimes| float(times.cached_tokens as u64);
        Some(Means {
            requests: 1,
            ttft: in_millis(RequestTimes::ttft),
            picker_queue: in_millis(RequestTimes::picker_queue),
            engine_queue: in_millis(RequestTimes::engine_queue),
            prefill: in_millis(RequestTimes::prefill),
            cached_tokens: Pair { first: cached(first), other: cached(other) },
            prompt_tokens: float(self.first.prompt_tokens as u64),
        })
    }
}
