//! An engine of the user that finds its model only at the path of the manifest.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::json;
use tempfile::TempDir;

use crate::{http, local_cluster::LocalCluster, tools};

/// Two engines, whose model is in a claim.
const SERVICE: &str = r#"
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: shared}
spec:
  model: {uri: "pvc://weights/small", name: small}
  replicas: 2
  router: {gateway: {}, route: {}, scheduler: {}}
"#;

/// Writes a program that reads the path of the model from its own text, and then serves as the simulator.
fn engine(folder: &Path) -> String {
    let program = folder.join("own-engine");
    let script = format!(
        "#!/bin/sh\nd=models\ncat /mnt/$d/config.json && echo at $LONGBOAT_POD_IP: $* && exec {} vllm \"$@\"\n",
        env!("CARGO_BIN_EXE_longboat")
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn engines_of_the_user_find_the_model_where_the_manifest_mounts_it() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let model = state.join("claims/default/weights/small");
    fs::create_dir_all(&model).unwrap();
    fs::write(model.join("config.json"), "a config\n").unwrap();
    let manifest = folder.path().join("service.yaml");
    fs::write(&manifest, SERVICE).unwrap();
    let [state, manifest] = [&state, &manifest].map(|path| path.to_str().unwrap());
    let world = LocalCluster::start(&["--engine", &engine(folder.path()), "--state", state, manifest]);
    let condition = "jsonpath={.items[0].status.conditions[?(@.type==\"MountNamespaces\")].status}";
    if world.ask(&["get", "nodes", "-o", condition]) != "True" {
        longboat_golden::skipped("no mount namespaces");
        return;
    }
    let pods = world.object(&["pods", "-l", "kserve.io/component=workload"]);
    let names: Vec<&str> = pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
    for name in names {
        let log = world.ask(&["logs", name, "-c", "main"]);
        assert!(log.starts_with("a config\nat 127.") && log.contains("serve /mnt/models"), "{log}");
        let exec = ["exec", name, "-c", "main", "--", "sh", "-c", "d=models; cat /mnt/$d/config.json"];
        assert_eq!(world.ask(&exec), "a config\n");
    }
    assert!(!Path::new("/mnt/models").exists());
    let request = json!({"model": "small", "prompt": "hello", "max_tokens": 2});
    assert_eq!(http::post(&format!("{}/v1/completions", world.url), &request).status, 200);
}
