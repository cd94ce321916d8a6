//! The saturation of a pool, as the configured detector measures it.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    detector::{ConcurrencyMode, Detector, StagedDetector},
    settings::Settings,
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

// === impl Settings ===

impl Settings {
    /// Returns the saturation of a pool. The pool is full at 1 and above, and a pool without endpoints counts as full.
    /// `admitted` is the number of requests that go to an endpoint which is not chosen yet.
    pub fn saturation<M: PoolMember>(
        &self,
        state: &State,
        members: &[&M],
        admitted: &dyn Fn() -> u64,
    ) -> f64 {
        match &self.detector {
            // As in llm-d, only flow control looks at the stages.
            leaf @ (Detector::Utilization { .. } | Detector::Concurrency { .. }) if !self.enabled => {
                leaf.measure(state, members, admitted)
            }
            detector => detector.effective(state, members, admitted),
        }
    }
}

// === impl Detector ===

impl Detector {
    /// Returns the saturation of the fuller stage.
    fn effective<M: PoolMember>(&self, state: &State, members: &[&M], admitted: &dyn Fn() -> u64) -> f64 {
        let stages = self.stages(state, members, admitted);
        if stages.is_empty() {
            return self.measure(state, members, admitted);
        }
        fullest(stages.into_iter().map(|(_, saturation)| saturation))
    }

    /// Returns the saturation of each stage that has endpoints. An endpoint of both stages counts in both.
    pub fn stages<M: PoolMember>(
        &self,
        state: &State,
        members: &[&M],
        admitted: &dyn Fn() -> u64,
    ) -> Vec<(Stage, f64)> {
        let is_divided = is_divided(members);
        let measure = |stage| {
            let of_stage = serving(stage, members);
            let saturation = match self {
                _ if of_stage.is_empty() => return None,
                // A stage that no detector judges never fills up.
                Self::Max(several) => fullest(
                    several
                        .iter()
                        .filter(|one| !is_divided || one.stages.contains(&stage))
                        .map(|one| one.detector.measure(state, &of_stage, admitted)),
                ),
                leaf => leaf.measure(state, &of_stage, admitted),
            };
            Some((stage, saturation))
        };
        Stage::ALL.into_iter().filter_map(measure).collect()
    }

    /// Returns what each of several detectors measures. Empty if there is only one.
    pub fn readings<'d, M: PoolMember>(
        &'d self,
        state: &State,
        members: &[&M],
        admitted: &dyn Fn() -> u64,
    ) -> Vec<Reading<'d>> {
        let Self::Max(several) = self else { return Vec::new() };
        let reading = |one: &'d StagedDetector, stage, members: &[&M]| Reading {
            detector: &one.name,
            stage,
            saturation: one.detector.measure(state, members, admitted),
        };
        if !is_divided(members) {
            return several.iter().map(|one| reading(one, UNDIVIDED, members)).collect();
        }
        let of_stage = |stage: Stage| {
            let of_stage = serving(stage, members);
            let judges = several.iter().filter(move |one| one.stages.contains(&stage));
            judges.map(move |one| reading(one, stage.name(), &of_stage)).collect::<Vec<_>>()
        };
        Stage::ALL.into_iter().flat_map(of_stage).collect()
    }

    /// Returns the saturation of these endpoints.
    fn measure<M: PoolMember>(&self, state: &State, members: &[&M], admitted: &dyn Fn() -> u64) -> f64 {
        let count = float(members.len() as u64);
        if members.is_empty() {
            return 1.0;
        }
        match *self {
            Self::Max(ref several) => {
                fullest(several.iter().map(|one| one.detector.measure(state, members, admitted)))
            }
            Self::Utilization { queue_depth, kv_usage, stale_after_ms } => {
                let full =
                    |metrics: Arc<Metrics>| (metrics.waiting / queue_depth).max(metrics.kv_usage / kv_usage);
                // A share may be more than 1, as in llm-d: a long queue at one endpoint can fill the pool.
                let shares = members.iter().map(|member| member.metrics(stale_after_ms).map_or(1.0, full));
                shares.sum::<f64>() / count
            }
            Self::Concurrency { requests, tokens, mode } => {
                let loads = members.iter().map(|member| state.in_flight(member.slot()));
                let (requests, tokens) = (float(requests), float(tokens));
                // Sums are divided once, so that a full pool is exactly 1.
                let full = match mode {
                    ConcurrencyMode::Requests => {
                        float(loads.map(|load| load.0).sum::<u64>() + admitted()) / requests
                    }
                    ConcurrencyMode::Tokens => float(loads.map(|load| load.1).sum()) / tokens,
                    ConcurrencyMode::Hybrid => {
                        let fuller =
                            |load: (u64, u64)| (float(load.0) / requests).max(float(load.1) / tokens);
                        loads.map(fuller).sum::<f64>() + float(admitted()) / requests
                    }
                };
                full / count
            }
        }
    }
}

fn fullest(saturations: impl Iterator<Item = f64>) -> f64 {
    saturations.fold(0.0, f64::max)
}

/// Whether some endpoints do not decode.
fn is_divided<M: PoolMember>(members: &[&M]) -> bool {
    serving(Stage::Decode, members).len() < members.len()
}

fn serving<'m, M: PoolMember>(stage: Stage, members: &[&'m M]) -> Vec<&'m M> {
    members.iter().copied().filter(|member| role::serves(member.labels(), stage)).collect()
}

/// The share of a capacity that is used. One of 0 is always used up.
pub(super) fn share(used: u64, capacity: f64) -> f64 {
    if capacity > 0.0 { float(used) / capacity } else { 1.0 }
}
