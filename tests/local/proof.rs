//! The proof of serving under `up`: it goes the whole way, and a link that breaks is named by the condition.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{http, local_cluster::LocalCluster, program::run, tools, wait::until};

/// A service whose prefill is apart, with these fields besides.
fn service(more: &Value) -> Value {
    let mut spec = json!({
        "model": {"uri": "hf://org/model", "name": "org/model"},
        "replicas": 1,
        "prefill": {"replicas": 1},
        "router": {"gateway": {}, "route": {}, "scheduler": {}},
    });
    merge(&mut spec, more);
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "default", "annotations": {"longboat.dev/serving-proof": "report"}},
        "spec": spec,
    })
}

/// A service without a route, with these fields besides: it is asked at its Service.
fn unrouted(name: &str, more: &Value) -> Value {
    let mut service = service(&json!({}));
    service["metadata"]["name"] = json!(name);
    service["spec"] = json!({"model": {"uri": "hf://org/model", "name": "org/model"}, "replicas": 1});
    merge(&mut service["spec"], more);
    service
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

/// Engines of the decode half with this argument.
fn engine(argument: &str) -> Value {
    let env = json!([{"name": "VLLM_ADDITIONAL_ARGS", "value": argument}]);
    json!({"template": {"containers": [{"name": "main", "env": env}]}})
}

/// A picker with this filter, which knows nothing of prefill.
fn picker(filter: &Value) -> Value {
    let name = &filter["type"];
    json!({"router": {"scheduler": {"config": {"inline": {
        "apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig",
        "plugins": [filter, {"type": "single-profile-handler"}, {"type": "max-score-picker"}],
        "schedulingProfiles": [{"name": "default", "plugins": [{"pluginRef": name}, {"pluginRef": "max-score-picker"}]}],
    }}}}})
}

/// A route of the user's that takes no completions.
fn elsewhere() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "elsewhere", "namespace": "default"},
        "spec": {
            "parentRefs": [{"name": "kserve-ingress-gateway", "namespace": "kserve"}],
            "rules": [{
                "matches": [{"path": {"type": "Exact", "value": "/elsewhere"}}],
                // A pool to which no route leads is accepted by no Gateway, and then the service waits for one.
                "backendRefs": [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "llm-inference-pool"}],
            }],
        },
    })
}

fn apply(world: &LocalCluster, manifest: &Value) {
    let file = world.file("service.json", &manifest.to_string());
    world.ask(&["apply", "-f", &file]);
}

fn condition(world: &LocalCluster, service: &str, type_: &str) -> Option<Value> {
    let live = world.object(&["llmisvc", service]);
    live["status"]["conditions"].as_array()?.iter().find(|found| found["type"] == type_).cloned()
}

/// Waits until a condition says this, and returns its message.
fn says(world: &LocalCluster, type_: &str, status: &str, reason: &str) -> String {
    says_of(world, "llm", type_, status, reason)
}

/// The same of a service with this name.
pub(crate) fn says_of(
    world: &LocalCluster,
    service: &str,
    type_: &str,
    status: &str,
    reason: &str,
) -> String {
    until(&format!("{service}: {type_}={status} {reason}"), || {
        let found = condition(world, service, type_)?;
        (found["status"] == status && found["reason"].as_str().unwrap_or_default() == reason)
            .then(|| found["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// The faults that `longboat doctor` finds.
fn faults(world: &LocalCluster) -> Vec<String> {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_longboat"));
    doctor.env("KUBECONFIG", &world.kubeconfig).env_remove("RUST_LOG");
    let ended = run(doctor.args(["doctor", "-n", "default", "llm", "-o", "json"]));
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    let found: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    found.iter().map(|finding| finding["fault"].as_str().unwrap().to_owned()).collect()
}

/// What the engines of a service's pods that do this counted.
pub(crate) fn counted(world: &LocalCluster, service: &str, role: &str, series: &str) -> f64 {
    let labels = format!("app.kubernetes.io/name={service},llm-d.ai/role={role}");
    let pods = world.object(&["pods", "-l", &labels]);
    let addresses = pods["items"].as_array().unwrap().iter();
    addresses
        .filter_map(|pod| pod["status"]["podIP"].as_str())
        .map(|address| {
            let page = http::get(&format!("http://{address}:8000/metrics")).body;
            let samples = page.lines().filter(|line| line.starts_with(series));
            samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
        })
        .sum()
}

#[test]
fn each_link_that_breaks_flips_the_condition_with_its_name() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("service.json");
    // As a gate: `up` says that it serves when it is proven.
    let mut gated = service(&json!({}));
    gated["metadata"]["annotations"]["longboat.dev/serving-proof"] = json!("gate");
    let items =
        [gated, unrouted("alone", &json!({})), unrouted("apart", &json!({"prefill": {"replicas": 1}}))];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(&manifest, list.to_string()).unwrap();
    let world = LocalCluster::start(&[manifest.to_str().unwrap()]);

    let proven = |world: &LocalCluster| {
        let token = says(world, "ServingProven", "True", "TokenReceived");
        assert!(token.contains("answered with a token of model org/model"), "{token}");
        let transfer = says(world, "KVTransferObserved", "True", "KVTransferred");
        assert!(transfer.contains("vllm:external_prefix_cache_hits increased"), "{transfer}");
    };
    proven(&world);
    for name in ["alone", "apart"] {
        let said = says_of(&world, name, "ServingProven", "True", "TokenReceived");
        let address = world.object(&["service", &format!("{name}-kserve-workload-svc")]);
        let address = address["spec"]["clusterIP"].as_str().unwrap();
        assert!(said.contains(&format!("http://{address}:8000/v1/completions answered")), "{said}");
    }
    let said = says_of(&world, "apart", "KVTransferObserved", "False", "PrefillNotUsed");
    assert!(said.contains("no picker to choose one"), "{said}");
    world.ask(&["delete", "llmisvc", "alone", "apart", "--timeout=120s"]);
    // One request, whatever else is reconciled.
    world.ask(&["annotate", "llmisvc", "llm", "note=touched"]);
    world.ask(&["patch", "llmisvc", "llm", "--type=merge", "-p", r#"{"spec":{"labels":{}}}"#]);
    let annotated = || world.object(&["llmisvc", "llm"])["metadata"]["annotations"]["note"] == "touched";
    until("the annotation", annotated);
    for role in ["prefill", "decode"] {
        assert!(
            (counted(&world, "llm", role, "vllm:request_success_total") - 1.0).abs() < f64::EPSILON,
            "{role}"
        );
    }

    apply(&world, &service(&engine("--kv-transfer-loss-rate=100")));
    let said = says(&world, "KVTransferObserved", "False", "KVNotTransferred");
    assert!(said.contains("compare --kv-transfer-config"), "{said}");
    assert!(said.contains("connector of prefill and decode: none"), "{said}");
    says(&world, "ServingProven", "True", "TokenReceived");
    // The presets name no connector.
    assert_eq!(faults(&world), ["ConnectorMissing"]);

    apply(&world, &service(&engine("--served-model-name other")));
    let said = says(&world, "ServingProven", "False", "ModelNotServed");
    assert!(said.contains("does not serve a model named org/model"), "{said}");
    assert!(said.contains("--served-model-name"), "{said}");
    // A report does not keep the service from being ready.
    says(&world, "Ready", "True", "");
    assert_eq!(faults(&world), ["ModelNameDiffers"]);

    apply(&world, &elsewhere());
    let refs = json!({"router": {"gateway": null, "route": {"http": {"refs": [{"name": "elsewhere"}]}}}});
    apply(&world, &service(&refs));
    let said = says(&world, "ServingProven", "False", "NoRoute");
    assert!(said.contains("no HTTPRoute matches /elsewhere/v1/completions"), "{said}");

    // An engine that hangs: its service is reconciled all the same.
    apply(&world, &service(&engine("--inter-token-latency 10m")));
    says(&world, "ServingProven", "Unknown", "ProofPending");
    world.ask(&["patch", "llmisvc", "llm", "--type=merge", "-p", r#"{"spec":{"replicas":2}}"#]);
    until("a second pod", || world.object(&["deployment", "llm-kserve"])["status"]["availableReplicas"] == 2);
    let said = says(&world, "ServingProven", "False", "NoAnswer");
    assert!(said.contains("did not answer within 30 s"), "{said}");

    apply(&world, &service(&json!({})));
    proven(&world);

    // The pickers come last: one keeps its configuration when the service does not name one any more.
    apply(&world, &service(&picker(&json!({"type": "decode-filter"}))));
    let said = says(&world, "KVTransferObserved", "False", "PrefillNotUsed");
    assert!(said.contains("Check the prefill profile and its decider"), "{said}");
    says(&world, "ServingProven", "True", "TokenReceived");

    let nobody = json!({"type": "by-label", "parameters": {"label": "team", "validValues": ["nobody"]}});
    apply(&world, &service(&picker(&nobody)));
    let said = says(&world, "ServingProven", "False", "PickerFailed");
    assert!(said.contains("Check the logs of the picker"), "{said}");

    let mut off = service(&json!({}));
    off["metadata"]["annotations"] = json!({"longboat.dev/serving-proof": "off"});
    apply(&world, &off);
    until("no trace of a proof", || {
        let live = world.object(&["llmisvc", "llm"]);
        let text = live["status"].to_string();
        !text.contains("ServingProven") && !text.contains("serving-proof-record")
    });
}

#[test]
fn a_word_that_is_not_known_is_refused() {
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("service.json");
    let mut wrong = service(&json!({}));
    wrong["metadata"]["annotations"]["longboat.dev/serving-proof"] = json!("always");
    std::fs::write(&manifest, wrong.to_string()).unwrap();
    let ended = crate::local_cluster::up_to_its_end(&[manifest.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    for part in ["longboat.dev/serving-proof", "\"always\"", "\"off\", \"report\", \"gate\""] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}
