//! What a pick costs by the number of endpoints and by the blocks that the picker knows: processor time and memory.
//!
//! `cargo run --release -p longboat-scheduler --example picks` prints a line of JSON for each case. `benches/scale/page.py` makes
//! a table of them. Prompts are conversations: a system prompt that all share, and turns of which every other one is known.

use std::{collections::BTreeMap, fs, io::Write as _, sync::Arc, time::Duration};

use longboat_kv_events::{Event, Stored};
use longboat_scheduler::{
    Endpoint, Metrics, NoHeaders, Options, Prompt, Request, Scheduler, Slot, Slots, Snapshot, State,
    config::EndpointPickerConfig,
};
use rand::{SeedableRng as _, rngs::SmallRng};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The preset of a service without a configuration.
const PRESET: &str = include_str!("../../../presets/config-llm-scheduler-eppconfig-default.yaml");
/// The plugin of the preset that knows prefixes by what the picker has sent, and the one that knows them by KV cache events.
const OWN: &str = "approx-prefix-cache-producer";
const EVENTS: &str = "precise-prefix-cache-producer";

const ENDPOINTS: [usize; 3] = [10, 100, 1000];
const BLOCKS_OF_ENDPOINT: usize = 2000;
const PICKS: u32 = 5_000;
/// Tokens of the system prompt and of the rest, and of a block of an engine.
const SYSTEM: u32 = 512;
const REST: u32 = 1536;
const BLOCK: u32 = 16;
const SEED: u64 = 1;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut out = std::io::stdout();
    // States stay, because the next one would be made in the memory of the one that went.
    let mut states = Vec::new();
    for knows in ["memory", "events"] {
        for endpoints in ENDPOINTS {
            let (line, state) = measure(knows, endpoints)?;
            states.push(state);
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The configuration of the preset. With events, the other producer takes the place of the one in it.
fn config(knows: &str) -> Result<String, Failure> {
    let preset: Value = serde_saphyr::from_str(PRESET)?;
    let mut config = preset["spec"]["router"]["scheduler"]["config"]["inline"].clone();
    if knows == "events" {
        let plugins = config["plugins"].as_array_mut().ok_or("the preset has no plugins")?;
        plugins.retain(|plugin| plugin["type"] != OWN);
        plugins.push(json!({"type": "token-producer"}));
        plugins.push(json!({"type": EVENTS, "parameters": {
            "tokenProcessorConfig": {"blockSizeTokens": BLOCK},
            "kvEventsConfig": {"topicFilter": "kv@", "podDiscoveryConfig": {"socketPort": 5557}},
        }}));
        for plugin in plugins.iter_mut().filter(|plugin| plugin["type"] == "prefix-cache-affinity-filter") {
            plugin["parameters"]["prefixMatchInfoProducerName"] = json!(EVENTS);
        }
    }
    Ok(config.to_string())
}

fn measure(knows: &str, endpoints: usize) -> Result<(Value, State), Failure> {
    let config = EndpointPickerConfig::parse(&config(knows)?)?;
    let scheduler = Scheduler::new(&config, Options { allow_experimental: true, ..Options::default() })?;
    let mut state = scheduler.state();
    let candidates = candidates(endpoints);
    let exact = knows == "events";

    let before = resident()?;
    let mut number = 0;
    while blocks(&state) < endpoints * BLOCKS_OF_ENDPOINT {
        // Each endpoint gets its part. With all of them to choose from, the first would get every conversation.
        let turn = number as usize % endpoints;
        if exact {
            store(&state, candidates[turn].endpoint.slot, number);
        } else {
            pick(&scheduler, &mut state, &candidates[turn..=turn], &prompt(number), exact)?;
        }
        number += 1;
    }
    let held = blocks(&state);
    let bytes = resident()?.saturating_sub(before);

    let mut took = 0.0;
    for index in 0..PICKS {
        // One of the conversations again, or a new one.
        let prompt = prompt(if index % 2 == 0 { index % number } else { number + index });
        let begun = processor_seconds();
        pick(&scheduler, &mut state, &candidates, &prompt, exact)?;
        took += processor_seconds() - begun;
    }
    let line = json!({
        "knows": knows, "endpoints": endpoints, "blocks": held, "bytes": bytes, "nanoseconds": took * 1e9 / f64::from(PICKS),
        "prompt_tokens": SYSTEM + REST, "tokens_of_block": if exact { BLOCK } else { 4 * BLOCK },
    });
    Ok((line, state))
}

fn candidates(endpoints: usize) -> Vec<Snapshot> {
    let mut slots = Slots::default();
    let candidate = |index: usize| {
        let [.., third, fourth] = index.to_be_bytes();
        let address = ([10, 0, third, fourth], 8000).into();
        let endpoint = Endpoint {
            slot: slots.take(),
            namespace: "ns".to_owned(),
            name: format!("pod-{index}-rank-0"),
            address,
            host_port: address.to_string(),
            labels: BTreeMap::new(),
        };
        let metrics = Metrics { block_size: BLOCK, num_blocks: 200_000, ..Metrics::default() };
        Snapshot { endpoint: Arc::new(endpoint), metrics: Arc::new(metrics), fresh: true }
    };
    (0..endpoints).map(candidate).collect()
}

fn blocks(state: &State) -> usize {
    state.prefix_blocks().sum()
}

/// The tokens of the conversation with this number.
fn tokens(number: u32) -> impl Iterator<Item = u32> {
    (0..SYSTEM).chain((0..REST).map(move |place| number.wrapping_mul(REST).wrapping_add(place) ^ 0x5555_0000))
}

fn prompt(number: u32) -> [Prompt; 1] {
    [Prompt::from(tokens(number).flat_map(u32::to_le_bytes).collect::<Vec<u8>>())]
}

/// Sends a request, whose answer comes at once.
fn pick(
    scheduler: &Scheduler,
    state: &mut State,
    candidates: &[Snapshot],
    prompts: &[Prompt],
    exact: bool,
) -> Result<(), Failure> {
    let request = Request {
        id: "r",
        model: "m",
        cache_salt: "",
        prompts,
        exact,
        multimodal: false,
        priority: 0,
        predictions: &[],
        burst_endpoint: None,
        media: &[],
        max_output_tokens: None,
        headers: &NoHeaders,
    };
    let mut random = SmallRng::seed_from_u64(SEED);
    let decision = scheduler.schedule(state, &request, candidates, 0, &mut random)?;
    let reservation = scheduler.commit(state, &decision);
    state.release(reservation);
    Ok(())
}

/// Lets an endpoint say that it has the blocks of a conversation.
fn store(state: &State, slot: Slot, number: u32) {
    let tokens: Vec<u32> = tokens(number).collect();
    let event = Event::Stored(Box::new(Stored {
        // The first token of each block is nowhere else.
        hashes: tokens.iter().step_by(BLOCK as usize).map(|first| u64::from(*first)).collect(),
        tokens,
        block_size: BLOCK as usize,
        medium: "gpu".to_owned(),
        lora_name: Some("m".to_owned()),
        ..Stored::default()
    }));
    for holdings in state.holdings() {
        holdings.update(|index| index.apply(slot.0, "", &event));
    }
}

/// The resident memory in bytes.
fn resident() -> Result<usize, Failure> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages: usize = pages.split(' ').nth(1).ok_or("statm has no resident size")?.parse()?;
    Ok(pages * rustix::param::page_size())
}

/// The processor time of this thread.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default().as_secs_f64()
}
