//! Predicted latency: the features of each candidate for the predictor, and the use of its predictions.
//!
//! A request may specify the time to its first token and the time per further token. An endpoint's headroom is the requested
//! time minus the predicted time. A negative headroom means that the endpoint would be too slow.

use std::time::Duration;

use crate::{
    endpoint::{Metrics, Slot, Snapshot},
    prefix::Matches,
    producers::encoder_cache::caches::EncoderCaches,
    request::{HeaderLookup, Request},
    state::State,
};

/// `predicted-latency-producer`: when the predictor is called and trained, and how its predictions are used.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySettings {
    /// The plugin's name.
    pub name: String,
    /// Whether the time to the first token and the time per further token are separate. Otherwise the time of the whole
    /// response counts as the time to the first token.
    pub streaming: bool,
    /// Whether predictions are requested. Otherwise the predictor is only trained.
    pub predict: bool,
    /// A response that takes longer is not used for training.
    pub max_response: Duration,
    /// The factor for the requested time per token, before the comparison.
    pub(crate) slo_buffer: f64,
    /// The label of pods that says whether they prefill or decode.
    pub(crate) role_label: Option<String>,
    /// The place of the prefix producer that says how much of a prompt is cached.
    pub(crate) prefix: usize,
    /// The place of the producer of encoder caches that says which of a request's images, audio and videos are encoded.
    /// `None` if the predictor is not told.
    pub(crate) encoder_cache: Option<usize>,
}

/// The features of a request on an endpoint, for the predictor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    /// Share of the KV cache in use, 0 to 1.
    pub kv_usage: f64,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Requests that wait at the endpoint.
    pub waiting: u64,
    /// Requests in flight at the endpoint, as this picker counts them.
    pub running: u64,
    /// Share of the prompt that is cached at the endpoint, 0 to 1.
    pub prefix_ratio: f64,
    /// The pod's role: `prefill`, `decode`, or empty if it does both.
    pub role: String,
    /// Uncached prompt tokens that the endpoint works on.
    pub prefill_tokens: u64,
    /// Images, audio and videos of the request. 0 if the predictor is not told.
    pub encoder_items: u64,
    /// The part of them that the endpoint has probably encoded.
    pub encoder_matched: u64,
}

/// The times that a request asks for, in milliseconds. 0 means that it asks for none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatencyObjective {
    /// Until the first token.
    pub ttft_ms: f64,
    /// For each further token.
    pub tpot_ms: f64,
}

impl LatencyObjective {
    /// Reads the headers, under their present and their former names. A header that is not a number is ignored.
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

    /// Whether the request asks for any time.
    pub fn any(self) -> bool {
        self.ttft_ms > 0.0 || self.tpot_ms > 0.0
    }
}

/// A prediction compared with the times that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LatencyHeadroom {
    /// Milliseconds until the first token.
    pub(crate) ttft_ms: f64,
    /// The requested time to the first token minus the predicted one, in milliseconds.
    pub(crate) ttft_headroom: f64,
    /// The requested time per token minus the predicted one, in milliseconds.
    pub(crate) tpot_headroom: f64,
    /// Whether both requested times are met.
    pub(crate) valid: bool,
    /// Requests in flight at the endpoint.
    pub(crate) dispatched: u64,
}

impl Features {
    /// Replaces the scraped features by later ones.
    pub fn load(&mut self, metrics: &Metrics) {
        self.kv_usage = share(metrics.kv_usage);
        self.waiting = whole(metrics.waiting);
    }
}

impl LatencySettings {
    /// Returns the features of each candidate.
    pub(crate) fn features(
        &self,
        state: &State,
        request: &Request<'_>,
        candidates: &[Snapshot],
        matches: &Matches,
    ) -> Vec<Features> {
        let input_tokens = request.tokens() as u64;
        let caches = self.encoder_cache.and_then(|producer| state.producer::<EncoderCaches>(producer));
        let encoded = caches.map(|caches| caches.lookup(request.media, candidates));
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
                encoder_items: encoded.as_ref().map_or(0, |_| request.media.len() as u64),
                encoder_matched: encoded.as_ref().map_or(0, |encoded| encoded.count(index)),
            }
        });
        each.collect()
    }

    fn role<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s str> {
        snapshot.endpoint.labels.get(self.role_label.as_ref()?).map(String::as_str)
    }

    /// Returns the headroom of each candidate. `None` for a candidate without a prediction.
    pub(crate) fn latency_headrooms(
        &self,
        state: &State,
        request: &Request<'_>,
        candidates: &[Snapshot],
    ) -> Vec<Option<LatencyHeadroom>> {
        let wanted = LatencyObjective::of(request.headers);
        let each = candidates.iter().map(|snapshot| {
            let slot = snapshot.endpoint.slot;
            let (_, prediction) = request.predictions.iter().find(|(known, _)| *known == slot)?;
            let prefills = self.role(snapshot) == Some("prefill");
            // Only decode endpoints produce further tokens, and only streams show how fast they come.
            let (tpot_headroom, tpot_ok) = if self.streaming && !prefills {
                // An engine computes the next tokens of all its requests together, so the strictest of them counts for all.
                let own = wanted.tpot_ms * self.slo_buffer;
                let limit = match state.strictest_tpot(slot) {
                    Some(strictest) => own.min(strictest * self.slo_buffer),
                    None => own,
                };
                (limit - prediction.tpot_ms, prediction.tpot_ms < limit)
            } else {
                (0.0, true)
            };
            Some(LatencyHeadroom {
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
    /// Returns the shortest requested time per token of the requests in flight at an endpoint, in milliseconds.
    pub(crate) fn strictest_tpot(&self, slot: Slot) -> Option<f64> {
        self.in_flight.strictest_tpot(slot)
    }
}

/// Clamps a share to 0 to 1, as predictors require.
fn share(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// Rounds a count down to a whole number, as predictors require.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is no count is cut to one")]
fn whole(value: f64) -> u64 {
    // The cast saturates, and the limit keeps the number exact in a float.
    (value.max(0.0) as u64).min(1 << 53)
}
