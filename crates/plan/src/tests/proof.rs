//! When a request is due, how its outcome affects `Ready`, and what is kept after a restart.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use longboat_api::{conditions::Condition, v1alpha2::LLMInferenceServiceStatus};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, with_prefill, world},
    simulate,
};
use crate::proof::{
    Answer, Counters, Outcome, PodMetrics, Probe, ProbeError, ProbeObservation, Role, judge, next,
};

const RECORD: &str = "longboat.dev/serving-proof-record";

fn asking(mut service: Value, mode: &str) -> Value {
    service["metadata"]["annotations"] = json!({"longboat.dev/serving-proof": mode});
    service
}

fn pod(name: &str, address: &str, role: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "uid": name, "labels": {
            "app.kubernetes.io/name": "llm", "app.kubernetes.io/part-of": "llminferenceservice",
            "kserve.io/component": "workload", "llm-d.ai/role": role,
        }},
        "status": {"podIP": address},
    })
}

/// Makes all pods of all Deployments have the newest revision.
pub(super) fn rolled_out(world: &mut ClusterModel) {
    simulate::ready(world, NAMESPACE, &json!({}));
    let all: Vec<_> = world.snapshot.deployments.in_namespace(Namespace(NAMESPACE)).cloned().collect();
    for mut deployment in all {
        let status = deployment.status.get_or_insert_default();
        status.observed_generation = deployment.metadata.generation;
        (status.replicas, status.updated_replicas) = (status.available_replicas, status.available_replicas);
        world.snapshot.deployments.insert(Arc::new(deployment));
    }
    world.settle();
}

/// A world in which everything is ready and no request was sent.
fn ready(service: Value) -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    world.put(pod("a", "10.0.0.1", "decode"), NAMESPACE);
    world.put(pod("b", "10.0.0.2", "prefill"), NAMESPACE);
    world.put(service, NAMESPACE);
    world.settle();
    rolled_out(&mut world);
    world
}

fn status(world: &ClusterModel) -> LLMInferenceServiceStatus {
    world.services.values().next().unwrap().status.clone().unwrap()
}

pub(super) fn condition(world: &ClusterModel, type_: &str) -> Option<Condition> {
    status(world).conditions.into_iter().find(|condition| condition.type_ == type_)
}

/// Status and reason of a condition.
fn status_and_reason(world: &ClusterModel, type_: &str) -> String {
    condition(world, type_).map_or_else(String::new, |found| {
        let status = serde_json::to_value(found.status).unwrap();
        format!("{} {}", status.as_str().unwrap(), found.reason)
    })
}

fn due(world: &mut ClusterModel) -> Option<Probe> {
    let children = world.live_children();
    let service = world.services.values().next().unwrap();
    let spec = super::composing::compose(world, service).spec.unwrap();
    next(service, &spec, &children, &world.snapshot, &status(world)).unwrap()
}

/// Simulates the due request: it gets this response, and the counters of the engines show a transfer or not.
fn answered(world: &mut ClusterModel, answer: Result<(u16, &str), ProbeError>, transferred: bool) -> Outcome {
    let probe = due(world).expect("a request is due");
    let page = |text: &str| Counters::read(text.as_bytes());
    let pods = probe.pods.iter().map(|pod| match pod.role {
        Role::Decode => PodMetrics {
            before: Some(page("vllm:external_prefix_cache_hits_total 0")),
            after: Ok(page(&format!("vllm:external_prefix_cache_hits_total {}", u8::from(transferred)))),
        },
        Role::Prefill => PodMetrics {
            before: Some(page("vllm:prompt_tokens_total 0")),
            after: Ok(page("vllm:prompt_tokens_total 9")),
        },
    });
    let pods = pods.collect();
    let answer = answer.map(|(code, body)| Answer { code, body: body.as_bytes().to_vec() });
    let outcome = judge(&probe, &ProbeObservation { answer, pods, at: world.snapshot.now.as_second() });
    world.proof = Some(outcome.clone());
    world.settle();
    world.proof = None;
    world.settle();
    outcome
}

const TOKEN: &str = r#"{"model": "llm", "choices": [{"text": "a"}], "usage": {"prompt_tokens": 900, "completion_tokens": 1}}"#;

fn later(world: &mut ClusterModel, seconds: i64) {
    let now: Timestamp = world.snapshot.now;
    world.snapshot.now = now + SignedDuration::from_secs(seconds);
}

#[test]
fn who_does_not_ask_for_it_gets_no_condition_no_record_and_no_request() {
    for service in [plain(), asking(plain(), "off")] {
        let mut world = ready(service);
        assert!(due(&mut world).is_none());
        assert_eq!(
            status_and_reason(&world, "ServingProven") + &status_and_reason(&world, "KVTransferObserved"),
            ""
        );
        assert!(!status(&world).annotations.contains_key(RECORD));
        assert_eq!(status_and_reason(&world, "Ready"), "True ");
    }
}

#[test]
fn one_request_proves_and_nothing_more_is_asked_until_something_changes() {
    let mut world = ready(asking(plain(), "report"));
    assert_eq!(status_and_reason(&world, "ServingProven"), "Unknown ProofPending");
    assert_eq!(status_and_reason(&world, "Ready"), "True ", "it only reports");
    let probe = due(&mut world).unwrap();
    assert_eq!(probe.url, "http://127.0.0.1:8080/team/llm/v1/completions");
    assert!(probe.delay.is_zero() && !probe.disaggregated && probe.model_header.is_none());
    answered(&mut world, Ok((200, TOKEN)), false);
    assert_eq!(status_and_reason(&world, "ServingProven"), "True TokenReceived");
    assert!(due(&mut world).is_none());
    // After a restart, only the record is known.
    later(&mut world, 86_400);
    world.settle();
    assert!(due(&mut world).is_none());

    world.put(pod("c", "10.0.0.3", "both"), NAMESPACE);
    world.settle();
    assert_eq!(
        status_and_reason(&world, "ServingProven"),
        "True TokenReceived",
        "what was proven holds until it is disproven"
    );
    assert!(due(&mut world).unwrap().delay.is_zero());
    answered(&mut world, Ok((200, TOKEN)), false);
    world.put(pod("d", "10.0.0.4", "both"), NAMESPACE);
    world.settle();
    assert_eq!(due(&mut world).unwrap().delay.as_secs(), 10, "pods may come one after the other");
    answered(&mut world, Err(ProbeError::Connection("refused".into())), false);
    assert_eq!(status_and_reason(&world, "ServingProven"), "False GatewayUnreachable");
}

#[test]
fn a_failure_is_tried_again_a_few_times_and_then_waits_for_a_change() {
    let mut world = ready(asking(plain(), "report"));
    let mut delays = Vec::new();
    while let Some(probe) = due(&mut world) {
        delays.push(probe.delay.as_secs());
        answered(&mut world, Ok((503, "")), false);
        let message = condition(&world, "ServingProven").unwrap().message;
        assert!(message.contains(&format!("(attempt {} of 5; ", delays.len())), "{message}");
        assert!(delays.len() <= 5, "it is a loop");
    }
    assert_eq!(delays, [0, 2, 10, 30, 120]);
    assert_eq!(status_and_reason(&world, "ServingProven"), "False PickerFailed");
    assert!(condition(&world, "ServingProven").unwrap().message.contains("a change of pods or routes"));
    later(&mut world, 86_400);
    assert!(due(&mut world).is_none());
    world.put(pod("c", "10.0.0.3", "both"), NAMESPACE);
    world.settle();
    answered(&mut world, Ok((200, TOKEN)), false);
    assert_eq!(status_and_reason(&world, "ServingProven"), "True TokenReceived");
}

#[test]
fn pods_that_neither_prefill_nor_decode_are_no_evidence() {
    let mut world = ready(asking(with_prefill(), "report"));
    world.put(pod("e", "10.0.0.9", "encode"), NAMESPACE);
    world.settle();
    let pods = due(&mut world).unwrap().pods;
    let names: Vec<_> = pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn ready_waits_for_the_proof_where_it_is_a_gate_and_no_longer_when_it_is_none() {
    let mut world = ready(asking(with_prefill(), "gate"));
    assert_eq!(status_and_reason(&world, "Ready"), "Unknown ProofPending");
    answered(&mut world, Ok((200, TOKEN)), false);
    assert_eq!(status_and_reason(&world, "ServingProven"), "True TokenReceived");
    assert_eq!(status_and_reason(&world, "KVTransferObserved"), "False KVNotTransferred");
    assert_eq!(status_and_reason(&world, "Ready"), "False KVNotTransferred");
    answered(&mut world, Ok((200, TOKEN)), true);
    assert_eq!(status_and_reason(&world, "KVTransferObserved"), "True KVTransferred");
    assert_eq!(status_and_reason(&world, "Ready"), "True ");

    world.put(pod("c", "10.0.0.3", "decode"), NAMESPACE);
    world.settle();
    answered(&mut world, Ok((404, "no HTTPRoute")), false);
    assert_eq!(status_and_reason(&world, "Ready"), "False NoRoute");
    let proven = status(&world);
    world.put(asking(with_prefill(), "report"), NAMESPACE);
    world.settle();
    assert_eq!(status_and_reason(&world, "Ready"), "True ", "{proven:#?}");
    assert_eq!(status_and_reason(&world, "ServingProven"), "False NoRoute");
    world.put(asking(with_prefill(), "gate"), NAMESPACE);
    world.settle();
    assert_eq!(status_and_reason(&world, "Ready"), "False NoRoute");
    world.put(asking(with_prefill(), "off"), NAMESPACE);
    world.settle();
    assert_eq!(status_and_reason(&world, "Ready"), "True ");
    assert_eq!(
        status_and_reason(&world, "ServingProven") + &status_and_reason(&world, "KVTransferObserved"),
        ""
    );
    assert!(!status(&world).annotations.contains_key(RECORD));
}

#[test]
fn another_image_is_another_subject_and_a_roll_out_is_waited_for_by_name() {
    let mut world = ready(asking(with_prefill(), "gate"));
    let probe = due(&mut world).unwrap();
    assert!(probe.disaggregated);
    let roles: Vec<_> = probe.pods.iter().map(|pod| (pod.name.as_str(), pod.role)).collect();
    assert_eq!(roles, [("a", Role::Decode), ("b", Role::Prefill)]);
    answered(&mut world, Ok((200, TOKEN)), true);
    assert_eq!(status_and_reason(&world, "Ready"), "True ");
    let mut changed = asking(with_prefill(), "gate");
    changed["spec"]["prefill"]["template"] =
        json!({"containers": [{"name": "main", "image": "example.com/vllm:2"}]});
    world.put(changed, NAMESPACE);
    world.settle();
    assert_eq!(status_and_reason(&world, "ServingProven"), "Unknown WaitingForRollout");
    let message = condition(&world, "KVTransferObserved").unwrap().message;
    assert!(message.contains("Deployment llm-kserve-prefill has not started the rollout"), "{message}");
    assert!(message.contains("different revisions may not be able to exchange KV cache"), "{message}");
    assert!(due(&mut world).is_none());

    let mut half =
        world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve-prefill")).unwrap().clone();
    let said_so = half.status.get_or_insert_default();
    said_so.observed_generation = half.metadata.generation;
    (said_so.replicas, said_so.updated_replicas) = (Some(2), Some(1));
    world.snapshot.deployments.insert(Arc::new(half));
    world.settle();
    let message = condition(&world, "Ready").unwrap().message;
    let progress = "Deployment llm-kserve-prefill has 1 of 1 pods of the newest revision, 1 of 1 available, and 1 of an older one";
    assert!(message.contains(progress), "{message}");
    rolled_out(&mut world);
    assert_eq!(status_and_reason(&world, "Ready"), "Unknown ProofPending");
    answered(&mut world, Ok((200, TOKEN)), true);
    assert_eq!(status_and_reason(&world, "Ready"), "True ");
}

#[test]
fn who_is_stopped_or_scaled_to_zero_is_not_asked() {
    let mut world = ready(asking(plain(), "gate"));
    answered(&mut world, Ok((200, TOKEN)), false);
    let mut stopped = asking(plain(), "gate");
    stopped["metadata"]["annotations"]["serving.kserve.io/stop"] = json!("true");
    world.put(stopped, NAMESPACE);
    world.settle();
    assert_eq!(status_and_reason(&world, "ServingProven"), "");
    assert_eq!(status_and_reason(&world, "Ready"), "False Stopped");
    assert!(due(&mut world).is_none());
    let mut none = asking(plain(), "report");
    none["spec"]["replicas"] = json!(0);
    let mut world = ready(none);
    assert_eq!(status_and_reason(&world, "ServingProven"), "Unknown NothingToAsk");
    assert!(due(&mut world).is_none());
}

#[test]
fn a_word_that_slipped_past_admission_is_told_and_asks_for_nothing() {
    let mut world = ready(asking(plain(), "always"));
    assert_eq!(status_and_reason(&world, "ServingProven"), "False ProofSettingInvalid");
    assert_eq!(status_and_reason(&world, "Ready"), "True ");
    assert!(due(&mut world).is_none());
    let message = condition(&world, "ServingProven").unwrap().message;
    assert!(
        message.contains("longboat.dev/serving-proof: \"always\" is unknown: expected \"off\""),
        "{message}"
    );
}

#[test]
fn a_picker_that_spares_short_prompts_is_asked_with_a_long_one() {
    let mut service = asking(with_prefill(), "report");
    service["spec"]["router"]["scheduler"] = json!({"config": {"inline": {
        "apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig",
        "plugins": [
            {"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": 2000}},
            {"type": "max-score-picker"},
        ],
        "schedulingProfiles": [{"name": "default", "plugins": [{"pluginRef": "max-score-picker"}]}],
    }}});
    let mut world = ready(service);
    let body: Value = serde_json::from_slice(&due(&mut world).unwrap().body(0, None)).unwrap();
    assert_eq!(body["prompt"].as_str().unwrap().split(' ').count(), 2001);
}
