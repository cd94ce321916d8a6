//! `longboat up --watch`: edits of the manifests.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::{
    http,
    local_cluster::{LocalCluster, MODEL, example, run, up},
    wait::until,
};

#[test]
fn an_edit_is_shown_and_applied_and_one_with_errors_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("service.yaml");
    let first = fs::read_to_string(example()).unwrap();
    assert!(first.contains("replicas: 1"), "{first}");
    fs::write(&file, &first).unwrap();
    let world = LocalCluster::start(&["--watch", file.to_str().unwrap()]);
    let says = |part: &str| until(part, || world.running.stderr().contains(part));
    let answers = || {
        let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
        assert_eq!(http::post(&format!("{}/v1/chat/completions", world.url), &body).status, 200);
    };

    // Editors write a new file and rename it.
    let new = folder.path().join("service.yaml.new");
    fs::write(&new, first.replace("replicas: 1", "replicas: 2")).unwrap();
    fs::rename(&new, &file).unwrap();
    says("~ spec.replicas: 1 → 2");
    says("Deployment qwen-kserve: 2/2 ready");

    fs::write(&file, first.replace("replicas: 1", "replicas: many")).unwrap();
    says("nothing was changed; the next edit is tried again");
    let said = world.running.stderr();
    assert!(said.contains("spec.replicas") && said.contains("error:"), "{said}");
    assert!(!said.contains("nothing was started"), "{said}");
    answers();
    fs::write(&file, first.replace("replicas: 1", "replicas: 2")).unwrap();
    says("edited: the manifests are valid again; nothing changes");

    let with_settings = |value: &str| {
        let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": value}});
        fs::write(
            folder.path().join("service.yaml"),
            format!("{}---\n{settings}\n", first.replace("replicas: 1", "replicas: 2")),
        )
    };
    with_settings("b").unwrap();
    says("edited: the manifests; no service changes\nobjects of other kinds: ConfigMap settings\n");

    // A file that is empty for a moment is an edit with errors, too. A new service joins the tree, and one that is gone stays.
    fs::write(&file, "").unwrap();
    let second = first.replace("name: qwen\n", "name: second\n");
    fs::write(&file, second).unwrap();
    says("default/second is new and starts: ");
    says("default/second: Ready");
    assert!(!world.running.stderr().contains("+ spec.model"), "its fields are those of the file");
    says("default/qwen is no longer in the manifests and still runs");
    answers();
}

#[test]
fn standard_input_cannot_be_watched() {
    let folder = TempDir::new().unwrap();
    let ended = run(up(folder.path()).args(["--watch", "-"]));
    assert!(!ended.status.success() && ended.stderr.contains("pass a file or a folder"), "{ended:#?}");
}
