//! How many picks a second one thread makes: 10 endpoints, KServe's generated configuration, 1 KiB prompts of which
//! half repeat. Run with `--release`.

use std::{collections::BTreeMap, io::Write, sync::Arc, time::Instant};

use longboat_scheduler::{
    Endpoint, Metrics, NoHeaders, Options, Prompt, Request, Scheduler, Slots, Snapshot,
    config::EndpointPickerConfig,
};
use rand::{SeedableRng, rngs::SmallRng};

const CONFIG: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: no-hit-lru-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: no-hit-lru-scorer, weight: 2}
  - {pluginRef: max-score-picker}
";

const PICKS: u32 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = Scheduler::new(&EndpointPickerConfig::parse(CONFIG)?, Options::default())?;
    let mut state = scheduler.state();
    let mut slots = Slots::default();
    let candidates: Vec<Snapshot> = (0..10_u8)
        .map(|index| {
            let address = ([10, 0, 0, index], 8000).into();
            Snapshot {
                endpoint: Arc::new(Endpoint {
                    slot: slots.take(),
                    namespace: "ns".to_owned(),
                    name: format!("pod-{index}-rank-0"),
                    address,
                    host_port: address.to_string(),
                    labels: BTreeMap::new(),
                }),
                metrics: Arc::new(Metrics {
                    waiting: f64::from(index % 4),
                    kv_usage: f64::from(index) / 20.0,
                    block_size: 16,
                    num_blocks: 20_000,
                    ..Metrics::default()
                }),
                fresh: true,
            }
        })
        .collect();
    let prompts: Vec<[Prompt; 1]> = (0..10_000_u32)
        .map(|index| {
            let text = format!("conversation {} ", index / 2).repeat(80);
            [Prompt::from(text.into_bytes()[..1024].to_vec())]
        })
        .collect();
    let mut random = SmallRng::seed_from_u64(1);
    let mut out = std::io::stdout();
    for (what, commit) in [("score only", false), ("score and commit", true)] {
        let started = Instant::now();
        for index in 0..PICKS {
            let request = Request {
                id: "r",
                model: "m",
                cache_salt: "",
                prompts: &prompts[index as usize % prompts.len()],
                exact: false,
                multimodal: false,
                priority: 0,
                predictions: &[],
                together: None,
                media: &[],
                headers: &NoHeaders,
            };
            let decision = scheduler.schedule(&state, &request, &candidates, 0, &mut random)?;
            if commit {
                let reservation = scheduler.commit(&mut state, &decision);
                state.release(reservation);
            }
        }
        let took = started.elapsed();
        let rate = f64::from(PICKS) / took.as_secs_f64();
        writeln!(out, "{what}: {rate:.0} picks/s, {:?} each", took / PICKS)?;
    }
    Ok(())
}
