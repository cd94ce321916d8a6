//! What several pickers cost, as a part of docs/scale.md, which `benches/scale/page.py` writes:
//! `cargo run --release -p longboat-simulate --example scale`. With a word after `--`, only the tables whose titles contain it are
//! measured.
//!
//! It is measured in virtual time, so it depends neither on the machine nor on the build.
#![expect(clippy::print_stdout, reason = "a program that writes a page")]

use std::time::Duration;

use longboat_simulate::{
    PickerSettings, Sharing,
    generate::{Kind, Traffic},
};

mod pool;

const PREFIX: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, \
    plugins: [{type: prefix-cache-scorer}, {type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: max-score-picker}], \
    schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: queue-scorer, weight: 2}, \
    {pluginRef: kv-cache-utilization-scorer, weight: 2}, {pluginRef: max-score-picker}]}]}";
const PRECISE: &str = "{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: [{type: token-producer}, \
    {type: precise-prefix-cache-producer, parameters: {tokenProcessorConfig: {blockSizeTokens: 16}, \
    kvEventsConfig: {topicFilter: kv@, podDiscoveryConfig: {socketPort: 5557}}}}, \
    {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}, {type: queue-scorer}, \
    {type: kv-cache-utilization-scorer}, {type: max-score-picker}], \
    schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: queue-scorer, weight: 2}, \
    {pluginRef: kv-cache-utilization-scorer, weight: 2}, {pluginRef: max-score-picker}]}]}";
const ACTIVE: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, \
    plugins: [{type: active-request-scorer}, {type: max-score-picker}], \
    schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer}, {pluginRef: max-score-picker}]}]}";

const INTRODUCTION: &str = "\
## Several pickers

Gateways spread requests over the pickers of a service without looking at them. Each picker knows what it has sent itself, and
what engines tell all pickers: metrics, and KV cache events if the configuration uses them. The rest depends on whether pickers
share their state.
";
const SESSIONS: &str = "\
The numbers are those of 4000 requests in conversations (`--generate sessions`), 40 a second, over 16 endpoints with
the times of `longboat up --engine sim`, in virtual time: they depend neither on the machine nor on the build.
";
const AGENTS: &str = "\
## Several pickers, with agents

The same pools with 1000 requests of agents (`--generate agents`), 8 a second: long prompts of tools, and many short turns.
";
const AGENTS_RESULTS: &str = "\
* Here, caches are large enough for what one picker sends to an endpoint, so one state finds the most prefixes, and lateness up to 100 ms
  changes nothing.
* Pickers that share nothing lose more with each picker: each must learn of a prefix by itself, so it is computed on more endpoints.
  In return, the load is more even.
* With KV cache events, sharing changes nothing, as with conversations.
";
const SESSIONS_RESULTS: &str = "\
Cells have the hit ratio or the TTFT, and the skew: the standard deviation of the endpoints' request counts, divided by their mean.
\"One state\" is a state that all pickers see at once, as if there were one picker with more cores. \"Shared after\" is a state in which
the decisions of others appear after that time. \"Not shared\" is what several pickers of a service do today. All pickers read metrics at
the same moments here; in a cluster they do not, which makes herds smaller.

This traffic is a hard case: all conversations begin with one system prompt, and engines with room for 256 requests let none wait, so
nothing weighs against a known prefix. A picker that knows everything sends everything to one endpoint, whose cache is too small.

* Pickers that share nothing spread the load over more endpoints and find fewer prefixes: the more pickers, the fewer.
* Knowing each other's decisions late spreads the load and finds more prefixes than knowing them at once.
* With KV cache events, sharing changes nothing: events tell all pickers which endpoint has a prefix, within milliseconds.
* Requests in flight need no sharing at this rate: differences of a few milliseconds are chance.
";
const LARGE: &str = "\
## Several pickers of a large pool

1,000 endpoints of the same kind, and 100,000 requests of agents: 20,000 a second at first, and 50,000 a second after three seconds.
";
const LARGE_RESULTS: &str = "\
* Here, pickers need not share what they know: four system prompts are most of each prompt, and each picker learns of them at once. Several
  pickers change the hit ratio by at most 0.3 points.
* The skew is high: with nothing to weigh against a known prefix, most requests go to few endpoints, with any number of pickers.
* KV cache events find 0.6 points more than the picker's own memory, whose blocks are larger.
";
const REST: &str = "\
Longboat's pickers do not tell each other their decisions (`dataLayer.crossReplica` has no effect, as in llm-d). The columns
\"shared after\" say what that would be worth. With more than one replica and leader election, one picker decides and the others wait, which costs no hit ratio.
";

/// A pool with traffic, and which tables the page has of it.
struct Part {
    endpoints: usize,
    traffic: Traffic,
    /// The numbers of pickers, and when they know each other's decisions, in milliseconds.
    pickers: &'static [usize],
    delays: &'static [u64],
    introduction: &'static str,
    tables: &'static [(&'static str, &'static str, &'static str)],
    results: &'static str,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let title_filter = std::env::args().nth(1).unwrap_or_default();
    println!("{INTRODUCTION}");
    let traffic = |kind, rate, requests| Traffic {
        kind,
        rate,
        requests,
        prompt_tokens: None,
        output_tokens: Some(64),
        seed: 1,
    };
    let small = Part {
        endpoints: 16,
        traffic: traffic(Kind::Sessions, 40.0, 4000),
        pickers: &[2, 4, 8],
        delays: &[0, 10, 100, 1000],
        introduction: SESSIONS,
        tables: &[
            ("Prefixes by the picker's own memory", "hit ratio", PREFIX),
            ("Prefixes by KV cache events", "hit ratio", PRECISE),
            ("Requests in flight (`active-request-scorer`)", "TTFT p99", ACTIVE),
        ],
        results: SESSIONS_RESULTS,
    };
    let agents = Part {
        traffic: traffic(Kind::Agents, 8.0, 1000),
        introduction: AGENTS,
        tables: &[
            ("Agents, prefixes by the picker's own memory", "hit ratio", PREFIX),
            ("Agents, prefixes by KV cache events", "hit ratio", PRECISE),
        ],
        results: AGENTS_RESULTS,
        ..small
    };
    // An agent has about 20 turns, one every two seconds, and not all have started: in three seconds, an eighth of this rate is reached.
    let large = Part {
        endpoints: 1000,
        traffic: traffic(Kind::Agents, 400_000.0, 100_000),
        pickers: &[2, 8],
        delays: &[10, 1000],
        introduction: LARGE,
        tables: &[("A large pool, prefixes by the picker's own memory", "hit ratio", PREFIX)],
        results: "",
    };
    // Eight pickers that know all blocks would need several times the memory of the engines' models.
    let events = Part {
        pickers: &[2],
        introduction: "",
        tables: &[("A large pool, prefixes by KV cache events", "hit ratio", PRECISE)],
        results: LARGE_RESULTS,
        ..large
    };
    for part in [small, agents, large, events] {
        println!("{}", part.introduction);
        for (title, what, config) in part.tables.iter().filter(|(title, ..)| title.contains(&title_filter)) {
            table(&part, title, what, config)?;
        }
        println!("{}", part.results);
    }
    print!("{REST}");
    Ok(())
}

/// Prints what a number of pickers does to a number of the report, by how they share their state.
fn table(part: &Part, title: &str, what: &str, config: &str) -> Result<(), Box<dyn std::error::Error>> {
    let value = |number, sharing| -> Result<String, Box<dyn std::error::Error>> {
        let report =
            pool::simulate(config, part.endpoints, PickerSettings { number, sharing }, part.traffic)?;
        Ok(match what {
            "hit ratio" => format!("{:.1} %, {:.2}", report.hit_ratio * 100.0, report.skew),
            _ => format!("{:.0} ms, {:.2}", report.ttft.p99, report.skew),
        })
    };
    println!("### {title}\n\nOne picker: {what}, skew: {}.\n", value(1, Sharing::Nothing)?);
    let columns = part.delays.iter().map(|delay| match delay {
        0 => "one state".to_owned(),
        1000 => "shared after 1 s".to_owned(),
        delay => format!("shared after {delay} ms"),
    });
    let columns = columns.chain(["not shared".to_owned()]).collect::<Vec<_>>();
    println!("| pickers | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for number in part.pickers {
        let delays = part.delays.iter().map(|delay| Sharing::After(Duration::from_millis(*delay)));
        let cells = delays.chain([Sharing::Nothing]).map(|sharing| value(*number, sharing));
        println!("| {number} | {} |", cells.collect::<Result<Vec<_>, _>>()?.join(" | "));
    }
    println!();
    Ok(())
}
