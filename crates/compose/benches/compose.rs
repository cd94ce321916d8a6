//! Measures how long composition takes: for a typical service (three presets, two base configs, its own spec) and for the
//! largest one (prefill and decode over several nodes, scheduler, tokenizer, route, tracing).
//!
//! `cargo bench -p longboat-compose`; a number as argument sets the number of runs.

use std::{collections::BTreeMap, hint::black_box, io::Write as _, time::Instant};

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_compose::{Composer, ConfigSet, Inputs, Layer, Platform, PresetNames, presets};
use longboat_key::Namespace;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TYPICAL: &str = r"
metadata: {name: chat, namespace: default}
spec:
  model: {uri: 'hf://facebook/opt-125m', name: facebook/opt-125m}
  baseRefs: [{name: team}, {name: size}]
  replicas: 2
  router: {route: {}, gateway: {}, scheduler: {}}
  template:
    containers:
    - name: main
      resources: {limits: {cpu: '2', memory: 8Gi}}
";

const WIDEST: &str = r"
metadata: {name: chat, namespace: default}
spec:
  model: {uri: 'hf://facebook/opt-125m', name: facebook/opt-125m}
  baseRefs: [{name: team}, {name: size}]
  replicas: 2
  parallelism: {tensor: 2, data: 4, dataLocal: 2, expert: true}
  kvCacheOffloading: {cpu: 1Gi, evictionPolicy: lru}
  template: {containers: [{name: main, args: [--max-model-len, '1000']}]}
  worker: {containers: [{name: main, args: [--max-model-len, '1000']}]}
  prefill:
    parallelism: {tensor: 2, data: 4, dataLocal: 2}
    kvCacheOffloading: {cpu: 1Gi, evictionPolicy: lru}
    template: {containers: []}
    worker: {containers: []}
  tracing: {exporterEndpoint: 'http://otel:4317'}
  router: {route: {}, gateway: {}, scheduler: {tokenizer: {}}}
";

const BASES: [&str; 2] = [
    r"
metadata: {name: team, namespace: default}
spec:
  labels: {team: a}
  template:
    nodeSelector: {zone: a}
    tolerations: [{key: gpu, operator: Exists}]
    containers: [{name: main, env: [{name: HF_HUB_OFFLINE, value: '0'}, {name: TEAM, value: a}]}]
",
    r"
metadata: {name: size, namespace: kserve}
spec:
  template: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: '1'}}}]}
",
];

const RUNS: usize = 3_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo adds flags, which are not numbers and are skipped.
    let runs = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(RUNS).max(1);
    let names = PresetNames::default();
    let mut configs = presets::builtin(&names, Namespace("kserve"))?
        .iter()
        .map(Layer::new)
        .collect::<Result<ConfigSet, _>>()?;
    for text in BASES {
        let config: LLMInferenceServiceConfig = serde_saphyr::from_str(text)?;
        configs.insert(Layer::new(&config)?);
    }
    let platform = Platform::default();
    for (name, text) in [("typical", TYPICAL), ("widest", WIDEST)] {
        let service: LLMInferenceService = serde_saphyr::from_str(text)?;
        let inputs = Inputs {
            service: &service,
            configs: &configs,
            config_maps: &BTreeMap::new(),
            platform: &platform,
            system_namespace: Namespace("kserve"),
            preset_names: &names,
        };
        let composer = Composer::default();
        let layers = composer.compose(&inputs)?.applied.len() + 1;
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            let start = Instant::now();
            let effective = black_box(composer.compose(black_box(&inputs))?);
            times.push(start.elapsed());
            drop(effective);
        }
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
        writeln!(
            std::io::stdout(),
            "compose {name}: {layers} layers, fastest {:.1} µs, median {:.1} µs, 95th percentile {:.1} µs, {runs} runs",
            at(0),
            at(50),
            at(95)
        )?;
    }
    Ok(())
}
