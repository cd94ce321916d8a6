//! User mistakes: a helpful message on stderr, and a non-zero exit code.

use std::{fs, net::TcpListener};

use tempfile::TempDir;

use crate::local_cluster::{Ended, example, up_to_its_end};

/// Runs `up` on the example with `from` replaced by `to`, or on the manifest `to` if `from` is empty.
fn up_with(from: &str, to: &str, arguments: &[&str]) -> Ended {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("service.yaml");
    let text = match from {
        "" => to.to_owned(),
        _ => fs::read_to_string(example()).unwrap().replace(from, to),
    };
    fs::write(&file, text).unwrap();
    up_to_its_end(&[&["--port", "0", file.to_str().unwrap()], arguments].concat())
}

fn fails(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(code), "{ended:#?}");
    assert_eq!(ended.stdout, "", "{ended:#?}");
    let error = ended.stderr.split_once("error: ").unwrap_or_else(|| panic!("{ended:#?}")).1;
    for word in words {
        assert!(error.contains(word), "expected {word:?} in {error}");
    }
    assert!(!error.contains("Status {"), "a dump is no sentence: {error}");
}

#[test]
fn no_manifest_and_unknown_flags_say_what_to_give() {
    fails(&up_to_its_end(&[]), 1, &["no manifest given", "a file, a folder, or `-`"]);
    fails(&up_to_its_end(&["--onse"]), 2, &["--onse", "'--once'"]);
    fails(&up_to_its_end(&["nowhere.yaml"]), 1, &["cannot read `nowhere.yaml`", "No such file"]);
    let folder = TempDir::new().unwrap();
    fails(&up_to_its_end(&[folder.path().to_str().unwrap()]), 1, &["no Kubernetes object in"]);
}

#[test]
fn broken_yaml_is_pointed_at_by_line_and_column() {
    let mapping = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n   namespace: b\n";
    fails(
        &up_with("", mapping, &[]),
        1,
        &["service.yaml:5:4: this line is indented by 3 spaces, but the lines before it by 0, 2"],
    );
    // Line numbers count from the start of the file, also in its second document.
    let second = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: [a\n";
    fails(&up_with("", second, &[]), 1, &["service.yaml:5:"]);
    fails(&up_with("", "kind: ConfigMap\n", &[]), 1, &["service.yaml:1:1: ", "`apiVersion`"]);
}

#[test]
fn an_unknown_field_comes_with_the_nearest_right_one() {
    let ended = up_with("replicas: 1", "replica: 1", &[]);
    fails(&ended, 1, &["service.yaml:11:3: ", "spec.replica: unknown field", "did you mean `replicas`?"]);
    let ended = up_with("scheduler: {}", "schedular: {}", &[]);
    fails(&ended, 1, &["spec.router.schedular: unknown field", "did you mean `scheduler`?"]);
    let ended = up_with("", "apiVersion: v1\nkind: Sevice\nmetadata: {name: a}\n", &[]);
    fails(&ended, 1, &["does not serve kind `Sevice` in `v1`"]);
}

#[test]
fn an_invalid_spec_gets_the_causes_of_the_api() {
    let ended = up_with("replicas: 1", "replicas: -1", &[]);
    fails(
        &ended,
        1,
        &["service.yaml:11:3: ", "spec.replicas: Invalid value: -1", "greater than or equal to 0"],
    );
    let ended = up_with("replicas: 1", "replicas: many", &[]);
    fails(&ended, 1, &["spec.replicas", "cannot unmarshal string", "of type int32"]);
}

#[test]
fn a_missing_base_config_ends_up_at_once_with_the_cause() {
    // `up` fails at once instead of after its time limit of five minutes.
    let ended = up_with("spec:\n", "spec:\n  baseRefs: [{name: kserve-config-llm-tracng}]\n", &[]);
    let words =
        ["default/qwen cannot become ready", "[ConfigNotFound]", "did you mean `kserve-config-llm-tracing`?"];
    fails(&ended, 1, &words);
    let condition = "default/qwen: PresetsCombined=False ConfigNotFound: LLMInferenceServiceConfig \"kserve-config-llm-tracng\" not found";
    let tree = ended.stderr.split_once("error: ").unwrap().0;
    assert!(tree.contains(condition), "shown before the end, too: {tree}");
}

#[test]
fn a_model_that_cannot_be_brought_ends_up_at_once_and_names_the_way_that_works() {
    let ended = up_with("hf://Qwen/Qwen2.5-0.5B-Instruct", "file:///nowhere/at/all", &["--engine", "true"]);
    let words = ["default/qwen cannot become ready", "[ModelNotFetched]", "spec.model.uri: file:///FOLDER"];
    fails(&ended, 1, &words);
}

#[test]
fn an_image_that_cannot_run_here_ends_up_at_once() {
    let image =
        "  template: {containers: [{name: main, image: \"example.com/none:1\", command: [\"/none\"]}]}\n";
    // Another service starts for a while. That it is not ready yet is not its fault.
    let text = fs::read_to_string(example()).unwrap();
    let [hopeless, slow] =
        [("qwen", image.to_owned()), ("slow", image.replace("/none\"]", "/bin/sleep\", \"9\"]"))].map(
            |(name, image)| {
                text.replace("name: qwen", &format!("name: {name}"))
                    .replace("spec:\n", &format!("spec:\n{image}"))
            },
        );
    let ended = up_with("", &format!("{hopeless}\n---\n{slow}"), &[]);
    let words = [
        "default/qwen cannot become ready",
        "[NoLocalProgram]",
        "or run the service on a cluster",
        "not ready yet: default/slow",
    ];
    fails(&ended, 1, &words);
}

#[test]
fn a_service_that_does_not_become_ready_in_time_is_told_with_its_cause() {
    let crashing = r#"  template: {containers: [{name: main, image: "example.com/none:1", command: [/bin/sh, -c, exit 3]}]}"#;
    let ended = up_with("spec:\n", &format!("spec:\n{crashing}\n"), &["--timeout", "20"]);
    let words = [
        "default/qwen did not become ready within 20 s",
        "[ContainerCrashes]",
        "exit code 3",
        "Pod default/qwen-kserve-",
    ];
    fails(&ended, 1, &words);
    let tree = ended.stderr.split_once("error: ").unwrap().0;
    let first = tree.lines().rfind(|line| line.starts_with("default/qwen: ")).unwrap();
    assert!(first.contains("pod qwen-kserve-") && first.contains("exit code 3"), "{tree}");
}

#[test]
fn an_engine_that_does_not_exist_ends_up_at_once() {
    let ended = up_with("replicas: 1", "replicas: 1", &["--engine", "nosuchcommand --fast"]);
    fails(&ended, 1, &["there is no program `nosuchcommand`", "expected `auto`, `cpu`, `sim`"]);
    assert!(!ended.stderr.contains("gateway:"), "nothing starts: {ended:#?}");
}

#[test]
fn with_strict_scheduling_a_pod_waits_for_the_node_that_it_selects() {
    let selective = "  template: {nodeSelector: {gpu: A100}, containers: [{name: main}]}";
    let added = format!("spec:\n{selective}\n");
    for flags in [&["--strict-scheduling", "--timeout", "5"], &["--node-label=gpu=T4", "--timeout", "5"]] {
        let ended = up_with("spec:\n", &added, flags);
        let words =
            ["did not become ready within 5 s", "[PodUnschedulable]", "didn't match Pod's node affinity"];
        fails(&ended, 1, &words);
        assert!(!ended.stderr.contains("pretends"), "{ended:#?}");
    }
    let ended = up_with("spec:\n", &added, &["--once"]);
    assert!(ended.status.success(), "{ended:#?}");
    assert!(ended.stderr.contains("node: pretends to be a node with gpu=A100, because"), "{ended:#?}");
    fails(&up_with("", "", &["--node-label", "gpu"]), 2, &["gpu", "expected a label such as"]);
}

#[test]
fn a_port_in_use_is_named_with_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let example = example();
    let manifest = example.to_str().unwrap();
    let ended = up_to_its_end(&["--port", &port, manifest]);
    fails(&ended, 1, &[&format!("cannot listen on 127.0.0.1:{port} for the gateway"), "`--port 0`"]);
    let ended = up_to_its_end(&["--port", "0", "--api-port", &port, manifest]);
    fails(&ended, 1, &[&format!("cannot listen on 127.0.0.1:{port} for the API server"), "`--api-port`"]);
}
