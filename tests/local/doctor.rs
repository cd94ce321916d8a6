//! `longboat doctor` and `longboat status` in a local world: what is well, and what is not and why.

use std::process::Command;

use serde_json::Value;

use crate::{
    program::{Ended, run},
    tools,
    wait::until,
    world::{World, turn},
};

const BROKEN: &str = r#"
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: layered}
spec:
  model: {uri: "hf://a/b"}
  baseRefs: [{name: kserve-config-llm-tracng}]
---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: foreign}
spec:
  model: {uri: "hf://a/b"}
  template: {containers: [{name: main, image: "example.com/none:1", command: ["/none"]}]}
---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: crashing}
spec:
  model: {uri: "hf://a/b"}
  template: {containers: [{name: main, image: "example.com/none:1", command: ["/bin/sh", "-c", "exit 3"]}]}
"#;

fn longboat(world: &World, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    run(command.env("KUBECONFIG", &world.kubeconfig).env_remove("RUST_LOG").args(arguments))
}

#[test]
fn what_is_well_is_told_and_what_is_not_is_followed_to_its_cause() {
    if tools::kubectl().is_none() {
        return;
    }
    let _turn = turn();
    let world = World::shared();
    let well = longboat(world, &["doctor"]);
    assert!(well.status.success() && well.stderr.contains("Nothing is wrong."), "{well:#?}");
    let status = longboat(world, &["status", "qwen"]);
    assert!(status.status.success(), "{status:#?}");
    for part in [
        "✓ default/qwen  Ready",
        "url  http://127.0.0.1:",
        "Deployment qwen-kserve  1/1 ready",
        "ready at 127.",
    ] {
        assert!(status.stdout.contains(part), "{part}: {}", status.stdout);
    }

    let manifest = world.folder.path().join("broken.yaml");
    std::fs::write(&manifest, BROKEN).unwrap();
    world.ask(&["apply", "-f", manifest.to_str().unwrap()]);
    let expected = [
        ("ConfigNotFound", "layered", "did you mean `kserve-config-llm-tracing`?"),
        ("ContainerWaits", "foreign", "kubectl describe pod"),
        ("ContainerCrashes", "crashing", "kubectl logs"),
    ];
    for (fault, name, fix) in expected {
        until(&format!("{fault} of {name} is found"), || {
            let ended = longboat(world, &["doctor", "-n", "default", "-o", "json"]);
            assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
            let found: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
            let object = format!("LLMInferenceService default/{name}");
            let of_it = found
                .iter()
                .find(|finding| finding["object"] == object.as_str() && finding["fault"] == fault)?;
            of_it["fix"].as_str()?.contains(fix).then_some(())
        });
    }
    let one = longboat(world, &["doctor", "-n", "default", "qwen"]);
    assert!(one.status.success(), "{one:#?}");
    let status = longboat(world, &["status", "layered", "-o", "json"]);
    assert_eq!(status.status.code(), Some(1), "{status:#?}");
    let tree: Vec<Value> = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(tree[0]["service"], "default/layered", "{tree:#?}");
    world.ask(&["delete", "-f", manifest.to_str().unwrap()]);
}

#[test]
fn a_cluster_that_does_not_answer_is_an_error() {
    let folder = tempfile::TempDir::new().unwrap();
    let config = folder.path().join("kubeconfig");
    let nobody = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "users": [{"name": "a", "user": {}}]}"#;
    std::fs::write(&config, nobody).unwrap();
    for verb in ["doctor", "status"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
        let ended = run(command.env("KUBECONFIG", &config).arg(verb));
        assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
        assert!(ended.stderr.contains("the API server does not answer"), "{ended:#?}");
    }
}
