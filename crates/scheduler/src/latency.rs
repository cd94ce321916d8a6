//! Predicted latency: what a predictor is asked about each candidate, and what its answers mean for a request.
//!
//! A request may say how soon it wants its first token, and how fast the others. What is left of that time after a prediction
//! is the headroom of an endpoint; below 0, the endpoint would be too slow.

use std::time::Duration;

use crate::{
    endpoint::{Metrics, Slot, Snapshot},
    prefix::Matches,
    request::{HeaderLookup, Request},
    state::State,
};

/// `predicted-latency-producer`: when a predictor is asked and taught, and how its answers are read.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySettings {
    /// The plugin's name.
    pub name: String,
    /// Whether the time to the first token and that for each further one are told apart. Otherwise the time of the whole
    /// response stands for the first token.
    pub streaming: bool,
    /// Whether predictions are asked for. Otherwise the predictor only learns.
    pub predict: bool,
    /// A response that takes longer teaches nothing.
    pub longest: Duration,
    /// What the wanted time for a token is multiplied with before it is compared.
    pub(crate) slo_buffer: f64,
    /// The label of pods that says whether they prefill or decode.
    pub(crate) role_label: Option<String>,
    /// Which prefix producer says how much of a prompt is cached.
    pub(crate) prefix: usize,
}

/// What a predictor is told about a request on an endpoint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    /// Share of the KV cache in use, 0 to 1.
    pub kv_usage: f64,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Requests that wait at the endpoint.
    pub waiting: u64,
    /// Requests in flight there.
    pub running: u64,
    /// Share of the prompt that is cached there, 0 to 1.
    pub prefix_ratio: f64,
    /// What the pod does: `prefill`, `decode`, or nothing where it does both.
    pub role: String,
    /// Uncached tokens of prompts that the endpoint works on.
    pub prefill_tokens: u64,
}

/// A predictor's answer about a request on an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prediction {
    /// Milliseconds until the first token.
    pub ttft_ms: f64,
    /// Milliseconds for each further token.
    pub tpot_ms: f64,
}

/// The times that a request asks for, in milliseconds; 0: it asks for none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    /// Until the first token.
    pub ttft_ms: f64,
    /// For each further token.
    pub tpot_ms: f64,
}

impl Wanted {
    /// Reads the headers, under their present and their former names. What is no number asks for nothing.
    pub fn of(headers: &dyn HeaderLookup) -> Self {
        let read = |names: [&str; 2]| {
            let text = names.into_iter().find_map(|name| headers.header(name));
            let number = text.and_then(|text| text.trim().parse::<f64>().ok());
            number.filter(|number| number.is_finite() && *number > 0.0).unwrap_or(0.0)
        };
        Self {
            ttft_ms: read(["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"]),
            tpot_ms: read(["x-llm-d-slo-tpot-ms", "x-slo-tpot-ms"]),
        }
    }

    /// Whether it asks for anything.
    pub fn any(self) -> bool {
        self.ttft_ms > 0.0 || self.tpot_ms > 0.0
    }
}

/// What a prediction means for a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outlook {
    /// Milliseconds until the first token.
    pub(crate) ttft_ms: f64,
    /// What is left of the wanted time until the first token, in milliseconds.
    pub(crate) ttft_headroom: f64,
    /// What is left of the wanted time for a token, in milliseconds.
    pub(crate) tpot_headroom: f64,
    /// Whether both times are kept.
    pub(crate) valid: bool,
    /// Requests in flight there.
    pub(crate) dispatched: u64,
}

impl Features {
    /// Replaces what was scraped by what was scraped later.
    pub fn load(&mut self, metrics: &Metrics) {
        self.kv_usage = share(metrics.kv_usage);
        self.waiting = whole(metrics.waiting);
    }
}

impl LatencySettings {
    /// What to tell the predictor about each candidate.
    pub(crate) fn features(
        &self,
        state: &State,
        request: &Request<'_>,
        candidates: &[Snapshot],
        matches: &Matches,
    ) -> Vec<Features> {
        let input_tokens = request.tokens() as u64;
        let each = candidates.iter().enumerate().map(|(index, snapshot)| {
            let (running, prefill_tokens) = state.in_flight(snapshot.endpoint.slot);
            Features {
                kv_usage: share(snapshot.metrics.kv_usage),
                input_tokens,
                waiting: whole(snapshot.metrics.waiting),
                running,
                prefix_ratio: share(matches.ratio(index)),
                role: self.role(snapshot).unwrap_or_default().to_owned(),
                prefill_tokens,
            }
        });
        each.collect()
    }

    fn role<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s str> {
        snapshot.endpoint.labels.get(self.role_label.as_ref()?).map(String::as_str)
    }

    /// What the predictions mean, for each candidate that has one.
    pub(crate) fn outlooks(
        &self,
        state: &State,
        request: &Request<'_>,
        candidates: &[Snapshot],
    ) -> Vec<Option<Outlook>> {
        let wanted = Wanted::of(request.headers);
        let each = candidates.iter().map(|snapshot| {
            let slot = snapshot.endpoint.slot;
            let (_, prediction) = request.predictions.iter().find(|(known, _)| *known == slot)?;
            let prefills = self.role(snapshot) == Some("prefill");
            // Only decoding produces further tokens, and only streams show how fast they come.
            let (tpot_headroom, tpot_ok) = if self.streaming && !prefills {
                let own = wanted.tpot_ms * self.slo_buffer;
                let limit = match state.strictest_tpot(slot) {
                    Some(strictest) => own.min(strictest * self.slo_buffer),
                    None => own,
                };
                (limit - prediction.tpot_ms, prediction.tpot_ms < limit)
            } else {
                (0.0, true)
            };
            Some(Outlook {
                ttft_ms: prediction.ttft_ms,
                ttft_headroom: wanted.ttft_ms - prediction.ttft_ms,
                tpot_headroom,
                valid: tpot_ok && prediction.ttft_ms < wanted.ttft_ms,
                dispatched: state.in_flight(slot).0,
            })
        });
        each.collect()
    }
}

impl State {
    /// The shortest time for a token that any request in flight at an endpoint asks for, in milliseconds.
    pub(crate) fn strictest_tpot(&self, slot: Slot) -> Option<f64> {
        self.in_flight.strictest_tpot(slot)
    }
}

/// A share as predictors take it: from 0 to 1.
fn share(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// A count as predictors take it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is no count is cut to one")]
fn whole(value: f64) -> u64 {
    // The cast saturates. More than 2^53 requests are nobody's.
    (value.max(0.0) as u64).min(1 << 53)
}
