//! Conversations with a shared system prompt. Each should stay on its endpoint, and they should not all go to the same
//! endpoints.
//!
//! The simulation has its own clock. Every 25 ms, one of 50 conversations takes its next turn, in random order, until each
//! has taken 10. A prompt consists of a shared system prompt of 2 KiB, the earlier turns with their answers, and the new
//! turn, of 400 bytes each. An endpoint computes the part that its cache lacks, runs up to 32 requests at a time, and
//! reports its metrics every 50 ms. Its cache holds 1,500 blocks of 16 tokens with least-recently-used eviction, and caches
//! prompts but not answers. The hit ratio is that of these caches, not the picker's estimate. Other workloads change one of
//! these numbers. The configurations are the policies of `benches/picker`.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use rand::{
    Rng as _, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};

use super::{REQUEST, idle};
use crate::{Metrics, Options, Prompt, Request, Reservation, Scheduler, config::EndpointPickerConfig};

const ENDPOINTS: usize = 8;
const SESSIONS: usize = 50;
const TURNS: usize = 10;
const STEP_MS: u64 = 25;
const BLOCK_BYTES: usize = 64;

/// The result of a run.
#[derive(Debug)]
struct Outcome {
    /// The share of prompt tokens that was in the cache of the endpoint.
    hit: f64,
    /// The standard deviation of the endpoints' request counts, divided by their mean.
    skew: f64,
    /// The same of the computed prompt tokens.
    computed_skew: f64,
    /// The hit ratio of a single endless cache, which no picker exceeds.
    best: f64,
    /// Milliseconds to the first token, on average.
    first_token_ms: f64,
}

/// An engine's prefix cache, in order of last use.
#[derive(Default)]
struct Cache {
    blocks: usize,
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
        while self.used.len() > self.blocks {
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
    /// The bytes of prompts that its cache lacked.
    computed: usize,
    cache: Cache,
    running: Vec<RequestInFlight>,
    waiting: VecDeque<RequestInFlight>,
    requests: usize,
}

/// The prompt tokens that an endpoint computes per millisecond.
const PREFILL_PER_MS: usize = 10;
const BURST_SIZE: usize = 32;

/// What the conversations are like.
#[derive(Debug, Clone, Copy)]
struct Workload {
    /// The length of the system prompt that all share.
    system_bytes: usize,
    /// The length of each turn and of each answer, of the shortest and of the longest conversation.
    turn_bytes: (usize, usize),
    /// The blocks of an endpoint's cache.
    cache_blocks: usize,
}

fn simulate(config: &str, workload: Workload, seed: u64) -> Outcome {
    let options = Options { allow_experimental: false, trace: false };
    let scheduler = Scheduler::new(&EndpointPickerConfig::parse(config).unwrap(), options).unwrap();
    let mut state = scheduler.state();
    let mut random = StdRng::seed_from_u64(seed);
    let mut pool = idle(ENDPOINTS);
    let mut engines: Vec<Engine> = (0..ENDPOINTS)
        .map(|_| Engine {
            cache: Cache { blocks: workload.cache_blocks, ..Cache::default() },
            ..Engine::default()
        })
        .collect();
    let text = |random: &mut StdRng, bytes: usize| -> Vec<u8> {
        (0..bytes).map(|_| random.random_range(b'a'..=b'z')).collect()
    };
    let mut conversations = vec![text(&mut random, workload.system_bytes); SESSIONS];
    // Lengths grow by a constant factor from conversation to conversation, in random order.
    let (shortest, longest) = workload.turn_bytes;
    let mut lengths: Vec<usize> = (0..SESSIONS)
        .map(|session| {
            let part = share(session, SESSIONS - 1);
            let bytes = share(shortest, 1) * share(longest, shortest).powf(part);
            (shortest..=longest).find(|whole| share(*whole, 1) >= bytes).unwrap_or(longest)
        })
        .collect();
    lengths.shuffle(&mut random);
    let mut best = Cache { blocks: usize::MAX, ..Cache::default() };
    let mut best_cached = 0;
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
                conversations[session].extend(text(&mut random, lengths[session]));
                let prompts = [Prompt::from(conversations[session].clone())];
                let request = Request { prompts: &prompts, ..REQUEST };
                let decision = scheduler.schedule(&state, &request, &pool, now, &mut random).unwrap();
                let held = scheduler.commit(&mut state, &decision);
                let engine = &mut engines[decision.primary_run().targets[0]];
                engine.requests += 1;
                let prompt = &prompts[0].bytes;
                let hit = engine.cache.take(prompt);
                cached += hit;
                best_cached += best.take(prompt);
                engine.computed += prompt.len() - hit;
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
                    state.first_chunk(prefilling.held.as_mut().unwrap(), None);
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
                conversations[running.session].extend(text(&mut random, lengths[running.session]));
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
                    num_blocks: u32::try_from(workload.cache_blocks).unwrap(),
                    ..Metrics::default()
                };
                pool[index].metrics = Arc::new(metrics);
            }
        }
        now += 1;
        assert!(now < 600_000, "the simulation does not end");
    }
    let cv = |value: fn(&Engine) -> usize| {
        let mean = share(engines.iter().map(value).sum(), ENDPOINTS);
        let square = |engine: &Engine| (share(value(engine), 1) - mean).powi(2);
        (engines.iter().map(square).sum::<f64>() / share(ENDPOINTS, 1)).sqrt() / mean
    };
    Outcome {
        hit: share(cached, total),
        best: share(best_cached, total),
        skew: cv(|engine| engine.requests),
        computed_skew: cv(|engine| engine.computed),
        first_token_ms: share(usize::try_from(first).unwrap(), SESSIONS * TURNS),
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

const RUNS: u64 = 3;

const REFERENCE: &str = include_str!("../../../../benches/picker/policies/reference.yaml");
const LLM_D: &str = include_str!("../../../../benches/picker/policies/llm-d.yaml");
const LONGBOAT: &str = include_str!("../../../../benches/picker/policies/longboat.yaml");

/// All share a system prompt.
const SHARED: Workload = Workload { system_bytes: 2048, turn_bytes: (400, 400), cache_blocks: 1500 };
const NOTHING_SHARED: Workload = Workload { system_bytes: 0, ..SHARED };
/// The turns of the longest conversation are nearly seventy times as long as those of the shortest.
const MIXED: Workload = Workload { turn_bytes: (60, 4000), cache_blocks: 6000, ..SHARED };
const MIXED_NOTHING_SHARED: Workload = Workload { system_bytes: 0, ..MIXED };
const LONG_SHARED: Workload = Workload { system_bytes: 16 << 10, cache_blocks: 3000, ..SHARED };
/// The caches hold less than all conversations.
const TIGHT: Workload = Workload { cache_blocks: 700, ..SHARED };

/// The mean of several runs.
fn average(config: &str, workload: Workload) -> Outcome {
    let runs: Vec<_> = (0..RUNS).map(|seed| simulate(config, workload, seed)).collect();
    let mean = |value: fn(&Outcome) -> f64| runs.iter().map(value).sum::<f64>() * share(1, runs.len());
    Outcome {
        hit: mean(|run| run.hit),
        best: mean(|run| run.best),
        skew: mean(|run| run.skew),
        computed_skew: mean(|run| run.computed_skew),
        first_token_ms: mean(|run| run.first_token_ms),
    }
}

/// Runs a workload, and prints the outcome.
#[expect(clippy::print_stderr, reason = "the numbers are the point of the test's output")]
fn outcome(policy: &str, config: &str, name: &str, workload: Workload) -> Outcome {
    let found = average(config, workload);
    let Outcome { hit, best, skew, computed_skew, first_token_ms } = found;
    eprintln!(
        "{policy:<10} {name:<22} hits {hit:.3} of at most {best:.3}, skew of requests {skew:.3}, of computed tokens \
         {computed_skew:.3}, first token {first_token_ms:.0} ms"
    );
    found
}

#[test]
fn our_default_finds_nearly_all_prefixes_and_spreads_conversations_evenly() {
    for (name, workload) in [
        ("shared prompt", SHARED),
        ("no shared prompt", NOTHING_SHARED),
        ("mixed lengths", MIXED),
        ("mixed, nothing shared", MIXED_NOTHING_SHARED),
        ("long shared prompt", LONG_SHARED),
        ("small caches", TIGHT),
    ] {
        let ours = outcome("longboat", LONGBOAT, name, workload);
        assert!(ours.skew <= 0.11, "{name}: {ours:?}");
        // Where all conversations are in one endless cache, more cannot be found.
        assert!(ours.hit >= ours.best - 0.015, "{name}: {ours:?}");
        assert!(workload.system_bytes == 0 || ours.hit >= 0.82, "{name}: {ours:?}");
    }
}

#[test]
fn the_references_defaults_herd_conversations_with_a_shared_system_prompt() {
    let ours = outcome("longboat", LONGBOAT, "shared prompt", SHARED);
    for (name, config) in [("reference", REFERENCE), ("llm-d", LLM_D)] {
        let shared = outcome(name, config, "shared prompt", SHARED);
        assert!(shared.skew > 0.8 && shared.hit < ours.hit, "{name}: {shared:?}");
        assert!(shared.first_token_ms > ours.first_token_ms, "{name}: {shared:?} {ours:?}");
        let alone = outcome(name, config, "no shared prompt", NOTHING_SHARED);
        assert!(alone.skew < 0.5, "{name}: {alone:?}");
        outcome(name, config, "mixed lengths", MIXED);
    }
}
