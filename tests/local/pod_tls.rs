//! TLS between the gateway and the pods of a service.

use serde_json::{Value, json};

use crate::{
    load::Load,
    local_cluster::{LocalCluster, MODEL, example, turn},
    tools,
    wait::until,
};

/// The schemes of the readiness probes of the model servers that run.
fn schemes(world: &LocalCluster) -> Vec<String> {
    let pods = world.object(&["pods", "-l", "kserve.io/component=workload"]);
    let probe = "/spec/containers/0/readinessProbe/httpGet/scheme";
    let scheme = |pod: &Value| pod.pointer(probe).and_then(Value::as_str).unwrap_or("HTTP").to_owned();
    pods["items"].as_array().unwrap().iter().map(scheme).collect()
}

#[test]
fn a_service_that_serves_gets_tls_and_loses_it_again_without_a_failed_request() {
    if tools::kubectl().is_none() {
        return;
    }
    let _turn = turn();
    let world = LocalCluster::start(&[example().to_str().unwrap()]);
    let settings = world.object(&["cm", "inferenceservice-config", "-n", "kserve"]);
    let mut ingress: Value = serde_json::from_str(settings["data"]["ingress"].as_str().unwrap()).unwrap();
    let load = Load::streams(&world.url, MODEL);
    load.goes_on();
    for (tls, scheme) in [(true, "HTTPS"), (false, "HTTP")] {
        ingress["enableLLMInferenceServiceTLS"] = tls.into();
        let patch = json!({"data": {"ingress": ingress.to_string()}}).to_string();
        world.ask(&["patch", "cm", "inferenceservice-config", "-n", "kserve", "--type=merge", "-p", &patch]);
        until("pods of the other kind only", || (schemes(&world) == [scheme]).then_some(()));
        load.goes_on();
    }
    let failed = load.end();
    assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed.first());
}
