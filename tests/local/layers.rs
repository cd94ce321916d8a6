//! `render`, `explain` and `diff`, with and without a cluster.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    local_cluster::{Ended, LocalCluster, example, run},
    tools,
};

/// Runs the binary with these arguments. It finds no kubeconfig unless they name one.
fn longboat(arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    run(command.args(arguments).env_remove("KUBECONFIG").env("HOME", "/nonexistent"))
}

/// Writes the example with `from` replaced by `to`. Returns its path.
fn changed(folder: &Path, from: &str, to: &str) -> String {
    let file = folder.join("changed.yaml");
    let text = fs::read_to_string(example()).unwrap();
    assert!(text.contains(from));
    fs::write(&file, text.replace(from, to)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn render_prints_every_child_the_same_bytes_every_time() {
    let example = example();
    let example = example.to_str().unwrap();
    let yaml = longboat(&["render", example]);
    assert_eq!(yaml.stderr, "", "nothing has to be assumed");
    let yaml = yaml.ok();
    assert_eq!(yaml, longboat(&["render", "-f", example]).ok());
    let list: Value = serde_json::from_str(&longboat(&["render", example, "-o", "json"]).ok()).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), yaml.matches("---\n").count());
    let deployments: Vec<&Value> = items.iter().filter(|item| item["kind"] == "Deployment").collect();
    assert_eq!(deployments.len(), 2);
    assert_eq!(deployments[0]["metadata"]["namespace"], "default");
    let moved: Value =
        serde_json::from_str(&longboat(&["render", example, "-n", "team", "-o", "json"]).ok()).unwrap();
    assert_eq!(moved["items"][0]["metadata"]["namespace"], "team");
    let effective = longboat(&["render", example, "--effective"]).ok();
    assert!(
        effective.contains("kind: LLMInferenceService\n") && effective.contains("image: "),
        "{effective}"
    );
}

#[test]
fn what_cannot_be_rendered_is_said_on_stderr_with_a_failure() {
    let example = example();
    let example = example.to_str().unwrap();
    let ended = longboat(&["render", example, "--without", "gateway"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("gateway.networking.k8s.io"), "{}", ended.stderr);
    assert!(ended.stdout.contains("kind: Deployment"), "the workload does not depend on it");
    let ended = longboat(&["render", example, "--presets", "none"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("kserve-config-llm-scheduler\" not found"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let folder = TempDir::new().unwrap();
    let broken = changed(folder.path(), "spec:\n", "spec:\n  baseRefs: [{name: nowhere}]\n");
    let text = fs::read_to_string(&broken).unwrap();
    fs::write(&broken, text.replace("name: qwen\n", "name: broken\n")).unwrap();
    let ended = longboat(&["render", &broken, example]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("cannot render default/broken"), "{}", ended.stderr);
    assert!(ended.stdout.contains("name: qwen-kserve\n"), "the other one is rendered");
}

#[test]
fn explain_names_the_layer_and_the_line_of_a_field() {
    let example = example();
    let example = example.to_str().unwrap();
    let replicas = longboat(&["explain", example, "spec.replicas"]).ok();
    assert_eq!(replicas, format!("spec.replicas = 1\n  set by the service ({example}:11:3)\n"));
    let layers = longboat(&["explain", example]).ok();
    let order = [
        "config-llm-scheduler",
        "config-llm-router-route",
        "config-llm-template",
        "the service",
        "composing",
    ];
    let places: Vec<usize> = order.iter().map(|layer| layers.find(layer).unwrap()).collect();
    assert!(places.is_sorted(), "{layers}");
    let copied =
        longboat(&["explain", example, "deployment/qwen-kserve.spec.template.spec.containers[main].image"])
            .ok();
    assert!(copied.contains("copied from spec.template.containers[name=main].image"), "{copied}");
    let json: Value =
        serde_json::from_str(&longboat(&["explain", example, "spec.model.name", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["fields"][0]["setBy"]["kind"], "spec");
    let ended = longboat(&["explain", example, "spec.model.nam"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("did you mean `spec.model.name`?"), "{}", ended.stderr);
}

#[test]
fn diff_tells_by_its_exit_code_and_names_the_field_that_rolls_pods() {
    let folder = TempDir::new().unwrap();
    let example = example();
    let example = example.to_str().unwrap();
    let same = longboat(&["diff", example, "--from", example]);
    assert_eq!((same.status.code(), same.stdout.as_str()), (Some(0), ""), "{same:#?}");
    let other = changed(folder.path(), "uri: hf://Qwen", "uri: hf://other");
    let ended = longboat(&["diff", &other, "--from", example]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("pods of Deployment/qwen-kserve roll"), "{}", ended.stdout);
    assert!(ended.stdout.contains("from spec.model.uri"), "{}", ended.stdout);
    // Where planning stops, nobody knows the rest.
    let ended = longboat(&["diff", example, "--from", example, "--without", "gateway"]);
    assert_eq!(ended.status.code(), Some(2), "{ended:#?}");
    assert!(ended.stdout.contains("the rest is unknown: HTTPRouteReconcileError: "), "{}", ended.stdout);
    let ended = longboat(&["diff", "nowhere.yaml", "--from", example]);
    assert_eq!(ended.status.code(), Some(2), "{ended:#?}");
}

#[test]
fn explain_and_diff_warn_of_what_render_warns_of() {
    let folder = TempDir::new().unwrap();
    let variable = "{name: VLLM_ADDITIONAL_ARGS, value: --max-model-len abc}";
    let pod = format!("  template: {{containers: [{{name: main, env: [{variable}]}}]}}\n  router:\n");
    let wrong = changed(folder.path(), "  router:\n", &pod);
    let warnings = |arguments: &[&str]| {
        let ended = longboat(arguments);
        let lines = ended.stderr.lines().filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let rendered = warnings(&["render", &wrong]);
    assert!(rendered.iter().any(|line| line.contains("--max-model-len")), "{rendered:#?}");
    assert_eq!(warnings(&["explain", &wrong]), rendered);
    assert_eq!(warnings(&["diff", &wrong, "--from", example().to_str().unwrap()]), rendered);
}

#[test]
fn diff_stops_at_a_manifest_that_a_server_would_refuse_on_either_side() {
    let folder = TempDir::new().unwrap();
    let example = example();
    let example = example.to_str().unwrap();
    let broken = changed(folder.path(), "replicas: 1", "replicaz: 1");
    for sides in [[example, &broken], [&broken, example]] {
        let ended = longboat(&["diff", sides[0], "--from", sides[1]]);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(2), ""), "{ended:#?}");
        assert!(ended.stderr.contains("spec.replicaz: unknown field"), "{}", ended.stderr);
    }
}

#[test]
fn one_service_that_cannot_be_planned_hides_nothing_of_the_others() {
    let folder = TempDir::new().unwrap();
    let example = example();
    let example = example.to_str().unwrap();
    let broken = changed(folder.path(), "spec:\n", "spec:\n  baseRefs: [{name: nowhere}]\n");
    let text = fs::read_to_string(&broken).unwrap();
    fs::write(&broken, text.replace("name: qwen\n", "name: broken\n")).unwrap();
    let ended = longboat(&["explain", &broken, "spec.replicas", "-f", example]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("cannot explain default/broken"), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("spec.replicas = 1\n"), "{}", ended.stdout);
    let other = folder.path().join("other.yaml");
    let text = fs::read_to_string(example).unwrap();
    fs::write(&other, text.replace("replicas: 1", "replicas: 2")).unwrap();
    let ended = longboat(&["diff", &broken, other.to_str().unwrap(), "--from", example]);
    assert_eq!(ended.status.code(), Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("cannot compute the objects of default/broken"), "{}", ended.stderr);
    assert!(ended.stdout.contains("~ spec.replicas: 1 → 2"), "{}", ended.stdout);
}

#[test]
fn a_world_that_runs_is_what_render_says_and_differs_by_what_is_changed() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let kubeconfig = world.kubeconfig.to_str().unwrap();
    let example = example();
    let example = example.to_str().unwrap();
    let same = longboat(&["diff", example, "--kubeconfig", kubeconfig]);
    assert_eq!((same.status.code(), same.stdout.as_str()), (Some(0), ""), "{same:#?}");
    let folder = TempDir::new().unwrap();
    let more = changed(folder.path(), "replicas: 1", "replicas: 2");
    let ended = longboat(&["diff", &more, "--kubeconfig", kubeconfig]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("~ spec.replicas: 1 → 2"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("roll"), "{}", ended.stdout);

    let explained = longboat(&["explain", "qwen", "spec.replicas", "--kubeconfig", kubeconfig]).ok();
    assert_eq!(explained, "spec.replicas = 1\n  set by the service\n");

    let text = longboat(&["render", "--live", example, "--kubeconfig", kubeconfig, "-o", "json"]).ok();
    assert!(!text.contains("PRIVATE KEY"), "keys are not for terminals");
    let list: Value = serde_json::from_str(&text).unwrap();
    let deployment =
        list["items"].as_array().unwrap().iter().find(|item| item["kind"] == "Deployment").unwrap();
    let live = world.object(&["deployment", "qwen-kserve"]);
    assert_eq!(deployment["metadata"]["ownerReferences"], live["metadata"]["ownerReferences"]);
    assert_eq!(deployment["spec"]["selector"], live["spec"]["selector"]);
}
