//! The saturation of a pool, as the configured detector measures it.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    detector::{ConcurrencyMode, Detector, StagedDetector},
    stage::Stage,
};
use crate::{
    endpoint::{Metrics, Slot},
    filters::role,
    numbers::float,
    state::State,
};

/// The stage of a pool whose endpoints all take part in every stage, in metrics.
const UNDIVIDED: &str = "effective";

/// An endpoint of the pool.
pub trait PoolMember {
    /// Its slot.
    fn slot(&self) -> Slot;

    /// Its labels.
    fn labels(&self) -> &BTreeMap<String, String>;

    /// Returns its metrics, unless they are older than this many milliseconds.
    fn metrics(&self, stale_after_ms: u64) -> Option<Arc<Metrics>>;
}

/// What one of several detectors measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading<'d> {
    /// The detector's name.
    pub detector: &'d str,
    /// The stage that it judges.
    pub stage: &'static str,
    /// The saturation of the stage's endpoints.
    pub saturation: f64,
}

// === impl Detector ===

impl Detector {
    /// Returns the saturation of a pool. The pool is full at 1 and above, and a pool without endpoints counts as full.
    /// `admitted` is the number of requests that go to an endpoint which is not chosen yet.
    pub fn saturation<'m, M: PoolMember + 'm>(
        &self,
        state: &State,
        members: impl Iterator<Item = &'m M>,
        admitted: &dyn Fn() -> u64,
    ) -> f64 {
        let members: Vec<&M> = members.collect();
        match self {
            // A pool without endpoints is full, and `measure` says so. Of its stages, none would be.
            Self::Max(several) if !members.is_empty() => {
                let readings = of_stages(several, state, &members, admitted);
                // A stage that no detector judges never fills up.
                readings.iter().map(|reading| reading.saturation).fold(0.0, f64::max)
            }
            leaf => leaf.measure(state, &members, admitted),
        }
    }

    /// Returns what each of several detectors measures. Empty if there is only one.
    pub fn readings<'m, M: PoolMember + 'm>(
        &self,
        state: &State,
        members: impl Iterator<Item = &'m M>,
        admitted: &dyn Fn() -> u64,
    ) -> Vec<Reading<'_>> {
        match self {
            Self::Max(several) => of_stages(several, state, &members.collect::<Vec<_>>(), admitted),
            _ => Vec::new(),
        }
    }

    /// Returns the saturation of these endpoints.
    fn measure<M: PoolMember>(&self, state: &State, members: &[&M], admitted: &dyn Fn() -> u64) -> f64 {
        let count = float(members.len() as u64);
        if members.is_empty() {
            return 1.0;
        }
        match *self {
            // Detectors of several name none of several.
            Self::Max(_) => 0.0,
            Self::Utilization { queue_depth, kv_usage, stale_after_ms } => {
                let full =
                    |metrics: Arc<Metrics>| (metrics.waiting / queue_depth).max(metrics.kv_usage / kv_usage);
                // A share may be more than 1, as in llm-d: a long queue at one endpoint can fill the pool.
                let shares = members.iter().map(|member| member.metrics(stale_after_ms).map_or(1.0, full));
                shares.sum::<f64>() / count
            }
            Self::Concurrency { requests, tokens, mode } => {
                let loads = members.iter().map(|member| state.in_flight(member.slot()));
                let (sum, sum_tokens) = loads.fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
                let by_requests = share(sum + admitted(), count * float(requests));
                let by_tokens = share(sum_tokens, count * float(tokens));
                match mode {
                    ConcurrencyMode::Requests => by_requests,
                    ConcurrencyMode::Tokens => by_tokens,
                    ConcurrencyMode::Hybrid => by_requests.max(by_tokens),
                }
            }
        }
    }
}

fn of_stages<'d, M: PoolMember>(
    several: &'d [StagedDetector],
    state: &State,
    members: &[&M],
    admitted: &dyn Fn() -> u64,
) -> Vec<Reading<'d>> {
    let serves = |stage: Stage, member: &M| role::serves(member.labels(), stage);
    // Endpoints that only prefill divide the pool.
    let is_divided = members.iter().any(|member| !serves(Stage::Decode, member));
    let reading = |one: &'d StagedDetector, stage, members: &[&M]| Reading {
        detector: &one.name,
        stage,
        saturation: one.detector.measure(state, members, admitted),
    };
    if !is_divided {
        return several.iter().map(|one| reading(one, UNDIVIDED, members)).collect();
    }
    let of_stage = |stage: Stage| {
        let members: Vec<_> = members.iter().filter(|member| serves(stage, member)).copied().collect();
        let judges = several.iter().filter(move |one| one.stages.contains(&stage));
        judges.map(move |one| reading(one, stage.name(), &members)).collect::<Vec<_>>()
    };
    Stage::ALL.into_iter().flat_map(of_stage).collect()
}

/// The share of a capacity that is used. One of 0 is always used up.
pub(super) fn share(used: u64, capacity: f64) -> f64 {
    if capacity > 0.0 { float(used) / capacity } else { 1.0 }
}
