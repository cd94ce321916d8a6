//! No replica while nobody asks: requests wait in the gateway until an autoscaler or a person has started one.

use std::{fs, thread};

use serde_json::{Value, json};

use crate::{
    http::{self, Answer},
    local_cluster::{LocalCluster, MODEL, example},
    tools,
    wait::until,
};

fn ask(url: &str, model: &str) -> thread::JoinHandle<Answer> {
    let url = format!("{url}/v1/chat/completions");
    let messages = json!([{"role": "user", "content": "hello"}]);
    let body = json!({"model": model, "messages": messages, "max_tokens": 4});
    thread::spawn(move || http::post(&url, &body))
}

fn replicas(world: &LocalCluster, deployment: &str, count: i64) {
    until(&format!("{deployment} has {count} replicas"), || {
        let live = world.object(&["deployment", deployment]);
        let ready = live["status"]["readyReplicas"].as_i64().unwrap_or(0);
        live["spec"]["replicas"] == count && ready == count
    });
}

/// Waits until this many requests wait in the gateway.
fn waiting(world: &LocalCluster, count: usize) {
    let gateway: String = world.url.split('/').take(3).collect::<Vec<_>>().join("/");
    until(&format!("{count} requests wait"), || {
        let page = http::get(&format!("{gateway}/metrics")).body;
        let sizes = page.lines().filter(|line| line.starts_with("llm_d_epp_flow_control_queue_size{"));
        let sum: usize = sizes.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum();
        (sum == count).then_some(())
    });
}

#[test]
fn a_request_to_a_service_without_replicas_is_answered_by_the_first_one() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::start(&[tools::root().join("examples/scale-to-zero").to_str().unwrap()]);
    replicas(&world, "qwen-idle-kserve", 0);
    let answers =
        [ask(&world.url, "Qwen/Qwen2.5-0.5B-Instruct"), ask(&world.url, "Qwen/Qwen2.5-0.5B-Instruct")];
    for answer in answers {
        let answer = answer.join().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    waiting(&world, 0);
    replicas(&world, "qwen-idle-kserve", 0);
}

#[test]
fn a_horizontal_pod_autoscaler_with_no_least_replica_does_the_same() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::start(&[example().to_str().unwrap()]);
    let name = world.ask(&["get", "llmisvc", "-o", "jsonpath={.items[0].metadata.name}"]);
    let mut service = world.object(&["llmisvc", &name]);
    // Without a number of its own, the service leaves it to the autoscaler.
    service["spec"].as_object_mut().unwrap().remove("replicas");
    for key in ["managedFields", "resourceVersion"] {
        service["metadata"].as_object_mut().unwrap().remove(key);
    }
    let file = world.file("service.json", &service.to_string());
    world.ask(&["replace", "-f", &file]);
    let deployment = format!("{name}-kserve");
    let autoscaler: Value = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "zero"},
        "spec": {
            "minReplicas": 0, "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
            "metrics": [{"type": "External", "external": {
                "metric": {"name": "llm_d_epp_flow_control_queue_size"},
                "target": {"type": "AverageValue", "averageValue": "10"},
            }}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    });
    let file = world.file("autoscaler.json", &autoscaler.to_string());
    world.ask(&["apply", "-f", &file]);
    replicas(&world, &deployment, 0);
    let answer = ask(&world.url, MODEL);
    waiting(&world, 1);
    let answer = answer.join().unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_person_can_stop_a_service_and_let_its_requests_wait() {
    if tools::kubectl().is_none() {
        return;
    }
    let manifest = fs::read_to_string(example()).unwrap().replace("replicas: 1", "replicas: 0").replacen(
        "metadata:\n",
        "metadata:\n  annotations:\n    longboat.dev/wait-at-zero: \"true\"\n",
        1,
    );
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("stopped.yaml");
    fs::write(&file, manifest).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap()]);
    let name = world.ask(&["get", "llmisvc", "-o", "jsonpath={.items[0].metadata.name}"]);
    let answer = ask(&world.url, MODEL);
    waiting(&world, 1);
    world.ask(&["patch", "llmisvc", &name, "--type", "merge", "-p", r#"{"spec": {"replicas": 1}}"#]);
    let answer = answer.join().unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}
