//! Compares the controller with the recordings of the reference (`crates/golden`): children, status, certificates and events,
//! stage by stage, on the embedded API server.
//!
//! By default, the cases run that need more than planning, and some of the others (`crates/plan/src/tests` runs those in
//! seconds). With `LONGBOAT_CASE=all`, or if only `CI` is set, all cases run, and with other texts, separated by commas, the
//! cases whose names start with one of them.
//!
//! `crates/admission/tests/golden` compares what was refused, warned about and stored. Time is virtual. All cases share one
//! world and one controller. If a case needs other settings, or a server without some APIs, these change while the case runs.

mod events;
mod look;
mod platform;
mod ready;
pub(crate) mod run;

use longboat_golden::{Case, Difference, IntendedDifferences, Report};

/// By default, one in this many of the cases that need only planning also runs here.
const SAMPLE: usize = 8;

#[tokio::test(start_paused = true)]
async fn services_become_what_the_reference_makes_of_them() {
    let recordings = longboat_golden::golden();
    let meant = IntendedDifferences::of_the_controller();
    let only = std::env::var("LONGBOAT_CASE").ok();
    // A sample would let a rare difference through.
    let all = only.as_ref().map_or_else(|| std::env::var_os("CI").is_some(), |only| only == "all");
    let mut report = Report::default();
    let world = platform::world(&recordings).await;
    let running = platform::controller(&world).await;
    for (at, folder) in longboat_golden::folders(&recordings).iter().enumerate() {
        let case = Case::read(folder);
        let named = only.as_ref().map(|only| only.split(',').any(|start| case.name.starts_with(start)));
        if !all && !named.unwrap_or_else(|| at % SAMPLE == 0 || case.needs_a_server().is_some()) {
            continue;
        }
        platform::set_up_case(&world, &recordings, &case).await;
        let differences = run::case(&world, &recordings, &case).await;
        run::forget(&world, &recordings, &case).await;
        platform::tear_down_case(&world, &recordings, &case).await;
        report.add(&case.name, differences, &meant);
    }
    running.stop().await;
    report.print();
    assert_eq!(report.unexplained(), 0, "differences without a reason");
    if all {
        assert_eq!(meant.unused(), Vec::<&str>::new(), "reasons of crates/golden that excuse nothing");
    }
}

/// Creates a difference at a place of a stage.
fn difference(place: String, recorded: impl Into<String>, ours: impl Into<String>) -> Difference {
    Difference { place, recorded: recorded.into(), ours: ours.into() }
}
