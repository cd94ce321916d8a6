//! `latency-observer-producer-hub`: measures the time to the first token of streamed responses, and how many requests were in
//! flight at the endpoint when the request was sent. `latency-observation-scorer-hub` predicts from it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{numbers::millis, prelude::*, producer::FirstToken};

/// The plugin type, and the name of the default observer.
pub(crate) const LATENCY_OBSERVER: &str = "latency-observer-producer-hub";

/// The largest `windowSize` and `bucketHistorySize`. An observation takes 24 bytes, so an endpoint takes less than 3 MiB.
const MAX_KEPT: usize = 100_000;
/// The percentile that counts as the time without load.
const FLOOR_PERCENTILE: f64 = 0.1;
/// Half of the width of the band of percentiles over which the load at a percentile is averaged.
const BAND: f64 = 0.1;

parameters! {
    struct RawParameters {
        interval_duration: String = "1s".to_owned(),
        max_observation_age: String = "3m".to_owned(),
        max_requests: usize = 100,
        min_requests: usize = 10,
        low_percentile: u32 = 25,
        typical_percentile: u32 = 50,
        window_size: usize = 5000,
        bucket_duration: String = "1m".to_owned(),
        bucket_history_size: usize = 1000,
        in_flight_load_producer_name: Option<String>,
    }
}

/// How an observer measures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatencyObserver {
    /// How old a curve may be, in milliseconds.
    interval: u64,
    /// How old and how many the observations are that count as recent.
    max_age: u64,
    max_requests: usize,
    /// How many observations make a curve trustworthy.
    min_requests: usize,
    low_percentile: f64,
    typical_percentile: f64,
    /// How many observations of an endpoint are kept.
    window: usize,
    /// The time of which the best observations become one entry of the history, in milliseconds.
    bucket: u64,
    /// How many entries the history has.
    history: usize,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let observer = LatencyObserver::new(parameters, &raw)?;
    if let Some(load) = raw.in_flight_load_producer_name {
        builder.wanted_loads.push((parameters.name.to_owned(), load));
    }
    builder.add(parameters, observer);
    Ok(Plugin::default())
}

/// Returns the place of the observer that a plugin reads: the named one, or else the first one. A default observer is created if
/// none is declared.
pub(crate) fn place(
    builder: &mut Builder,
    parameters: &Parameters<'_>,
    observer: Option<&str>,
) -> Result<usize, ConfigError> {
    let reference = ("ttftPercentilesProducerName", "a declared latency-observer-producer-hub");
    let found =
        builder.place(parameters, reference, observer, LATENCY_OBSERVER, |_: &LatencyObserver| true)?;
    let parameters = Parameters::undeclared(LATENCY_OBSERVER);
    let usual = LatencyObserver::new(&parameters, &RawParameters::default())?;
    Ok(found.unwrap_or_else(|| builder.add(&parameters, usual)))
}

impl LatencyObserver {
    fn new(parameters: &Parameters<'_>, raw: &RawParameters) -> Result<Self, ConfigError> {
        // A time below a millisecond counts as one, because the clock of decisions has no shorter ones.
        let time = |field: &str, text: &str| parameters.duration(field, text).map(|time| millis(time).max(1));
        for (field, value, min) in [
            ("windowSize", raw.window_size, 1),
            ("maxRequests", raw.max_requests, 1),
            ("minRequests", raw.min_requests, 1),
            ("bucketHistorySize", raw.bucket_history_size, 2),
        ] {
            parameters.require(
                (min..=MAX_KEPT).contains(&value),
                field,
                format!("expected a number from {min} to {MAX_KEPT}, found {value}"),
            )?;
        }
        let RawParameters { window_size, max_requests, low_percentile, typical_percentile, .. } = *raw;
        parameters.require(
            max_requests <= window_size,
            "maxRequests",
            format!("expected at most windowSize, which is {window_size}, found {max_requests}"),
        )?;
        parameters.require(0 < low_percentile && low_percentile < typical_percentile && typical_percentile < 100, "", format!(
                "expected 0 < lowPercentile < typicalPercentile < 100, found {low_percentile} and {typical_percentile}"
            ))?;
        Ok(Self {
            interval: time("intervalDuration", &raw.interval_duration)?,
            max_age: time("maxObservationAge", &raw.max_observation_age)?,
            max_requests,
            min_requests: raw.min_requests,
            low_percentile: f64::from(low_percentile) / 100.0,
            typical_percentile: f64::from(typical_percentile) / 100.0,
            window: window_size,
            bucket: time("bucketDuration", &raw.bucket_duration)?,
            history: raw.bucket_history_size,
        })
    }
}

impl Producer for LatencyObserver {
    fn state(&self) -> Box<dyn ProducerState> {
        Box::new(LatencyObservations { observer: *self, endpoints: BTreeMap::new() })
    }
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CurvePoint {
    /// Requests in flight.
    pub(crate) load: f64,
    /// Seconds to the first token.
    pub(crate) ttft: f64,
}

/// The time to the first token at an endpoint, by the number of requests in flight there.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LatencyCurve {
    /// Seconds without load. `None` while too few requests were observed.
    pub(crate) floor: Option<f64>,
    pub(crate) low: CurvePoint,
    pub(crate) typical: CurvePoint,
    /// Whether enough requests were observed lately for the two points.
    pub(crate) is_calibrated: bool,
}

/// What an observer has seen.
#[derive(Debug, Clone)]
pub(crate) struct LatencyObservations {
    observer: LatencyObserver,
    endpoints: BTreeMap<Slot, ObservedEndpoint>,
}

#[derive(Debug, Clone, Copy)]
struct Observation {
    at: u64,
    ttft: f64,
    load: u64,
}

#[derive(Debug, Clone)]
struct ObservedEndpoint {
    /// The last observations, oldest first.
    window: VecDeque<Observation>,
    /// The number of all observations.
    count: usize,
    bucket_start: u64,
    /// The floors of past buckets, in ascending order. When it is full, the slowest one is dropped and not the oldest, so a slow
    /// time does not stay.
    history: Vec<f64>,
    /// The curve and when it was computed.
    curve: (u64, LatencyCurve),
}

impl LatencyObservations {
    /// Returns the curve of an endpoint.
    pub(crate) fn curve(&self, slot: Slot, now: u64) -> LatencyCurve {
        self.endpoints.get(&slot).map(|endpoint| endpoint.curve(&self.observer, now).1).unwrap_or_default()
    }
}

impl ProducerState for LatencyObservations {
    fn learn(&mut self, _: &Finding, decision: &Decision) {
        let now = decision.now;
        for endpoint in self.endpoints.values_mut() {
            endpoint.close_bucket(&self.observer, now);
            endpoint.curve = endpoint.curve(&self.observer, now);
        }
    }

    fn observe(&mut self, &FirstToken { slot, ahead, sent, now }: &FirstToken) {
        let Self { observer, endpoints } = self;
        let endpoint = endpoints.entry(slot).or_insert_with(|| ObservedEndpoint {
            window: VecDeque::new(),
            count: 0,
            bucket_start: now,
            history: Vec::new(),
            // So old that it is computed at the next question.
            curve: (0, LatencyCurve::default()),
        });
        // The bucket is closed before this observation, which may be one of the next bucket.
        endpoint.close_bucket(observer, now);
        if endpoint.window.len() == observer.window {
            endpoint.window.pop_front();
        }
        // The clock has no shorter time than a millisecond, and a floor of 0 would say that nothing is known.
        let after = Duration::from_millis(now.saturating_sub(sent).max(1));
        endpoint.window.push_back(Observation { at: now, ttft: after.as_secs_f64(), load: ahead });
        endpoint.count += 1;
    }

    fn forget(&mut self, slot: Slot) {
        self.endpoints.remove(&slot);
    }

    fn describe(&self, endpoints: &Listing<'_>) -> Option<Value> {
        let one = |slot| {
            let (observations, curve) =
                self.endpoints.get(&slot).map_or_else(Default::default, |known| (known.count, known.curve.1));
            json!({
                "observations": observations,
                "floorSeconds": curve.floor,
                "lowLoadSeconds": curve.low.ttft,
                "typicalLoadSeconds": curve.typical.ttft,
                "calibrated": curve.is_calibrated,
            })
        };
        Some(Value::Object(endpoints.counts(one)))
    }
}

impl ObservedEndpoint {
    /// Returns the curve and when it was computed: the last one, or a new one if the last one is too old.
    fn curve(&self, observer: &LatencyObserver, now: u64) -> (u64, LatencyCurve) {
        if self.curve.0 > 0 && now.saturating_sub(self.curve.0) < observer.interval {
            return self.curve;
        }
        let recent = self.fastest_first(now, observer.max_age, observer.max_requests);
        let point = |share: f64| CurvePoint {
            load: load_around(&recent, share),
            ttft: percentile(&recent, share, |observation| observation.ttft),
        };
        // Buckets last for the long term: a calibrated endpoint keeps its floor while nobody asks it.
        let floor = match percentile(&self.history, FLOOR_PERCENTILE, |floor| *floor) {
            0.0 => percentile(&recent, FLOOR_PERCENTILE, |observation| observation.ttft),
            floor => floor,
        };
        let floor = (self.count >= observer.min_requests && floor > 0.0).then_some(floor);
        let (low, typical) = (point(observer.low_percentile), point(observer.typical_percentile));
        let is_calibrated = recent.len() >= observer.min_requests
            && typical.load > 0.0
            && floor.is_some_and(|floor| typical.ttft > floor);
        (now, LatencyCurve { floor, low, typical, is_calibrated })
    }

    /// Closes the bucket if its time is over.
    fn close_bucket(&mut self, observer: &LatencyObserver, now: u64) {
        let buckets = now.saturating_sub(self.bucket_start) / observer.bucket;
        if buckets == 0 {
            return;
        }
        let end = self.bucket_start + observer.bucket;
        // Nothing was observed since the end of the bucket: observations close it.
        let bucket = self.fastest_first(end, observer.bucket, usize::MAX);
        if !bucket.is_empty() {
            let floor = percentile(&bucket, FLOOR_PERCENTILE, |observation| observation.ttft);
            let place = self.history.partition_point(|known| *known <= floor);
            self.history.insert(place, floor);
            self.history.truncate(observer.history);
        }
        self.bucket_start += buckets * observer.bucket;
    }

    /// Returns the observations that are at most `age` milliseconds older than `now`, of these at most `limit`, the newest ones,
    /// sorted by their times to the first token.
    fn fastest_first(&self, now: u64, age: u64, limit: usize) -> Vec<Observation> {
        let since = now.saturating_sub(age);
        let newest = self.window.iter().rev().take_while(|observation| observation.at >= since).take(limit);
        let mut sorted: Vec<_> = newest.copied().collect();
        sorted.sort_by(|left, right| left.ttft.total_cmp(&right.ttft));
        sorted
    }
}

/// Returns a percentile of a sorted list, as a share, interpolated between the two nearest entries; 0 for an empty list.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the lists have at most 100,000 entries, and shares are from 0 to 1"
)]
fn percentile<T>(sorted: &[T], share: f64, value: impl Fn(&T) -> f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let below = place as usize;
    match (sorted.get(below).map(&value), sorted.get(below + 1).map(&value)) {
        (Some(low), Some(high)) => low + (place - below as f64) * (high - low),
        (low, _) => low.unwrap_or_default(),
    }
}

/// Returns the mean load of the observations around a percentile. A single observation would be noise.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the lists have at most 100,000 entries; a cast of a number below 0 is 0"
)]
fn load_around(sorted: &[Observation], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let from = ((share - BAND) * last as f64) as usize;
    let to = (((share + BAND) * last as f64) as usize).min(last);
    let band = &sorted[from..=to];
    band.iter().map(|observation| observation.load as f64).sum::<f64>() / band.len() as f64
}
