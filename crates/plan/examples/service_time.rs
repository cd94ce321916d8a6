//! Measures how long it takes to compose and plan one service, and to check whether an API server would accept the composed
//! spec. The service is the single-node example with managed gateway, route and scheduler. Then measures how long the
//! admission of one object takes, from the bytes of a review to those of the response: a mutating and a validating review of
//! a service, and a validating review of the largest preset.
//!
//! `cargo run --release -p longboat-plan --example service_time`

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::jiff::Timestamp;
use longboat_admission::{Action, Facts, Hook, MergedSpecs, Subject, Version, review};
use longboat_api::{foreign::gateway::Gateway, v1alpha2::LLMInferenceService};
use longboat_compose::{Composer, ConfigSet, Inputs, Layer, PresetNames, platform::Platform, presets};
use longboat_key::Namespace;
use longboat_plan::{Snapshot, children};
use serde_json::{Value, json};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 2_000;
const SYSTEM_NAMESPACE: Namespace<&str> = Namespace("kserve");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    plans()?;
    reviews()
}

fn plans() -> Result<(), Box<dyn std::error::Error>> {
    let service: LLMInferenceService = serde_json::from_value(json!({
        "metadata": {"name": "llm", "namespace": "team", "uid": "1", "generation": 1},
        "spec": {
            "model": {"uri": "hf://facebook/opt-125m", "name": "facebook/opt-125m"},
            "replicas": 1,
            "router": {"gateway": {}, "route": {}, "scheduler": {}},
        },
    }))?;
    let gateway: Gateway = serde_json::from_value(json!({
        "metadata": {"name": "kserve-ingress-gateway", "namespace": *SYSTEM_NAMESPACE},
        "spec": {"gatewayClassName": "x", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    }))?;
    let data = [
        ("ingress", r#"{"ingressGateway": "x/y", "kserveIngressGateway": "kserve/kserve-ingress-gateway"}"#),
        (
            "storageInitializer",
            r#"{"image": "i", "cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "100Mi", "memoryLimit": "1Gi"}"#,
        ),
    ];
    let data: BTreeMap<String, String> =
        data.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
    let platform = Arc::new(Platform::parse(&data, SYSTEM_NAMESPACE)?);
    let mut snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH, platform.clone(), SYSTEM_NAMESPACE.to_shared());
    snapshot.gateways.insert(Arc::new(gateway));

    let names = PresetNames::default();
    let mut configs = ConfigSet::default();
    for preset in presets::builtin(&names, SYSTEM_NAMESPACE)? {
        configs.insert(Layer::new(&preset)?);
    }
    let inputs = Inputs {
        service: &service,
        configs: &configs,
        config_maps: &BTreeMap::new(),
        platform: &platform,
        system_namespace: SYSTEM_NAMESPACE,
        preset_names: &names,
    };
    let composer = Composer::default();
    let effective = composer.compose(&inputs)?;
    let plan = children(&service, &effective.spec, &snapshot)?;
    assert_eq!(plan.problem, None, "the sample plans");

    let compose_time = median(|| drop(black_box(composer.compose(black_box(&inputs)))));
    let plan_time = median(|| drop(black_box(children(&service, black_box(&effective.spec), &snapshot))));

    // Each has another name, like many services in a cluster, because rules remember the values for which they held.
    let mut merged = Vec::with_capacity(ROUNDS);
    for number in 0..ROUNDS {
        let mut other = service.clone();
        other.metadata.name = Some(format!("llm-{number}"));
        merged.push(composer.compose(&Inputs { service: &other, ..inputs })?.spec);
    }
    let judge = MergedSpecs::default();
    assert_eq!(judge.rejection(&effective.spec), None, "the sample is accepted");
    let mut specs = merged.iter();
    let judge_time = median(|| drop(black_box(specs.next().map(|spec| judge.rejection(black_box(spec))))));
    report(compose_time, plan_time, judge_time);
    Ok(())
}

fn reviews() -> Result<(), Box<dyn std::error::Error>> {
    let facts = Facts::default();
    let service = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {
            "name": "llm", "namespace": "team", "uid": "1", "generation": 1,
            "managedFields": [{
                "manager": "kubectl", "operation": "Apply", "apiVersion": "serving.kserve.io/v1alpha2",
                "time": "2026-11-20T10:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:model": {"f:uri": {}}, "f:replicas": {}, "f:router": {}, "f:template": {}}},
            }],
        },
        "spec": {
            "model": {"uri": "hf://facebook/opt-125m"},
            "replicas": 2,
            "parallelism": {"tensor": 2},
            "router": {"gateway": {}, "route": {}, "scheduler": {}},
            "template": {
                "containers": [{
                    "name": "main",
                    "image": "vllm/vllm-openai:latest",
                    "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}],
                    "args": ["--max-model-len", "8192"],
                    "resources": {
                        "limits": {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1"},
                        "requests": {"cpu": "2", "memory": "16Gi"},
                    },
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5},
                }],
            },
        },
    });
    let largest = presets::builtin(&PresetNames::default(), SYSTEM_NAMESPACE)?
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .max_by_key(|preset| preset.to_string().len())
        .ok_or("there are presets")?;

    let of = |action, subject| Hook { action, subject, version: Version::V1Alpha2 };
    let mutate = (of(Action::Mutate, Subject::Service), body(Subject::Service, &service));
    let validate = (of(Action::Validate, Subject::Service), body(Subject::Service, &service));
    let preset = (of(Action::Validate, Subject::Config), body(Subject::Config, &largest));
    let time =
        |(hook, body): &(Hook, Vec<u8>)| median(|| drop(black_box(review(*hook, black_box(body), &facts))));
    for (hook, body) in [&mutate, &validate, &preset] {
        let reply: Value = serde_json::from_slice(&review(*hook, body, &facts)?)?;
        assert_eq!(reply["response"]["allowed"], true, "{reply}");
    }
    report_reviews(time(&mutate), time(&validate), time(&preset));
    Ok(())
}

fn body(subject: Subject, object: &Value) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "resource": {"group": "serving.kserve.io", "version": "v1alpha2", "resource": subject.resource()},
            "operation": "CREATE",
            "object": object,
        },
    });
    review.to_string().into_bytes()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(mut round: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

#[expect(clippy::print_stdout, reason = "the numbers are the output")]
fn report(compose_time: Duration, plan_time: Duration, judge_time: Duration) {
    println!(
        "compose {:.1} µs, plan {:.1} µs, together {:.1} µs; judge what was composed {:.1} µs (medians of {ROUNDS})",
        micros(compose_time),
        micros(plan_time),
        micros(compose_time + plan_time),
        micros(judge_time)
    );
}

#[expect(clippy::print_stdout, reason = "the numbers are the output")]
fn report_reviews(mutate: Duration, validate: Duration, preset: Duration) {
    println!(
        "default {:.1} µs, validate {:.1} µs, together {:.1} µs; validate the largest preset {:.1} µs (medians of {ROUNDS})",
        micros(mutate),
        micros(validate),
        micros(mutate + validate),
        micros(preset)
    );
}
