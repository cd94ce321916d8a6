//! Prints how long composing one single-node service takes: `compose_time [RUNS]`.

use std::{io::Write as _, time::Instant};

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::{Composer, ConfigSet, Inputs, Layer, NoConfigMaps, Platform, PresetNames, presets};

const SERVICE: &str = r"
metadata: {name: chat, namespace: default}
spec:
  model: {uri: 'hf://facebook/opt-125m', name: facebook/opt-125m}
  replicas: 2
  router: {route: {}, gateway: {}, scheduler: {}}
  template:
    containers:
    - name: main
      resources: {limits: {cpu: '2', memory: 8Gi}}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs: usize = std::env::args().nth(1).map_or(Ok(2_000), |runs| runs.parse())?;
    let names = PresetNames::default();
    let configs =
        presets::builtin(&names, "kserve")?.iter().map(Layer::new).collect::<Result<ConfigSet, _>>()?;
    let service: LLMInferenceService = serde_saphyr::from_str(SERVICE)?;
    let platform = Platform::default();
    let inputs = Inputs {
        service: &service,
        configs: &configs,
        config_maps: &NoConfigMaps,
        platform: &platform,
        system_namespace: "kserve",
        preset_names: &names,
    };
    let composer = Composer::default();
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        let effective = composer.compose(&inputs)?;
        times.push(start.elapsed());
        drop(effective);
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    writeln!(
        std::io::stdout(),
        "compose: median {:.1} µs, 95th percentile {:.1} µs, {} runs",
        at(50),
        at(95),
        times.len()
    )?;
    Ok(())
}
