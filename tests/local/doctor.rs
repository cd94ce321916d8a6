//! `longboat doctor` and `longboat status` in a local world: healthy services, and faults with their causes.

use std::process::Command;

use serde_json::Value;

use crate::{
    local_cluster::LocalCluster,
    program::{Ended, run},
    tools,
    wait::until,
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

fn longboat(world: &LocalCluster, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    run(command.env("KUBECONFIG", &world.kubeconfig).env_remove("RUST_LOG").args(arguments))
}

#[test]
fn what_is_well_is_told_and_what_is_not_is_followed_to_its_cause() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let well = longboat(world, &["doctor"]);
    assert!(well.status.success() && well.stderr.contains("No problems found."), "{well:#?}");
    for command in
        [&["doctor"][..], &["status"], &["status", "qwen"], &["why", "some-request"], &["dashboard"]]
    {
        let nowhere = longboat(world, &[command, &["-n", "nosuch"]].concat());
        let said = "namespace nosuch does not exist: `kubectl get namespaces` lists those of the cluster";
        assert!(!nowhere.status.success() && nowhere.stderr.contains(said), "{command:?}: {nowhere:#?}");
    }
    let status = longboat(world, &["status", "qwen"]);
    assert!(status.status.success(), "{status:#?}");
    for part in [
        "✓ default/qwen  Ready  http://127.0.0.1:",
        "├─ ✓ Deployment qwen-kserve  1/1 ready",
        "ready at 127.",
    ] {
        assert!(status.stdout.contains(part), "{part}: {}", status.stdout);
    }

    let manifest = world.folder.path().join("broken.yaml");
    std::fs::write(&manifest, BROKEN).unwrap();
    world.ask(&["apply", "-f", manifest.to_str().unwrap()]);
    let expected = [
        ("ConfigNotFound", "layered", "did you mean `kserve-config-llm-tracing`?"),
        ("NoLocalProgram", "foreign", "a command that exists on this machine"),
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
    let status = longboat(world, &["status", "layered", "qwen", "-o", "json"]);
    assert_eq!(status.status.code(), Some(1), "{status:#?}");
    let list: Value = serde_json::from_str(&status.stdout).unwrap();
    for (index, name) in ["layered", "qwen"].into_iter().enumerate() {
        let live = world.object(&["llmisvc", name]);
        assert_eq!(list["items"][index]["status"], live["status"], "{list:#}");
        assert_eq!(list["items"][index]["metadata"]["uid"], live["metadata"]["uid"], "{list:#}");
    }
    assert_eq!(list["items"][1]["children"][0]["children"][0]["kind"], "Pod", "{list:#}");
    let yaml: Value =
        serde_saphyr::from_str(&longboat(world, &["status", "qwen", "-o", "yaml"]).stdout).unwrap();
    assert_eq!(yaml["items"][0], list["items"][1]);
    world.ask(&["delete", "-f", manifest.to_str().unwrap()]);
}
