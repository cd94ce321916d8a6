//! Tests of a node that is asked to shut down.

use std::time::{Duration, Instant};

use longboat_node::Node;
use serde_json::json;

use crate::test_node::{TestNode, eventually, is_alive, number_in, options};

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_everything_in_time_without_hooks() {
    let mut world = TestNode::with(|options| options.remove_state_dir = true).await;
    let (polite, stubborn, daemon, hook) =
        (world.file("polite"), world.file("stubborn"), world.file("daemon"), world.file("hook"));
    let command = |script: String| json!(["bash", "-c", script]);
    world
        .pod("polite", json!({"containers": [{"name": "main",
            "command": command(format!("echo $$$$ > {}; exec sleep 1000", polite.display())),
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", format!("date > {}; sleep 1000", hook.display())]}}}}]}))
        .await;
    world
        .pod("stubborn", json!({"containers": [{"name": "main",
            "command": command(format!("trap '' TERM; echo $$$$ > {}; while :; do sleep 1; done", stubborn.display()))}]}))
        .await;
    // This process leaves the container's process group.
    world
        .pod("daemon", json!({"containers": [{"name": "main",
            "command": command(format!("setsid sh -c 'echo $$$$ > {}; exec sleep 1000' & exec sleep 1000", daemon.display()))}]}))
        .await;
    let mut pids = Vec::new();
    for file in [&polite, &stubborn, &daemon] {
        pids.push(number_in(file).await);
    }
    for pod in ["polite", "stubborn", "daemon"] {
        world.until_ready(pod).await;
    }
    let began = Instant::now();
    world.stop_node(Duration::from_millis(500)).await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    for pid in &pids {
        assert!(!is_alive(*pid) || cfg!(not(target_os = "linux")), "{pid} of {pids:?}");
    }
    assert!(!hook.exists(), "hooks are skipped");
    assert!(!world.file("state").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_start_leaves_no_folder_behind() {
    let world = TestNode::start().await;
    let mut options = options(world.dir.path());
    options.state_dir = world.file("two words");
    std::fs::create_dir(&options.state_dir).unwrap();
    // The name of a folder that the node creates.
    std::fs::write(options.state_dir.join("claims"), "").unwrap();
    let state = options.state_dir.clone();
    assert!(Node::start(world.client.clone(), options).await.is_err());
    eventually("the link to the state folder is removed", || {
        let mut entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        !entries.any(|entry| entry.path().join("state").read_link().is_ok_and(|target| target == state))
    })
    .await;
    world.end().await;
}
