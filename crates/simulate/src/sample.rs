//! A sample of the requests of a run: where each went, and what was known when it was sent. The choice depends on a request's
//! number alone, so runs with the same traffic have the same requests in their samples.

use std::collections::{BTreeMap, HashMap};

use longboat_engine_model::split_mix::mix;

use crate::{rejection::Refusal, request_times::RequestTimes, trace::TraceRequest};

/// The most requests of a sample.
const MAX_REQUESTS: usize = 1024;
/// The most scores of a sample: each request has one for each endpoint and scorer, of four bytes.
const MAX_SCORES: usize = 1 << 21;
/// The sessions whose turns are counted. Of later ones, the turn is not known.
const MAX_SESSIONS: usize = 1 << 16;

/// A request of the sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SampledRequest {
    /// Its place in the traffic, from 0.
    pub(crate) number: u64,
    pub(crate) session: Option<String>,
    /// Its turn in the session, from 1, if that is known.
    pub(crate) turn: Option<u32>,
    pub(crate) adapter: Option<String>,
    pub(crate) prompt_tokens: usize,
    pub(crate) pick: Option<SampledPick>,
    pub(crate) outcome: Outcome,
}

/// How a request of the sample ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Outcome {
    Open,
    Answered(RequestTimes),
    Refused(Refusal),
}

/// What was known when a request was sent, of the endpoints that could compute its prompt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SampledPick {
    /// The number of the endpoint that computes the prompt.
    pub(crate) endpoint: usize,
    /// Tokens of the prompt in the cache of this endpoint.
    pub(crate) cached_tokens: usize,
    /// The endpoint with the most tokens of the prompt, and their number. `None` if no endpoint has any.
    pub(crate) holder: Option<(usize, usize)>,
    /// The endpoints that passed the filters.
    pub(crate) scored: Vec<usize>,
    /// Their weighted totals.
    pub(crate) totals: Vec<f32>,
    pub(crate) scorers: Vec<SampledScorer>,
    /// The endpoints that a filter dropped, with the filter's place in `filters`.
    pub(crate) dropped: Vec<(usize, usize)>,
    pub(crate) filters: Vec<String>,
}

/// The scores of a scorer for the endpoints that passed the filters, between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SampledScorer {
    pub(crate) plugin: String,
    pub(crate) weight: f64,
    pub(crate) scores: Vec<f32>,
}

/// Gathers the sample. If it has too many requests or scores, half of the requests leave it.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    is_on: bool,
    /// One request in `1 << halvings` is in the sample.
    halvings: u32,
    requests: BTreeMap<u64, SampledRequest>,
    scores: usize,
    turns: HashMap<String, u32>,
}

// === impl SampledPick ===

impl SampledPick {
    fn scores(&self) -> usize {
        self.scored.len() * (self.scorers.len() + 1) + self.dropped.len()
    }

    /// Whether the request goes to an endpoint that has about as much of its prompt as any. `None` if no endpoint has any.
    pub(crate) fn keeps_prefix(&self) -> Option<bool> {
        self.holder.map(|(_, tokens)| self.cached_tokens * 10 >= tokens * 9)
    }

    /// The place of an endpoint among those that passed the filters.
    pub(crate) fn place(&self, endpoint: usize) -> Option<usize> {
        self.scored.iter().position(|scored| *scored == endpoint)
    }

    /// The filter that dropped an endpoint.
    pub(crate) fn filter_of(&self, endpoint: usize) -> Option<&str> {
        let (_, filter) = self.dropped.iter().find(|(dropped, _)| *dropped == endpoint)?;
        self.filters.get(*filter).map(String::as_str)
    }
}

// === impl Sampler ===

impl Sampler {
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Notes an arrival.
    pub(crate) fn arrive(&mut self, number: u64, request: &TraceRequest, prompt_tokens: usize) {
        if !self.is_on {
            return;
        }
        // Counted for requests outside of the sample too, or turns would have wrong numbers.
        let turn = request.session.as_deref().and_then(|session| self.turn(session));
        if !self.takes(number) {
            return;
        }
        let sampled = SampledRequest {
            number,
            session: request.session.clone(),
            turn,
            adapter: request.adapter.clone(),
            prompt_tokens,
            pick: None,
            outcome: Outcome::Open,
        };
        self.requests.insert(number, sampled);
        self.thin();
    }

    /// Whether a request is in the sample.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.is_on && self.takes(number)
    }

    pub(crate) fn sent(&mut self, number: u64, pick: SampledPick) {
        if let Some(request) = self.requests.get_mut(&number) {
            self.scores += pick.scores();
            request.pick = Some(pick);
            self.thin();
        }
    }

    pub(crate) fn end(&mut self, number: u64, outcome: Outcome) {
        if self.has(number)
            && let Some(request) = self.requests.get_mut(&number)
        {
            request.outcome = outcome;
        }
    }

    /// Returns the requests in the order of their arrival.
    pub(crate) fn finish(self) -> Vec<SampledRequest> {
        self.requests.into_values().collect()
    }

    fn takes(&self, number: u64) -> bool {
        // Traffic may have a pattern, of which every second number sees only a part. Mixed numbers have none.
        mix(number).trailing_zeros() >= self.halvings
    }

    fn turn(&mut self, session: &str) -> Option<u32> {
        if let Some(turn) = self.turns.get_mut(session) {
            *turn += 1;
            return Some(*turn);
        }
        (self.turns.len() < MAX_SESSIONS).then(|| {
            self.turns.insert(session.to_owned(), 1);
            1
        })
    }

    fn thin(&mut self) {
        while self.requests.len() > MAX_REQUESTS || self.scores > MAX_SCORES {
            self.halvings += 1;
            let halvings = self.halvings;
            self.requests.retain(|number, _| mix(*number).trailing_zeros() >= halvings);
            self.scores = self
                .requests
                .values()
                .filter_map(|request| request.pick.as_ref())
                .map(SampledPick::scores)
                .sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::trace::TracePrompt;

    fn request(session: Option<String>) -> TraceRequest {
        TraceRequest { session, ..TraceRequest::new(Duration::ZERO, TracePrompt::unshared(1), 1) }
    }

    fn pick(endpoints: usize) -> SampledPick {
        SampledPick {
            endpoint: 0,
            cached_tokens: 0,
            holder: None,
            scored: (0..endpoints).collect(),
            totals: vec![0.0; endpoints],
            scorers: Vec::new(),
            dropped: Vec::new(),
            filters: Vec::new(),
        }
    }

    fn numbers(requests: u64, endpoints: usize) -> Vec<u64> {
        let mut sampler = Sampler::new(true);
        for number in 0..requests {
            sampler.arrive(number, &request(None), 1);
            if sampler.has(number) {
                sampler.sent(number, pick(endpoints));
            }
        }
        sampler.finish().into_iter().map(|request| request.number).collect()
    }

    #[test]
    fn a_sample_has_all_of_few_requests_and_a_limited_part_of_many() {
        assert_eq!(numbers(1000, 1), (0..1000).collect::<Vec<_>>());
        let part = numbers(100_000, 1);
        assert!((MAX_REQUESTS / 3..=MAX_REQUESTS).contains(&part.len()), "{}", part.len());
        assert!(part.windows(2).any(|pair| pair[0] > 99_000), "no late request");
        // Many endpoints have many scores. The smaller sample is a part of the larger one.
        let small = numbers(100_000, 20_000);
        assert!((MAX_SCORES / 20_000 / 3..=MAX_SCORES / 20_000).contains(&small.len()), "{}", small.len());
        assert!(small.iter().all(|number| part.contains(number)));
    }

    #[test]
    fn turns_are_counted_for_a_limited_number_of_sessions() {
        let mut sampler = Sampler::new(true);
        for number in 0..=MAX_SESSIONS as u64 {
            sampler.arrive(number, &request(Some(number.to_string())), 1);
        }
        assert_eq!((sampler.turn("0"), sampler.turn("65536")), (Some(2), None));
    }
}
