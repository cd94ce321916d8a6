//! `up … --prompt … --once`.

use std::{fs, net::TcpStream};

use tempfile::TempDir;

use crate::{
    local_cluster::{Running, example, run, up},
    processes, tools,
    wait::until,
};

#[test]
fn a_prompt_is_answered_on_stdout_and_nothing_is_left_behind() {
    let folder = TempDir::new().unwrap();
    let mut command = up(folder.path());
    // Nobody waits for a service that is stopped on purpose.
    let manifests = TempDir::new().unwrap();
    let stopped = manifests.path().join("stopped.yaml");
    let text = fs::read_to_string(example()).unwrap();
    let name = "name: stopped\n  annotations: {serving.kserve.io/stop: \"true\"}";
    fs::write(&stopped, text.replacen("name: qwen", name, 1)).unwrap();
    command.arg(example()).arg(&stopped);
    command.args(["--port", "0", "--prompt", "Why is the sea salty?", "--once"]);
    let running = Running::start(&mut command);
    let node = until("a child of `up`", || processes::node_id(running.pid()));
    assert!(!processes::with_variable(&node).is_empty());
    let ended = running.end();

    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    assert!(ended.stdout.trim().len() > 20, "{ended:#?}");
    assert_eq!(ended.stdout.trim().lines().count(), 1, "only the answer: {ended:#?}");
    assert!(ended.stderr.contains("the simulator"), "the engine is named: {ended:#?}");
    assert!(ended.stderr.contains("default/qwen: Ready"), "the tree fills in: {ended:#?}");
    assert!(!ended.stderr.contains('\u{1b}'), "no colours in a pipe: {ended:#?}");

    assert_eq!(processes::with_variable(&node), Vec::<u32>::new());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a temporary file is left");
    let gateway = ended.stderr.split("gateway: http://").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(TcpStream::connect(&gateway).is_err(), "{gateway} still listens");
}

#[test]
fn a_prompt_for_a_stopped_service_only_is_an_error() {
    let folder = TempDir::new().unwrap();
    let manifests = TempDir::new().unwrap();
    let stopped = manifests.path().join("stopped.yaml");
    let text = fs::read_to_string(example()).unwrap();
    let name = "name: qwen\n  annotations: {serving.kserve.io/stop: \"true\"}";
    fs::write(&stopped, text.replacen("name: qwen", name, 1)).unwrap();
    let mut command = up(folder.path());
    command.arg(&stopped).args(["--port", "0", "--prompt", "Why is the sea salty?", "--once"]);
    let ended = run(&mut command);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    let why = "error: nothing answers the prompt: default/qwen is stopped: remove the annotation serving.kserve.io/stop";
    assert!(ended.stderr.contains(why), "{ended:#?}");
}

#[test]
fn a_prompt_goes_where_the_services_own_route_leads() {
    // The only rule of the route rewrites one path to `/v1/completions`.
    let manifest = tools::root().join("tests/cases/seeds/url-rewrite.yaml");
    let folder = TempDir::new().unwrap();
    let mut command = up(folder.path());
    command.arg(manifest).args(["--port", "0", "--prompt", "Why is the sea salty?", "--once"]);
    let ended = run(&mut command);
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    assert!(ended.stdout.trim().len() > 20, "{ended:#?}");
}
