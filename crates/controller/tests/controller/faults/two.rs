//! Two controllers at once, as if an old one came back after its replacement had started.

use longboat_testkit::Faults;

use super::{
    scene::{Trial, stage, started},
    topology::Topology,
};

#[tokio::test(start_paused = true)]
async fn two_controllers_at_once_get_to_the_same_end_and_come_to_rest() {
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
}
