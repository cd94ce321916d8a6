//! A write that fails, or whose response is lost.

use longboat_testkit::{Fault, Faults};

use super::{
    all,
    scene::{Trial, stage, started},
    topology::Topology,
};

/// By default, each fault affects one write in this many. Four faults together affect one in a quarter of that, and different
/// writes in each shape.
const STRIDE: u64 = 12;

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_or_refused_by_conflict_it_gets_to_the_same_end() {
    survives([Fault::Crash, Fault::Conflict], 0).await;
}

#[tokio::test(start_paused = true)]
async fn errors_and_answers_that_get_lost_or_never_come_lead_to_the_same_end() {
    survives([Fault::Error, Fault::Timeout, Fault::Silence], 2).await;
}

async fn survives<const N: usize>(faults: [Fault; N], offset: u64) {
    let world = stage().await;
    let mut running = started(&world, Faults::default()).await;
    for (at, topology) in Topology::all().iter().enumerate() {
        let begun = running.faults.log().len();
        let calm = Trial::new(&world, topology, "trial-0000", "no fault").run(&mut running).await;
        calm.assert_ready(topology);
        let log = running.faults.log();
        let writes = log[begun..].iter().filter(|write| !write.path.contains("/events")).count() as u64;
        assert!(topology.is_stopped() || writes > 4, "{}: {writes} writes", topology.name);
        for (fault, turn) in faults.into_iter().zip(offset..) {
            for nth in 1..=writes {
                if !all() && !(nth * 4 + 5 * at as u64 + turn * 3).is_multiple_of(STRIDE) {
                    continue;
                }
                let what = format!("{fault:?} at write {nth} of {writes}");
                let trial = Trial::new(&world, topology, format!("trial-{nth:04}"), &what);
                running.faults.plan(nth, fault);
                let seen = trial.run(&mut running).await;
                seen.assert_like(&calm, &trial.what);
            }
        }
    }
    running.stop().await;
}
