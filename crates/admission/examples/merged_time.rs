//! How long it takes to say whether an API server would accept a merged spec: the single-node sample with managed gateway, route
//! and scheduler, under another name each time, as for many services.
//!
//! `cargo run --release -p longboat-admission --example merged_time`

use std::{
    collections::BTreeMap,
    hint::black_box,
    time::{Duration, Instant},
};

use longboat_admission::MergedSpecs;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_compose::{
    Composer, ConfigSet, Inputs, Layer, NoConfigMaps, PresetNames, platform::Platform, presets,
};
use serde_json::json;

const SERVICES: usize = 2_000;
const SYSTEM_NAMESPACE: &str = "kserve";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = [
        ("ingress", r#"{"ingressGateway": "x/y", "kserveIngressGateway": "kserve/kserve-ingress-gateway"}"#),
        (
            "storageInitializer",
            r#"{"image": "i", "cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "100Mi", "memoryLimit": "1Gi"}"#,
        ),
    ];
    let data: BTreeMap<String, String> =
        data.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
    let platform = Platform::parse(&data, SYSTEM_NAMESPACE)?;
    let preset_names = PresetNames::default();
    let mut configs = ConfigSet::default();
    for preset in presets::builtin(&preset_names, SYSTEM_NAMESPACE)? {
        configs.insert(Layer::new(&preset)?);
    }
    let composer = Composer::default();
    let merged = |number: usize| -> Result<Box<LLMInferenceServiceSpec>, Box<dyn std::error::Error>> {
        let service: LLMInferenceService = serde_json::from_value(json!({
            "metadata": {"name": format!("llm-{number}"), "namespace": "team", "uid": number.to_string()},
            "spec": {
                "model": {"uri": "hf://facebook/opt-125m", "name": "facebook/opt-125m"},
                "replicas": 1,
                "router": {"gateway": {}, "route": {}, "scheduler": {}},
            },
        }))?;
        let inputs = Inputs {
            service: &service,
            configs: &configs,
            config_maps: &NoConfigMaps,
            platform: &platform,
            system_namespace: SYSTEM_NAMESPACE,
            preset_names: &preset_names,
        };
        Ok(composer.compose(&inputs)?.spec)
    };

    let judge = MergedSpecs::default();
    let start = Instant::now();
    assert_eq!(judge.rejection(merged(0)?.as_ref()), None, "the sample is accepted");
    let first = start.elapsed();
    let mut times = Vec::with_capacity(SERVICES);
    for number in 1..=SERVICES {
        let spec = merged(number)?;
        let start = Instant::now();
        black_box(judge.rejection(black_box(&spec)));
        times.push(start.elapsed());
    }
    times.sort_unstable();
    report(first, times[SERVICES / 2]);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the numbers are the output")]
fn report(first: Duration, median: Duration) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "judge a merged spec {:.1} µs (median of {SERVICES}); the first, which compiles the schema, {:.1} µs",
        micros(median),
        micros(first)
    );
}
