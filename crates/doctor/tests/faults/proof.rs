//! Services that report Ready and cannot serve, or that compute every prompt twice.

use longboat_doctor::{Engine, Facts, Finding, Severity, examine, to_text};
use serde_json::{Value, json};

use crate::world::{LLM, READY, condition, object, only, service, well};

const CONNECTOR: &str = "--kv-transfer-config {\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}";

fn pod(role: &str, args: &str) -> Value {
    let sidecar = json!([{"name": "llm-d-routing-sidecar", "command": ["/app/pd-sidecar"]}]);
    json!({
        "metadata": {"name": format!("llm-{role}"), "namespace": "ns", "labels": {
            "app": "llm", "app.kubernetes.io/name": "llm", "llm-d.ai/role": role,
        }},
        "spec": {
            "initContainers": if role == "decode" { sidecar } else { json!([]) },
            "containers": [{
                "name": "main", "command": ["/bin/bash", "-c", "case $* in *--kv-transfer-config* | *) ;; esac; vllm serve"],
                "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": args}],
            }],
        },
        "status": {"conditions": [condition("Ready", "True", "", "")]},
    })
}

/// A service with separate prefill and without faults.
fn apart() -> Facts {
    let mut facts = well();
    let mut whole = service(&READY);
    whole["spec"]["prefill"] = json!({});
    whole["spec"]["model"]["name"] = json!("org/model");
    facts.services = vec![std::sync::Arc::new(object(whole))];
    facts.pods = vec![object(pod("decode", CONNECTOR)), object(pod("prefill", CONNECTOR))];
    for name in ["ns/llm-decode", "ns/llm-prefill"] {
        let models = vec!["org/model".to_owned(), "publishers/ns/models/org/model".to_owned()];
        facts.engines.insert(name.to_owned(), Engine { version: Some("0.22.0".into()), models });
    }
    facts
}

/// Like [`apart`], after a proof request with this condition.
fn asked(type_: &str, reason: &str, message: &str) -> Facts {
    let mut facts = apart();
    let mut service = (*facts.services[0]).clone();
    let status = service.status.as_mut().unwrap();
    status.conditions.push(object(condition(type_, "False", reason, message)));
    facts.services = vec![std::sync::Arc::new(service)];
    facts
}

fn with(mut facts: Facts, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    change(&mut facts);
    examine(&facts)
}

const MISSING: &str = "KVNotTransferred";

#[test]
fn halves_that_fit_each_other_are_well() {
    assert_eq!(to_text(&examine(&apart())), "");
    let found = with(apart(), |facts| {
        facts.local = true;
        facts.pods[0] = object(pod("decode", ""));
    });
    assert_eq!(to_text(&found), "", "the simulator needs no connector");
}

#[test]
fn a_missing_connector_is_found_with_the_proof_and_doubted_without() {
    let bare = |facts: &mut Facts| facts.pods[1] = object(pod("prefill", "--max-model-len 9"));
    let found = with(asked("KVTransferObserved", MISSING, "computed again"), bare);
    let finding = only(&found, "ConnectorMissing", LLM, "every prompt is computed twice", "NixlConnector");
    assert_eq!(finding.severity, Severity::Broken);
    assert_eq!(finding.chain, ["KVTransferObserved=False KVNotTransferred", "Pod ns/llm-prefill"]);
    let doubt = only(
        &with(apart(), bare),
        "ConnectorMissing",
        LLM,
        "no --kv-transfer-config",
        "spec.prefill.template",
    );
    assert_eq!(doubt.severity, Severity::Warning);
    // A connector that moves KV cache within a pod does not transfer it between pods.
    let offloading = CONNECTOR.replace("NixlConnector", "OffloadingConnector");
    let found = with(apart(), |facts| facts.pods[0] = object(pod("decode", &offloading)));
    only(&found, "ConnectorMissing", LLM, "no KV connector", "--kv-transfer-config");
    let other = CONNECTOR.replace("NixlConnector", "MooncakeConnector");
    let found = with(apart(), |facts| facts.pods[0] = object(pod("decode", &other)));
    only(
        &found,
        "ConnectorsDiffer",
        LLM,
        "decode uses MooncakeConnector, prefill uses NixlConnector",
        "for prefill and decode",
    );
}

#[test]
fn engines_of_different_versions_are_found() {
    let older = |facts: &mut Facts| {
        facts.engines.get_mut("ns/llm-prefill").unwrap().version = Some("0.21.1".into());
    };
    for facts in [apart(), asked("KVTransferObserved", MISSING, "computed again")] {
        only(
            &with(facts, older),
            "EngineVersionsDiffer",
            LLM,
            "the decode engine has version 0.22.0, the prefill engine has version 0.21.1 (Pod ns/llm-prefill)",
            "the same image",
        );
    }
}

#[test]
fn a_policy_that_closes_the_port_of_the_transfer_is_found() {
    let policy = |ingress: Value, selector: Value| {
        let spec = json!({"podSelector": selector, "policyTypes": ["Ingress"], "ingress": ingress});
        json!({"metadata": {"name": "strict", "namespace": "ns"}, "spec": spec})
    };
    let set = |ingress: Value, selector: Value| {
        with(asked("KVTransferObserved", "TransferFailed", "failed transfers"), |facts| {
            facts.network_policies = vec![object(policy(ingress, selector))];
        })
    };
    let prefill = json!({"matchLabels": {"llm-d.ai/role": "prefill"}});
    let served = json!([{"ports": [{"port": 8000}]}]);
    let found = set(served.clone(), prefill.clone());
    let cause = "NetworkPolicy ns/strict blocks port 5600";
    only(&found, "TransferPortBlocked", LLM, cause, "allows the decode pods to reach port 5600");
    only(&set(json!([]), json!({})), "TransferPortBlocked", LLM, "port 5600", "5600");
    for (ingress, selector) in [
        (json!([{"ports": [{"port": 5000, "endPort": 6000}]}]), prefill.clone()),
        (json!([{"from": [{"podSelector": {}}]}]), prefill.clone()),
        (json!([{"ports": [{"port": 8000}]}, {"ports": [{"protocol": "TCP"}]}]), prefill),
        (
            served,
            json!({"matchExpressions": [{"key": "llm-d.ai/role", "operator": "NotIn", "values": ["prefill"]}]}),
        ),
    ] {
        let said = only(
            &set(ingress, selector),
            "KVNotTransferred",
            LLM,
            "failed transfers",
            "what the message says",
        );
        assert_eq!(said.chain, ["KVTransferObserved=False TransferFailed"]);
    }
}

#[test]
fn a_model_under_another_name_is_found_with_the_proof_and_without() {
    let renamed = |facts: &mut Facts| {
        for engine in facts.engines.values_mut() {
            engine.models = vec!["other".into()];
        }
    };
    let words = "the engine serves other, but clients request org/model";
    for facts in [apart(), asked("ServingProven", "ModelNotServed", "not served")] {
        only(&with(facts, renamed), "ModelNameDiffers", LLM, words, "--served-model-name");
    }
    let found =
        with(asked("ServingProven", "WrongModel", "a model x answered"), |facts| facts.engines.clear());
    only(&found, "ModelNameDiffers", LLM, "a model x answered", "spec.model.name");
}

#[test]
fn other_links_are_told_as_the_proof_names_them() {
    let found = with(asked("ServingProven", "PickerFailed", "the picker gave no endpoint"), |_| {});
    only(&found, "ServingNotProven", LLM, "the picker gave no endpoint", "what the message says");
    let unused = || asked("KVTransferObserved", "PrefillNotUsed", "no prefill pod worked");
    only(&with(unused(), |_| {}), "PrefillNotUsed", LLM, "no prefill pod worked", "what the message says");
    let found = with(unused(), |facts| facts.pods[0].spec.as_mut().unwrap().init_containers = None);
    only(&found, "SidecarMissing", LLM, "no routing sidecar", "config-llm-decode-template");

    // If the proof gates readiness, the proof is the cause of a service that is not ready, but only if there is no other
    // cause.
    let mut gated = service(&[
        ("Ready", "False", "NoRoute", "no route"),
        ("ServingProven", "False", "NoRoute", "no route"),
        ("KVTransferObserved", "Unknown", "ProofPending", "see ServingProven"),
    ]);
    gated["spec"]["prefill"] = json!({});
    let found = with(apart(), |facts| facts.services = vec![std::sync::Arc::new(object(gated))]);
    let finding = only(&found, "ServingNotProven", LLM, "no route", "what the message says");
    assert_eq!(finding.chain, ["ServingProven=False NoRoute"]);
}
