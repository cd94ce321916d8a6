//! A model for embeddings behind the gateway, computed by the CPU engine.

use std::process::Command;

use tempfile::TempDir;

use crate::{
    local_cluster::{LocalCluster, run},
    tools,
};

#[test]
fn the_official_python_client_gets_vectors_that_are_computed() {
    let Some(python) = tools::python() else { return };
    // `/tmp` is a volume of the pods, so a model below it would not be found there.
    let folder = TempDir::new_in(tools::root().join("target")).unwrap();
    let script = tools::root().join("crates/engine/tests/reference.py");
    run(Command::new(&python).arg(script).arg(folder.path())).ok();
    let manifest = folder.path().join("service.yaml");
    let text = format!(
        "apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata:
  name: vectors
spec:
  model:
    uri: file://{}/embeds-last
    name: vectors
  router:
    gateway: {{}}
    route: {{}}
    scheduler: {{}}
",
        folder.path().display()
    );
    std::fs::write(&manifest, text).unwrap();
    let world = LocalCluster::start(&["--engine", "cpu", manifest.to_str().unwrap()]);
    let first = world.running.stderr().lines().next().unwrap_or_default().to_owned();
    assert!(first.contains("qwen3, for embeddings, 3 layers"), "{first}");
    let expected = folder.path().join("embeddings.json");
    let script = tools::root().join("tests/local/embeddings_client.py");
    let said = run(Command::new(python).arg(script).arg(format!("{}/v1", world.url)).arg(expected)).ok();
    assert_eq!(said.trim(), "fine");
}
