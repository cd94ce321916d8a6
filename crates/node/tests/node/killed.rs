//! Tests of a node that is killed.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::test_node::{TestNode, eventually, is_alive, number_in};

/// Runs a node with one pod until it is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test below, in a process of its own"]
async fn a_node_with_a_pod() {
    let dir = std::path::PathBuf::from(std::env::var_os("KILLED_TEST_DIR").unwrap());
    let state = dir.join("state");
    let world = TestNode::with(|options| {
        options.state_dir.clone_from(&state);
        options.remove_state_dir = true;
    })
    .await;
    let script = format!(
        "trap '' TERM; (trap '' TERM HUP; exec sleep 1000) & echo $! > {dir}/child; echo $$$$ > {dir}/main; wait; sleep 1000",
        dir = dir.display()
    );
    world.pod("p", json!({"containers": [{"name": "main", "command": ["bash", "-c", script]}]})).await;
    world.until_ready("p").await;
    std::fs::write(dir.join("up"), "1\n").unwrap();
    tokio::time::sleep(Duration::from_mins(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_a_node_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    // `$$` in a manifest is a literal `$`, so the scripts above write it twice.
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["killed::a_node_with_a_pod", "--exact", "--ignored"])
        .env("KILLED_TEST_DIR", dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    number_in(&dir.path().join("up")).await;
    let pids = [number_in(&dir.path().join("main")).await, number_in(&dir.path().join("child")).await];
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    assert!(dir.path().join("state").exists());
    node.kill().unwrap();
    node.wait().unwrap();
    eventually("the pod's processes end", || pids.iter().all(|pid| !is_alive(*pid))).await;
    eventually("the state directory is removed", || !dir.path().join("state").exists()).await;
}
