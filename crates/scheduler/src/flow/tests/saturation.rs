//! How full a pool is, by the roles of its endpoints and by what they do.

use std::{collections::BTreeMap, sync::Arc};

use rand::{SeedableRng as _, rngs::StdRng};

use super::HEAD;
use crate::{
    Metrics, Options, Prompt, Request, Scheduler, Slot, Snapshot,
    config::EndpointPickerConfig,
    flow::{PoolMember, Settings, Stage},
    tests::{REQUEST, idle, snapshot},
};

impl PoolMember for Snapshot {
    fn slot(&self) -> Slot {
        self.endpoint.slot
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.endpoint.labels
    }

    fn metrics(&self, _: u64) -> Option<Arc<Metrics>> {
        Some(Arc::clone(&self.metrics))
    }
}

#[test]
#[expect(clippy::float_cmp, reason = "each is computed as it is written here")]
fn each_endpoint_of_a_hybrid_pool_is_as_full_as_its_fuller_measure() {
    let detector = "{type: concurrency-detector, parameters: {concurrencyMode: hybrid, maxConcurrency: 4, \
                    maxTokenConcurrency: 10}}";
    let config = EndpointPickerConfig::parse(&format!(
        "{HEAD}plugins: [{detector}]\nflowControl: {{saturationDetector: {{pluginRef: concurrency-detector}}}}\n"
    ));
    let config = config.unwrap();
    let scheduler = Scheduler::new(&config, Options::default()).unwrap();
    let settings = Settings::from_config(&config).unwrap();
    let pool = idle(2);
    let mut state = scheduler.state();
    // One endpoint has one request of 10 tokens, the other three requests without tokens.
    for (endpoint, bytes) in [(0, 40), (1, 0), (1, 0), (1, 0)] {
        let prompts = [Prompt::from(vec![b'x'; bytes])];
        let request = Request { prompts: &prompts, ..REQUEST };
        let random = &mut StdRng::seed_from_u64(0);
        let decision = scheduler.schedule(&state, &request, &pool[endpoint..=endpoint], 0, random).unwrap();
        let _held = scheduler.commit(&mut state, &decision);
    }
    let members: Vec<&Snapshot> = pool.iter().collect();
    assert_eq!(settings.saturation(&state, &members, &|| 0), f64::midpoint(1.0, 0.75));
    assert_eq!(
        settings.saturation(&state, &members, &|| 1),
        1.0,
        "as if each had half of the admitted request"
    );
}

#[test]
#[expect(clippy::float_cmp, reason = "each is computed as it is written here")]
fn the_fuller_stage_counts_if_requests_wait() {
    let role = |slot, role, waiting| {
        snapshot(slot, Metrics { waiting, ..Metrics::default() }, &[("llm-d.ai/role", role)])
    };
    let pool =
        [role(0, "prefill", 5.0), role(1, "both", 1.0), role(2, "decode", 0.0), role(3, "encode", 9.0)];
    let members: Vec<&Snapshot> = pool.iter().collect();
    let config = EndpointPickerConfig::parse(HEAD).unwrap();
    let state = Scheduler::new(&config, Options::default()).unwrap().state();
    let mut settings = Settings::from_config(&config).unwrap();
    assert_eq!(settings.saturation(&state, &members, &|| 0), 0.6);
    let stages = settings.detector.stages(&state, &members, &|| 0);
    assert_eq!(stages, [(Stage::Prefill, 0.6), (Stage::Decode, 0.1)]);
    let alone = settings.detector.stages(&state, &members[2..], &|| 0);
    assert_eq!(alone, [(Stage::Decode, 0.0)], "a stage without endpoints has no saturation");
    assert_eq!(settings.saturation(&state, &members[3..], &|| 0), 1.8, "the pool's, if it has no stage");
    settings.enabled = false;
    assert_eq!(settings.saturation(&state, &members, &|| 0), 0.75);
}
