//! The end of `up`, however it comes.

use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

use tempfile::TempDir;

use crate::{
    processes,
    wait::until,
    world::{Running, World, example, turn, up},
};

/// Everything with the node's id and every temporary file must be gone, at once or a little later.
fn gone(node: &str, folder: &TempDir) {
    until("the end of every process", || processes::with_variable(node).is_empty().then_some(()));
    until("the end of every temporary file", || {
        (fs::read_dir(folder.path()).unwrap().count() == 0).then_some(())
    });
}

fn ends_cleanly(signal: &str) {
    let World { running, folder, kubeconfig, .. } = World::start(&[example().to_str().unwrap()]);
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
    let _turn = turn();
    ends_cleanly("TERM");
}

#[test]
fn ctrl_c_stops_everything() {
    let _turn = turn();
    ends_cleanly("INT");
}

#[test]
fn an_engine_that_ignores_sigterm_does_not_keep_up_from_ending() {
    let _turn = turn();
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let engine = elsewhere.path().join("stubborn");
    fs::write(&engine, "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 1; done\n").unwrap();
    fs::set_permissions(&engine, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = up(folder.path());
    command.arg(example()).args(["--port", "0", "--engine", engine.to_str().unwrap()]).stdin(Stdio::null());
    let running = Running::start(&mut command);
    let node = until("a child of `up`", || processes::node_id(running.pid()));
    until("the engine", || {
        let all = processes::with_variable(&node);
        all.into_iter().find(|pid| processes::command_line(*pid).contains("stubborn"))
    });
    processes::signal("TERM", running.pid());
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    gone(&node, &folder);
}

#[test]
fn children_and_files_do_not_outlive_an_up_that_was_killed() {
    let _turn = turn();
    let World { running, folder, .. } = World::start(&[example().to_str().unwrap()]);
    let node = until("a child of `up`", || processes::node_id(running.pid()));
    processes::signal("KILL", running.pid());
    assert_eq!(running.end().status.code(), None);
    gone(&node, &folder);
}
