//! The saturation of the pool, as the configured detector measures it.

use std::{sync::Arc, time::Duration};

use longboat_scheduler::flow::{ConcurrencyMode, Detector, Stage, StagedDetector};
use tokio::time::Instant;

use crate::{core::Core, pool::Member};

/// The stage of a pool whose endpoints all take part in every stage, in metrics.
const UNDIVIDED: &str = "effective";

/// What one of several detectors measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading<'d> {
    /// The detector's name.
    pub(crate) detector: &'d str,
    pub(crate) stage: &'static str,
    pub(crate) saturation: f64,
}

/// The number of requests that go to an endpoint which is not chosen yet.
pub(crate) type Admitted<'a> = &'a dyn Fn() -> u64;

/// Returns the saturation of the pool. The pool is full at 1 and above, and a pool without endpoints counts as full.
pub(crate) fn of_pool(core: &Core, detector: &Detector, admitted: Admitted<'_>) -> f64 {
    let members = core.pool.members();
    match detector {
        Detector::Max(several) if !members.is_empty() => {
            let readings = of_stages(core, several, &members, admitted);
            // A stage that no detector judges never fills up.
            readings.iter().map(|reading| reading.saturation).fold(0.0, f64::max)
        }
        leaf => measure(core, leaf, &members, admitted),
    }
}

/// Returns what each of several detectors measures. Empty if there is only one.
pub(crate) fn readings<'d>(core: &Core, detector: &'d Detector, admitted: Admitted<'_>) -> Vec<Reading<'d>> {
    match detector {
        Detector::Max(several) => of_stages(core, several, &core.pool.members(), admitted),
        _ => Vec::new(),
    }
}

fn of_stages<'d>(
    core: &Core,
    several: &'d [StagedDetector],
    members: &[Arc<Member>],
    admitted: Admitted<'_>,
) -> Vec<Reading<'d>> {
    let serves = |stage: Stage, member: &Member| stage.is_served_by(&member.endpoint.labels);
    // Endpoints that only prefill divide the pool.
    let is_divided = members.iter().any(|member| !serves(Stage::Decode, member));
    let reading = |one: &'d StagedDetector, stage, members: &[Arc<Member>]| Reading {
        detector: &one.name,
        stage,
        saturation: measure(core, &one.detector, members, admitted),
    };
    if !is_divided {
        return several.iter().map(|one| reading(one, UNDIVIDED, members)).collect();
    }
    let of_stage = |stage: Stage| {
        let members: Vec<_> = members.iter().filter(|member| serves(stage, member)).cloned().collect();
        let judges = several.iter().filter(move |one| one.stages.contains(&stage));
        judges.map(move |one| reading(one, stage.name(), &members)).collect::<Vec<_>>()
    };
    Stage::ALL.into_iter().flat_map(of_stage).collect()
}

/// Returns the saturation of these endpoints.
fn measure(core: &Core, detector: &Detector, members: &[Arc<Member>], admitted: Admitted<'_>) -> f64 {
    let count = float(members.len() as u64);
    if members.is_empty() {
        return 1.0;
    }
    match *detector {
        // Detectors of several name none of several.
        Detector::Max(_) => 0.0,
        Detector::Utilization { queue_depth, kv_usage, stale_after_ms } => {
            let (now, limit) = (Instant::now(), Duration::from_millis(stale_after_ms));
            let full = |snapshot: longboat_scheduler::Snapshot| {
                let metrics = &snapshot.metrics;
                let share = (metrics.waiting / queue_depth).max(metrics.kv_usage / kv_usage);
                if snapshot.fresh { share } else { 1.0 }
            };
            members.iter().map(|member| full(member.snapshot(now, Some(limit)))).sum::<f64>() / count
        }
        Detector::Concurrency { requests, tokens, mode } => {
            // The lock stays while the admitted ones are counted: a request that becomes in flight in between would count in
            // neither, and one too many would go on (`tests/interleavings.rs`).
            let state = core.state.read();
            let loads = members.iter().map(|member| state.in_flight(member.endpoint.slot));
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

fn share(used: u64, capacity: f64) -> f64 {
    if capacity > 0.0 { float(used) / capacity } else { 1.0 }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
}
