//! Measures how long the admission of one object takes, from the bytes of a review to those of the response: a mutating and a
//! validating review of a service, and a validating review of the largest preset.
//!
//! `cargo run --release -p longboat-admission --example review_time`

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use longboat_admission::{Action, Facts, Hook, Subject, Version, review};
use longboat_compose::{PresetNames, presets};
use longboat_key::Namespace;
use serde_json::{Value, json};

const ROUNDS: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    let largest = presets::builtin(&PresetNames::default(), Namespace("kserve"))?
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
    report(time(&mutate), time(&validate), time(&preset));
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
fn report(mutate: Duration, validate: Duration, preset: Duration) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "default {:.1} µs, validate {:.1} µs, together {:.1} µs; validate the largest preset {:.1} µs (medians of {ROUNDS})",
        micros(mutate),
        micros(validate),
        micros(mutate + validate),
        micros(preset)
    );
}
