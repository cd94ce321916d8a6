//! Measures how long it takes to compose and plan one service, and to check whether an API server would accept the composed
//! spec. The service is the single-node example with managed gateway, route and scheduler.
//!
//! `cargo run --release -p longboat-plan --example plan_time`

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::jiff::Timestamp;
use longboat_admission::MergedSpecs;
use longboat_api::{foreign::gateway::Gateway, v1alpha2::LLMInferenceService};
use longboat_compose::{
    Composer, ConfigSet, Inputs, Layer, NoConfigMaps, PresetNames, platform::Platform, presets,
};
use longboat_key::Namespace;
use longboat_plan::{Snapshot, children};
use serde_json::json;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 2_000;
const SYSTEM_NAMESPACE: Namespace<&str> = Namespace("kserve");

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
        config_maps: &NoConfigMaps,
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
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "compose {:.1} µs, plan {:.1} µs, together {:.1} µs; judge what was composed {:.1} µs (medians of {ROUNDS})",
        micros(compose_time),
        micros(plan_time),
        micros(compose_time + plan_time),
        micros(judge_time)
    );
}
