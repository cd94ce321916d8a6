//! Conversations with a shared system prompt. Each should stay on its endpoint, and they should not all go to the same
//! endpoints.
//!
//! The simulation has its own clock. Every 25 ms, one of 50 conversations takes its next turn, in random order, until each
//! has taken 10. A prompt consists of a shared system prompt of 2 KiB, the earlier turns with their answers, and the new
//! turn, of 400 bytes each. An endpoint computes the part that its cache lacks, runs up to 32 requests at a time, and
//! reports its metrics every 50 ms. Its cache holds 1,500 blocks of 16 tokens with least-recently-used eviction, and caches
//! prompts but not answers. The hit ratio is that of these caches, not the picker's estimate.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use rand::{Rng as _, SeedableRng, rngs::StdRng, seq::IndexedRandom as _};

use super::plugins::{RequestHeaders, pool};
use crate::{Metrics, Options, Prompt, Request, Reservation, Scheduler, config::EndpointPickerConfig};

const ENDPOINTS: usize = 8;
const SESSIONS: usize = 50;
const TURNS: usize = 10;
const STEP_MS: u64 = 25;
const CACHE_BLOCKS: usize = 1_500;
const BLOCK_BYTES: usize = 64;

/// The result of a run.
#[derive(Debug)]
struct Outcome {
    /// The share of prompt tokens that was in the cache of the endpoint.
    hit: f64,
    /// The standard deviation of the endpoints' request counts, divided by their mean.
    skew: f64,
    /// Milliseconds to the first token, on average.
    first_token_ms: f64,
}

/// An engine's prefix cache, in order of last use.
#[derive(Default)]
struct Cache {
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl Cache {
    /// Returns how many bytes of the prompt are cached, then caches all of its whole blocks.
    fn take(&mut self, prompt: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        let prefixes: Vec<u64> = prompt
            .chunks_exact(BLOCK_BYTES)
            .map(|block| {
                block.hash(&mut hasher);
                hasher.finish()
            })
            .collect();
        let cached = prefixes.iter().take_while(|prefix| self.used.contains_key(prefix)).count();
        for prefix in prefixes.into_iter().rev() {
            self.clock += 1;
            if let Some(before) = self.used.insert(prefix, self.clock) {
                self.order.remove(&before);
            }
            self.order.insert(self.clock, prefix);
        }
        while self.used.len() > CACHE_BLOCKS {
            let (_, oldest) = self.order.pop_first().unwrap();
            self.used.remove(&oldest);
        }
        cached * BLOCK_BYTES
    }
}

/// A request at an endpoint.
struct RequestInFlight {
    session: usize,
    prefill_ms: u64,
    decode_ms: u64,
    arrived: u64,
    held: Option<Reservation>,
}

#[derive(Default)]
struct Engine {
    cache: Cache,
    running: Vec<RequestInFlight>,
    waiting: VecDeque<RequestInFlight>,
    requests: usize,
}

/// The prompt tokens that an endpoint computes per millisecond.
const PREFILL_PER_MS: usize = 10;
const BURST_SIZE: usize = 32;

fn simulate(plugins: &str, profile: &str, system_bytes: usize, seed: u64) -> Outcome {
    let text = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{plugins}]\n\
         schedulingProfiles: [{{name: default, plugins: [{profile}]}}]\n"
    );
    let options = Options { allow_experimental: false, trace: false };
    let scheduler = Scheduler::new(&EndpointPickerConfig::parse(&text).unwrap(), options).unwrap();
    let mut state = scheduler.state();
    let mut random = StdRng::seed_from_u64(seed);
    let mut pool = pool(vec![(Metrics::default(), &[]); ENDPOINTS]);
    let mut engines: Vec<Engine> = (0..ENDPOINTS).map(|_| Engine::default()).collect();
    let system: Vec<u8> = (0..system_bytes).map(|_| random.random_range(b'a'..=b'z')).collect();
    let mut conversations = vec![system; SESSIONS];
    let mut turns = vec![0; SESSIONS];
    let mut busy = HashSet::new();
    let (mut cached, mut total, mut first, mut done) = (0, 0, 0, 0);
    let mut now = 0;
    while done < SESSIONS * TURNS {
        if now % STEP_MS == 0 {
            let free: Vec<_> =
                (0..SESSIONS).filter(|session| turns[*session] < TURNS && !busy.contains(session)).collect();
            if let Some(&session) = free.choose(&mut random) {
                turns[session] += 1;
                busy.insert(session);
                let turn: Vec<u8> = (0..400).map(|_| random.random_range(b'a'..=b'z')).collect();
                conversations[session].extend(turn);
                let prompts = [Prompt::from(conversations[session].clone())];
                let request = Request {
                    id: "r",
                    model: "m",
                    cache_salt: "",
                    prompts: &prompts,
                    exact: false,
                    multimodal: false,
                    priority: 0,
                    predictions: &[],
                    together: None,
                    media: &[],
                    headers: &RequestHeaders::default(),
                };
                let decision = scheduler.schedule(&state, &request, &pool, now, &mut random).unwrap();
                let held = scheduler.commit(&mut state, &decision);
                let engine = &mut engines[decision.primary_run().targets[0]];
                engine.requests += 1;
                let prompt = &prompts[0].bytes;
                let hit = engine.cache.take(prompt);
                cached += hit;
                total += prompt.len();
                let prefill_ms = ((prompt.len() - hit) / 4 / PREFILL_PER_MS).max(1) as u64;
                let running =
                    RequestInFlight { session, prefill_ms, decode_ms: 300, arrived: now, held: Some(held) };
                engine.waiting.push_back(running);
            }
        }
        for (index, engine) in engines.iter_mut().enumerate() {
            while engine.running.len() < BURST_SIZE
                && let Some(next) = engine.waiting.pop_front()
            {
                engine.running.push(next);
            }
            // An endpoint computes one prompt at a time, and generates all answers in parallel.
            if let Some(prefilling) = engine.running.iter_mut().find(|running| running.prefill_ms > 0) {
                prefilling.prefill_ms -= 1;
                if prefilling.prefill_ms == 0 {
                    first += now + 1 - prefilling.arrived;
                    state.first_chunk(prefilling.held.as_mut().unwrap());
                }
            }
            engine.running.retain_mut(|running| {
                if running.prefill_ms > 0 {
                    return true;
                }
                running.decode_ms -= 1;
                if running.decode_ms > 0 {
                    return true;
                }
                state.release(running.held.take().unwrap());
                busy.remove(&running.session);
                let answer: Vec<u8> = (0..400).map(|_| random.random_range(b'a'..=b'z')).collect();
                conversations[running.session].extend(answer);
                done += 1;
                false
            });
            if now % 50 == 0 {
                #[expect(clippy::cast_precision_loss, reason = "a few requests")]
                let metrics = Metrics {
                    waiting: engine.waiting.len() as f64,
                    running: engine.running.len() as f64,
                    kv_usage: engine.running.len() as f64 / BURST_SIZE as f64 * 0.5,
                    block_size: 16,
                    num_blocks: u32::try_from(CACHE_BLOCKS).unwrap(),
                    ..Metrics::default()
                };
                pool[index].metrics = Arc::new(metrics);
            }
        }
        now += 1;
        assert!(now < 600_000, "the simulation does not end");
    }
    let share = |part: usize, whole: usize| {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let share = part as f64 / whole as f64;
        share
    };
    let mean = share(SESSIONS * TURNS, ENDPOINTS);
    let square = |engine: &Engine| (share(engine.requests, 1) - mean).powi(2);
    let variance = engines.iter().map(square).sum::<f64>() / share(ENDPOINTS, 1);
    Outcome {
        hit: share(cached, total),
        skew: variance.sqrt() / mean,
        first_token_ms: share(usize::try_from(first).unwrap(), SESSIONS * TURNS),
    }
}

/// The mean of several runs.
fn average(plugins: &str, profile: &str, system_bytes: usize) -> Outcome {
    const RUNS: u64 = 3;
    let runs: Vec<_> = (0..RUNS).map(|seed| simulate(plugins, profile, system_bytes, seed)).collect();
    let mean = |value: fn(&Outcome) -> f64| runs.iter().map(value).sum::<f64>() / 3.0;
    Outcome {
        hit: mean(|run| run.hit),
        skew: mean(|run| run.skew),
        first_token_ms: mean(|run| run.first_token_ms),
    }
}

/// KServe's configuration, with these parameters of the prefix producer.
fn kserve(parameters: &str) -> String {
    format!(
        "{{type: approx-prefix-cache-producer, parameters: {{{parameters}}}}}, {{type: single-profile-handler}}, \
         {{type: queue-scorer}}, {{type: kv-cache-utilization-scorer}}, {{type: prefix-cache-scorer}}, \
         {{type: no-hit-lru-scorer}}, {{type: max-score-picker}}"
    )
}

const PROFILE: &str = "{pluginRef: queue-scorer, weight: 2}, {pluginRef: kv-cache-utilization-scorer, weight: 2}, \
     {pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: no-hit-lru-scorer, weight: 2}, {pluginRef: max-score-picker}";

const SYSTEM: usize = 2048;

#[test]
#[expect(clippy::print_stderr, reason = "the numbers are the point of the test's output")]
fn a_shared_system_prompt_does_not_herd_conversations() {
    let herding = average(&kserve(""), PROFILE, SYSTEM);
    let spread = average(&kserve("sharedPrefixAfter: 5"), PROFILE, SYSTEM);
    let alone = average(&kserve(""), PROFILE, 0);
    eprintln!(
        "as the reference: {herding:?}\nshared prefixes belong to nobody: {spread:?}\nwithout a system prompt: {alone:?}"
    );
    assert!(herding.skew > 0.8, "the reference's scores herd: {herding:?}");
    assert!(spread.hit >= 0.76 && spread.skew <= 0.4, "{spread:?}");
    assert!(spread.first_token_ms < herding.first_token_ms, "{spread:?} {herding:?}");
    assert!(alone.skew < 0.4, "{alone:?}");
}
