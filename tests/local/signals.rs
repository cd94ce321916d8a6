//! The end of `up`, by signals and otherwise.

use std::fs;

use tempfile::TempDir;

use crate::{
    local_cluster::{LocalCluster, example, longboat},
    processes,
    program::Running,
    wait::until,
};

/// Waits until all processes with the node's id and all temporary files are gone.
fn gone(node: &str, folder: &TempDir) {
    until("the end of every process", || processes::with_variable(node).is_empty());
    until("the end of every temporary file", || fs::read_dir(folder.path()).unwrap().count() == 0);
}

fn ends_cleanly(signal: &str) {
    let LocalCluster { running, folder, kubeconfig, .. } =
        LocalCluster::start(&[example().to_str().unwrap()]);
    assert!(kubeconfig.starts_with(folder.path()), "{}", kubeconfig.display());
    let node = until("a child of `up`", || processes::node_id(running.pid()));
    processes::signal(signal, running.pid());
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    assert_eq!(processes::with_variable(&node), Vec::<u32>::new(), "nothing may outlive `up` that had time");
    gone(&node, &folder);
}

#[test]
fn sigterm_stops_everything() {
    ends_cleanly("TERM");
}

#[test]
fn ctrl_c_stops_everything() {
    ends_cleanly("INT");
}

#[test]
fn a_signal_ends_a_process_whose_standard_input_stays_open() {
    for arguments in [&["up", "-"][..], &["run", "smollm2-135m"]] {
        let folder = TempDir::new().unwrap();
        let (input, _open) = std::io::pipe().unwrap();
        let running =
            Running::start(longboat(arguments[0], folder.path()).args(&arguments[1..]).stdin(input));
        until("the handler of signals", || processes::handles_sigterm(running.pid()));
        processes::signal("TERM", running.pid());
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {ended:#?}");
    }
}

/// A Deployment whose container ignores SIGTERM.
const STUBBORN: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: stubborn}
spec:
  selector: {matchLabels: {app: stubborn}}
  template:
    metadata: {labels: {app: stubborn}}
    spec:
      containers:
      - name: main
        image: busybox
        command: [sh, -c, "trap '' TERM INT HUP; while :; do sleep 1; done"]
"#;

#[test]
fn a_child_that_ignores_sigterm_does_not_keep_up_from_ending() {
    let elsewhere = TempDir::new().unwrap();
    let file = elsewhere.path().join("stubborn.yaml");
    fs::write(&file, STUBBORN).unwrap();
    let world = LocalCluster::start(&[example().to_str().unwrap(), file.to_str().unwrap()]);
    let node = world.node_id();
    until("the stubborn child", || {
        let all = processes::with_variable(&node);
        all.into_iter().find(|pid| processes::command_line(*pid).contains("trap"))
    });
    let LocalCluster { running, folder, .. } = world;
    processes::signal("TERM", running.pid());
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    gone(&node, &folder);
}

#[test]
fn children_and_files_do_not_outlive_an_up_that_was_killed() {
    let LocalCluster { running, folder, .. } = LocalCluster::start(&[example().to_str().unwrap()]);
    let node = until("a child of `up`", || processes::node_id(running.pid()));
    processes::signal("KILL", running.pid());
    assert_eq!(running.end().status.code(), None);
    gone(&node, &folder);
}
