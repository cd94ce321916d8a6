//! What a run found: numbers that people and programs read.

use std::time::Duration;

use serde::Serialize;

use crate::{
    histogram::Histogram,
    numbers::{float, ratio, rounded},
    rejection::Rejections,
    request_times::RequestTimes,
    sample::SampledRequest,
    series::{MAX_POINTS, Points, Series},
};

/// What a request must keep to count as good.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slo {
    /// The greatest time to the first token.
    pub ttft: Option<Duration>,
    /// The greatest mean time between two tokens.
    pub itl: Option<Duration>,
    /// The greatest time to the last token.
    pub e2e: Option<Duration>,
}

/// The distribution of a time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Distribution {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The ninth decile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// Where the time to the first token went, as shares of their sum.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct WaitShares {
    /// In the picker's queue.
    pub picker_queue: f64,
    /// For a place in an engine's batch.
    pub batch: f64,
    /// For blocks of an engine's KV cache.
    pub kv_cache: f64,
    /// The computation of the prompt, with prompts before it and, with prefill endpoints, the transfer.
    pub prefill: f64,
}

/// What a plugin did, in a sample of the decisions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginShare {
    /// Its name.
    pub plugin: String,
    /// Its weight. `None` for a filter.
    pub weight: Option<f64>,
    /// The share of decisions that would differ without it (scorers), or of candidates that it dropped (filters).
    pub share: f64,
}

/// What a report is computed from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    recorder: Recorder,
    /// The requests of each endpoint.
    counts: Vec<u64>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The name of the policy.
    pub policy: String,
    /// Requests of the trace.
    pub requests: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Virtual seconds from the first arrival to the last answer, or arrival.
    pub seconds: f64,
    /// The time to the first token.
    pub ttft: Distribution,
    /// The mean time between two tokens of an answer.
    pub itl: Distribution,
    /// The time to the last token.
    pub e2e: Distribution,
    /// The share of requests that kept the SLO; requests without an answer did not.
    pub goodput: f64,
    /// Good requests a second.
    pub good_per_second: f64,
    /// The share of prompt tokens that were in the cache of the engine that computed the prompt.
    pub hit_ratio: f64,
    /// The standard deviation of the endpoints' request counts, divided by their mean.
    pub skew: f64,
    /// Requests without an answer.
    pub rejections: Rejections,
    /// Accelerators times seconds.
    pub gpu_seconds: f64,
    /// The most endpoints at the same time.
    pub endpoints: usize,
    /// Where the time to the first token went, of all requests.
    pub waits: WaitShares,
    /// The same of the requests that missed the SLO. All zeros if none did.
    pub waits_of_misses: WaitShares,
    /// What the plugins did.
    pub plugins: Vec<PluginShare>,
    /// Numbers over time.
    pub series: Series,
    /// Requests whose way is compared with that in other runs.
    #[serde(skip)]
    pub(crate) sample: Vec<SampledRequest>,
    /// What the numbers come from, so that those of several pools have a sum.
    #[serde(skip)]
    pub(crate) source: Source,
    /// The shares of requests with a time to the first token up to these milliseconds.
    pub ttft_curve: Vec<(f64, f64)>,
}

/// Gathers the numbers of a run, in memory that does not grow with the requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recorder {
    slo: Slo,
    ttft: Histogram,
    itl: Histogram,
    e2e: Histogram,
    answered: u64,
    good: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    last: u64,
    /// Nanoseconds, of all requests and of those that missed the SLO.
    waits: WaitShares,
    misses: WaitShares,
    points: Points,
    /// Requests without an answer.
    pub rejections: Rejections,
}

// === impl WaitShares ===

impl WaitShares {
    fn add(&mut self, times: &RequestTimes) {
        self.picker_queue += float(times.picker_queue());
        let waited = float(times.engine_queue());
        if times.waited_for_memory {
            self.kv_cache += waited;
        } else {
            self.batch += waited;
        }
        self.prefill += float(times.prefill());
    }

    fn merge(&mut self, other: &Self) {
        self.picker_queue += other.picker_queue;
        self.batch += other.batch;
        self.kv_cache += other.kv_cache;
        self.prefill += other.prefill;
    }

    /// Divides by the sum.
    fn shares(&self) -> Self {
        let sum = self.picker_queue + self.batch + self.kv_cache + self.prefill;
        let share = |part: f64| rounded(ratio(part, sum));
        Self {
            picker_queue: share(self.picker_queue),
            batch: share(self.batch),
            kv_cache: share(self.kv_cache),
            prefill: share(self.prefill),
        }
    }
}

// === impl Recorder ===

impl Recorder {
    /// Begins to gather.
    pub fn new(slo: Slo) -> Self {
        Self { slo, ..Self::default() }
    }

    /// Records an arrival, while `in_flight` requests are waiting or computed, and `endpoints` can be picked.
    pub fn arrival(&mut self, now: u64, in_flight: usize, endpoints: usize) {
        self.last = self.last.max(now);
        let point = self.points.at(now);
        point.arrivals += 1;
        point.in_flight += in_flight as u64;
        point.endpoints += endpoints as u64;
    }

    /// Records an answered request.
    pub fn answered(&mut self, times: &RequestTimes) {
        let ttft = times.ttft();
        let further = times.output_tokens.saturating_sub(1) as u64;
        let itl = (times.finished - times.first_token).checked_div(further);
        let e2e = times.finished - times.arrived;
        self.answered += 1;
        // Microseconds are fine enough, and keep the histograms small.
        self.ttft.add(ttft / 1000);
        self.e2e.add(e2e / 1000);
        if let Some(itl) = itl {
            self.itl.add(itl / 1000);
        }
        self.prompt_tokens += times.prompt_tokens as u64;
        self.cached_tokens += times.cached_tokens as u64;
        self.last = self.last.max(times.finished);
        let within = |limit: Option<Duration>, nanos: u64| {
            limit.is_none_or(|limit| u128::from(nanos) <= limit.as_nanos())
        };
        let is_good = within(self.slo.ttft, ttft)
            && within(self.slo.itl, itl.unwrap_or_default())
            && within(self.slo.e2e, e2e);
        self.good += u64::from(is_good);
        self.waits.add(times);
        if !is_good {
            self.misses.add(times);
        }
        let point = self.points.at(times.first_token);
        point.first_tokens += 1;
        point.ttft_nanos += float(ttft);
    }

    /// Adds what another one has gathered at the same time.
    fn merge(&mut self, other: &Self) {
        self.ttft.merge(&other.ttft);
        self.itl.merge(&other.itl);
        self.e2e.merge(&other.e2e);
        self.answered += other.answered;
        self.good += other.good;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.last = self.last.max(other.last);
        self.waits.merge(&other.waits);
        self.misses.merge(&other.misses);
        self.rejections.merge(other.rejections);
    }

    /// The moment of the last arrival or answer.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the report. `counts` are the requests of each endpoint.
    pub(crate) fn report(
        &self,
        policy: &str,
        requests: u64,
        counts: &[u64],
        endpoints: usize,
        gpu_seconds: f64,
    ) -> Report {
        let seconds = Duration::from_nanos(self.last).as_secs_f64();
        let curve = self.ttft.cumulative();
        // A picture needs no more points.
        let every = curve.len().div_ceil(MAX_POINTS).max(1);
        Report {
            policy: policy.to_owned(),
            requests,
            answered: self.answered,
            seconds: rounded(seconds),
            ttft: Distribution::of(&self.ttft),
            itl: Distribution::of(&self.itl),
            e2e: Distribution::of(&self.e2e),
            goodput: rounded(ratio(float(self.good), float(requests))),
            good_per_second: rounded(ratio(float(self.good), seconds)),
            hit_ratio: rounded(ratio(float(self.cached_tokens), float(self.prompt_tokens))),
            skew: rounded(skew(counts)),
            rejections: self.rejections,
            gpu_seconds: rounded(gpu_seconds),
            endpoints,
            waits: self.waits.shares(),
            waits_of_misses: self.misses.shares(),
            plugins: Vec::new(),
            series: self.points.series(),
            sample: Vec::new(),
            source: Source { recorder: self.clone(), counts: counts.to_vec() },
            ttft_curve: curve
                .iter()
                .enumerate()
                .filter(|(index, _)| index % every == 0 || index + 1 == curve.len())
                .map(|(_, (micros, share))| (rounded(micros / 1000.0), rounded(*share)))
                .collect(),
        }
    }

    /// Returns the report of requests that a real server has answered, of whose endpoints nothing is known.
    pub fn measured(&self, requests: u64) -> Report {
        self.report("measured", requests, &[], 0, 0.0)
    }
}

impl Distribution {
    fn of(micros: &Histogram) -> Self {
        let millis = |value: f64| rounded(value / 1000.0);
        let quantile = |share| millis(micros.quantile(share));
        Self { mean: millis(micros.mean()), p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) }
    }
}

impl Report {
    /// Returns the sum of the reports of pools that ran at the same time, and of requests for models that no pool serves. Endpoints are
    /// the sum of the most of each pool. Plugins and numbers over time have no sum.
    pub fn sum(policy: &str, pools: &[&Self], unknown_model: u64) -> Self {
        // Quantiles of pools have no sum, but their histograms do.
        let mut recorder = Recorder::default();
        recorder.rejections.unknown_model = unknown_model;
        for pool in pools {
            recorder.merge(&pool.source.recorder);
        }
        let counts: Vec<u64> = pools.iter().flat_map(|pool| &pool.source.counts).copied().collect();
        let requests = pools.iter().map(|pool| pool.requests).sum::<u64>() + unknown_model;
        let endpoints = pools.iter().map(|pool| pool.endpoints).sum();
        let gpu_seconds = pools.iter().map(|pool| pool.gpu_seconds).sum();
        // Averages over arrivals at one pool have no sum.
        Self {
            series: Series::default(),
            ..recorder.report(policy, requests, &counts, endpoints, gpu_seconds)
        }
    }

    /// Returns the number with this name, such as `ttft.p99` in milliseconds, `goodput` or `hit_ratio`.
    pub fn number(&self, name: &str) -> Option<f64> {
        let value = serde_json::to_value(self).ok()?;
        let pointer = format!("/{}", name.replace('.', "/"));
        value.pointer(&pointer)?.as_f64()
    }
}

fn skew(counts: &[u64]) -> f64 {
    let number = float(counts.len() as u64);
    let mean = ratio(counts.iter().map(|count| float(*count)).sum(), number);
    let squares: f64 = counts.iter().map(|count| (float(*count) - mean).powi(2)).sum();
    ratio(ratio(squares, number).sqrt(), mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_histograms_equal_a_single_one() {
        let answer = |arrived: u64, first_token: u64| RequestTimes {
            arrived,
            sent: arrived,
            started: arrived,
            first_token,
            finished: first_token + 1_000_000,
            output_tokens: 3,
            prompt_tokens: 10,
            cached_tokens: 4,
            ..Default::default()
        };
        let answers = [
            answer(0, 5_000_000),
            answer(3_000_000_000, 3_040_000_000),
            answer(90_000_000_000, 90_100_000_000),
        ];
        let gathered = |answers: &[RequestTimes]| {
            let mut recorder = Recorder::new(Slo::default());
            for times in answers {
                recorder.arrival(times.arrived, 1, 2);
                recorder.answered(times);
            }
            recorder
        };
        let mut both = gathered(&answers);
        both.rejections = Rejections { lost: 1, unknown_model: 2, ..Rejections::default() };
        let expected = Report { series: Series::default(), ..both.report("all pools", 6, &[2, 2], 2, 3.0) };
        let first = gathered(&answers[..2]).report("a", 2, &[2], 1, 1.0);
        let mut second = gathered(&answers[2..]);
        second.rejections.lost = 1;
        let second = second.report("b", 2, &[2], 1, 2.0);
        let sum = Report::sum("all pools", &[&first, &second], 2);
        assert_eq!(serde_json::to_value(&sum).unwrap(), serde_json::to_value(&expected).unwrap());
    }

    #[test]
    fn an_answer_that_misses_one_limit_is_not_good() {
        let slo =
            Slo { ttft: Some(Duration::from_millis(10)), itl: Some(Duration::from_millis(2)), e2e: None };
        let mut recorder = Recorder::new(slo);
        let good = RequestTimes {
            first_token: 10_000_000,
            finished: 30_000_000,
            output_tokens: 11,
            ..Default::default()
        };
        recorder.answered(&good);
        recorder.answered(&RequestTimes { first_token: 10_100_000, ..good });
        recorder.answered(&RequestTimes {
            finished: 31_000_000,
            sent: 4_000_000,
            started: 9_000_000,
            ..good
        });
        let report = recorder.report("p", 4, &[2, 2], 2, 1.0);
        assert_eq!(
            (report.answered, report.goodput.to_bits(), report.skew.to_bits()),
            (3, 0.25f64.to_bits(), 0)
        );
        assert_eq!(report.number("goodput"), Some(0.25));
        let miss = report.waits_of_misses;
        assert!(
            miss.picker_queue > 0.15 && miss.batch > miss.picker_queue && miss.kv_cache == 0.0,
            "{miss:?}"
        );
    }

    #[test]
    fn a_series_keeps_its_length_however_long_the_trace_is() {
        let mut points = Points::default();
        for second in 0..100_000 {
            points.at(second * 1_000_000_000).arrivals += 1;
        }
        let series = points.series();
        assert!(series.arrivals.len() <= MAX_POINTS && series.arrivals.len() > MAX_POINTS / 2);
        assert!((series.arrivals[10] - 1.0).abs() < 0.05);
    }

    #[test]
    fn skew_is_the_relative_standard_deviation() {
        assert!((skew(&[1, 3]) - 0.5).abs() < 1e-9);
        assert!(skew(&[]).abs() < 1e-9);
    }
}
