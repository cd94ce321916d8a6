//! LoRA adapters come and go while the pods of a service run.

use serde_json::{Value, json};

use crate::{http, local_cluster::LocalCluster, tools, wait::until};

/// The example with these adapters, loaded while pods run.
fn service(adapters: &[&str]) -> Value {
    let path = tools::root().join("examples/lora/service.yaml");
    let mut service: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    service["metadata"]["annotations"] = json!({"longboat.dev/runtime-adapters": "true"});
    service["spec"]["replicas"] = 2.into();
    let all = service["spec"]["model"]["lora"]["adapters"].as_array_mut().unwrap();
    all.retain(|adapter| adapters.contains(&adapter["name"].as_str().unwrap()));
    service
}

fn status(world: &LocalCluster, model: &str) -> u16 {
    let body = json!({"model": model, "max_tokens": 2, "prompt": "All users"});
    http::post(&format!("{}/v1/completions", world.url), &body).status
}

/// The condition's status and message.
fn condition(world: &LocalCluster) -> String {
    let path = r#"jsonpath={.status.conditions[?(@.type=="AdaptersLoaded")]['status','message']}"#;
    world.ask(&["get", "llmisvc", "qwen-lora", "-o", path])
}

/// Name and start of each process of each model server.
fn pods(world: &LocalCluster) -> Value {
    let pods = world.object(&["pods", "-l", "kserve.io/component=workload"]);
    let mut all: Vec<Value> = pods["items"].as_array().unwrap().clone();
    all.sort_by_key(|pod| pod["metadata"]["name"].to_string());
    all.iter()
        .map(|pod| {
            let states = pod["status"]["containerStatuses"].as_array().unwrap();
            json!([pod["metadata"]["name"], states.iter().map(|state| &state["state"]).collect::<Vec<_>>()])
        })
        .collect()
}

#[test]
fn an_adapter_is_served_and_removed_without_a_new_pod() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("lora.json");
    std::fs::write(&file, service(&["kubernetes"]).to_string()).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap()]);
    // A pod is ready when it has its adapters.
    assert_eq!((status(&world, "kubernetes"), status(&world, "sql")), (200, 404));
    let before = pods(&world);
    assert_eq!(before.as_array().unwrap().len(), 2);

    for (adapters, served, message) in [
        (&["kubernetes", "sql"][..], [200, 200], "True kubernetes, sql in 2 pods"),
        (&["sql"][..], [404, 200], "True sql in 2 pods"),
    ] {
        let file = world.file("changed.json", &service(adapters).to_string());
        world.ask(&["apply", "-f", &file]);
        until(message, || condition(&world) == message);
        for _ in 0..8 {
            assert_eq!([status(&world, "kubernetes"), status(&world, "sql")], served);
        }
    }
    assert_eq!(pods(&world), before, "no pod and no process is new");
}
