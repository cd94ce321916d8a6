//! Two controllers at once, as if an old one came back after its replacement had started, and watches that deliver events
//! late, twice, in another order, or not at all.

use longboat_testkit::{Faults, Watching};

use super::{
    all,
    scene::{Trial, stage, started},
    topology::Topology,
};

const HOW: [Watching; 5] =
    [Watching::Delayed, Watching::Lost, Watching::Cut, Watching::Twice, Watching::Swapped];

#[tokio::test(start_paused = true)]
async fn with_two_controllers_and_however_events_come_it_gets_to_the_same_end() {
    let world = stage().await;
    let topologies = Topology::all();
    let mut calm = Vec::new();
    let mut running = started(&world, Faults::default()).await;
    for topology in &topologies {
        calm.push(Trial::new(&world, topology, "trial-calm", "calm").run(&mut running).await);
    }
    let other = started(&world, Faults::default()).await;
    for (topology, calm) in topologies.iter().zip(&calm) {
        let trial = Trial::new(&world, topology, "trial-both", "two controllers");
        trial.run(&mut running).await.assert_like(calm, &trial.what);
    }
    other.stop().await;
    running.stop().await;

    let mut wrong = Vec::new();
    for (turn, how) in HOW.into_iter().enumerate() {
        let faults = Faults::default();
        faults.watch(how);
        let mut running = started(&world, faults).await;
        for (at, (topology, calm)) in topologies.iter().zip(&calm).enumerate() {
            // By default, each shape is tested with one of them.
            if all() || (at + turn).is_multiple_of(HOW.len()) {
                let trial = Trial::new(&world, topology, "trial-watch", format!("{how:?} events"));
                wrong.extend(trial.run(&mut running).await.unlike(calm, &trial.what));
            }
        }
        running.stop().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
