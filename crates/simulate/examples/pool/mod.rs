//! The pool of the examples: engines with the times of `longboat up --engine sim`.

use std::{collections::BTreeMap, time::Duration};

use longboat_engine_model::{Parameters, Timing};
use longboat_simulate::{
    PickerSettings, Policy, PoolSettings, Report, RunError, Settings, Slo,
    generate::{self, Traffic},
    run,
};

/// Simulates the traffic on a pool of so many endpoints.
pub(crate) fn simulate(
    config: &str,
    endpoints: usize,
    pickers: PickerSettings,
    traffic: Traffic,
) -> Result<Report, RunError> {
    let engine = Parameters {
        max_num_seqs: 256,
        max_waiting: 1000,
        block_size: 16,
        cache_blocks: 8192,
        max_model_len: usize::MAX,
        timing: Timing::realistic(),
    };
    let settings = Settings {
        pool: vec![PoolSettings { labels: BTreeMap::new(), replicas: endpoints, engine, accelerators: 1.0 }],
        changes: Vec::new(),
        seed: 1,
        scrape: Duration::from_millis(50),
        event_delay: Duration::from_millis(5),
        slo: Slo::default(),
        explain_every: 0,
        start_time: Duration::ZERO,
        autoscaler: None,
        pickers,
    };
    let policy =
        Policy { name: "example".into(), config: config.into(), gates: Vec::new(), allow_experimental: true };
    run(&policy, &settings, generate::requests(traffic), &mut |_| {})
}
