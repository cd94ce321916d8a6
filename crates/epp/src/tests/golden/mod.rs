//! Replays the recorded picks of the reference (`picks` of `crates/golden`). A pick is right if it has the highest recorded
//! score. Later requests depend on the destinations of earlier ones, so the replay repeats a pick until it goes to the recorded
//! endpoint.

mod scenario;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use longboat_extproc::{Action, Event, Headers, Incoming, Metadata, Reply, names};
use longboat_scheduler::{LoraAdapters, Metrics, Options, Scheduler, config::EndpointPickerConfig};
use serde_json::Value;

use self::scenario::{MetricSpec, RawScores, Scenario, Step};
use super::support::{self, Stream};
use crate::{
    core::Core,
    decisions::{Decisions, Query},
};

/// Scenarios, or single requests of them (`scenario/request`), that are not replayed, each with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("no-metrics-endpoint", "by design: an endpoint that was never scraped ranks last instead of first"),
    (
        "stale-metrics-endpoint",
        "by design: an endpoint whose metrics are old ranks last instead of keeping its score",
    ),
    (
        "trailing-eos",
        "by design: a second end of the body is ignored instead of being parsed; has a test of its own",
    ),
    ("errors/reserialise", "by design: the body goes on byte for byte, and is not written anew from floats"),
    (
        "pd-kserve-nodecode/r0",
        "by design: 503 instead of 429 (compatibility.yaml#no-decode-endpoints); has a test of its own in answer.rs",
    ),
    (
        "errors/request-trailers",
        "by design: trailers end a body; the reference waits for an end that never comes",
    ),
];

#[derive(Debug, Default)]
struct Counts {
    scenarios: usize,
    requests: usize,
    skipped: usize,
    failures: Vec<String>,
}

#[test]
#[expect(clippy::print_stderr, reason = "the counts are the point of the test's output")]
fn recorded_picks_are_made_again() {
    let mut counts = Counts::default();
    let files = longboat_golden::part("picks").entries().into_iter();
    for file in files.filter(|file| file.has_extension("yaml")) {
        let name = file.stem();
        if let Some(reason) = different(name) {
            eprintln!("not replayed: {name}: {reason}");
            counts.skipped += 1;
            continue;
        }
        let text = file.read();
        let scenario: Scenario =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        counts.scenarios += 1;
        replay(name, &scenario, &mut counts);
    }
    eprintln!(
        "golden/picks: {} scenarios with {} requests replayed, {} left out, {} differences",
        counts.scenarios,
        counts.requests,
        counts.skipped,
        counts.failures.len()
    );
    assert!(counts.failures.is_empty(), "\n{}", counts.failures.join("\n"));
}

fn different(what: &str) -> Option<&'static str> {
    DIFFERENT.iter().find(|(different, _)| *different == what).map(|(_, reason)| *reason)
}

fn metrics(spec: &MetricSpec) -> Metrics {
    let list = |text: &str| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Metrics {
        waiting: spec.waiting,
        running: spec.running,
        kv_usage: spec.kv_cache_usage,
        block_size: spec.block_size,
        num_blocks: spec.num_gpu_blocks,
        lora: spec.lora.as_ref().map(|lora| LoraAdapters {
            active: list(&lora.running),
            waiting: list(&lora.waiting),
            max: lora.max,
        }),
        ..Metrics::default()
    }
}

#[expect(clippy::print_stderr, reason = "what is left out must be seen")]
fn replay(name: &str, scenario: &Scenario, counts: &mut Counts) {
    let text = serde_json::to_string(&scenario.config).unwrap();
    let config = EndpointPickerConfig::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let options = Options { allow_experimental: true, trace: false };
    if scenario.startup_error.is_some() {
        if Scheduler::new(&config, options).is_ok() {
            counts.failures.push(format!("{name}: starts, and should not"));
        }
        return;
    }
    let mut core = support::core_of(&text);
    core.decisions = Decisions::new(1);
    let core = Arc::new(core);
    core.set_endpoints(
        scenario
            .endpoints
            .iter()
            .map(|spec| crate::pool::EndpointSpec {
                namespace: "default".to_owned(),
                name: spec.name.clone(),
                address: spec.address,
                labels: spec.labels.clone(),
            })
            .collect(),
    );
    let mut current: Vec<_> = scenario.endpoints.iter().map(|spec| spec.metrics.clone()).collect();
    publish(&core, scenario, &current);
    let mut held: HashMap<&str, Stream> = HashMap::new();
    let mut tokens: HashMap<&str, String> = HashMap::new();
    for step in &scenario.requests {
        if let Some(reason) = different(&format!("{name}/{}", step.id)) {
            eprintln!("not replayed: {name}/{}: {reason}", step.id);
            counts.skipped += 1;
            continue;
        }
        for change in &step.set_metrics_before {
            let metrics = &mut current[change.endpoint];
            metrics.waiting = change.waiting.unwrap_or(metrics.waiting);
            metrics.kv_cache_usage = change.kv.unwrap_or(metrics.kv_cache_usage);
        }
        publish(&core, scenario, &current);
        for done in &step.complete_before {
            held.remove(done.as_str());
        }
        for round in 0..step.repeat.unwrap_or(1) {
            counts.requests += 1;
            let context = format!("{name}/{} #{round}", step.id);
            let outcome = Attempt { core: &core, scenario, step, tokens: &tokens }.until_as_recorded(round);
            match outcome {
                Err(difference) => counts.failures.push(format!("{context}: {difference}")),
                Ok((stream, token)) => {
                    if let Some(token) = token {
                        tokens.insert(&step.id, token);
                    }
                    if step.hold_open {
                        held.insert(&step.id, stream);
                    }
                }
            }
        }
    }
}

fn publish(core: &Core, scenario: &Scenario, current: &[MetricSpec]) {
    for member in core.pool.members().iter() {
        let index = scenario.endpoints.iter().position(|spec| spec.name == member.endpoint.name).unwrap();
        member.scraped(metrics(&current[index]));
    }
}

/// One request of a scenario.
struct Attempt<'a> {
    core: &'a Arc<Core>,
    scenario: &'a Scenario,
    step: &'a Step,
    tokens: &'a HashMap<&'a str, String>,
}

impl Attempt<'_> {
    /// In a stateful scenario, later requests depend on the recorded pick. So a random choice among equals is repeated until it
    /// is the recorded one, and the state is restored before each attempt.
    fn until_as_recorded(&self, round: usize) -> Result<(Stream, Option<String>), String> {
        let recorded: Vec<&String> = self.step.observed.picks.keys().collect();
        let steer = recorded.len() == 1 && self.step.observed.immediate.is_none();
        let mut difference = String::new();
        for _ in 0..400 {
            let before = self.core.state.read().clone();
            match self.once(round) {
                Err(found) if found.starts_with(OTHER_PICK) && steer => difference = found,
                Err(found) => return Err(found),
                Ok(found) => return Ok(found),
            }
            *self.core.state.write() = before;
        }
        Err(difference)
    }

    fn once(&self, round: usize) -> Result<(Stream, Option<String>), String> {
        let request = &self.step.request;
        let id = format!("{}-{round}", self.step.id);
        let mut headers: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        headers.push(("x-request-id", &id));
        if let Some(from) = &request.session_token_from {
            let token =
                self.tokens.get(from.as_str()).ok_or_else(|| format!("{from} got no session token"))?;
            headers.push(("x-session-token", token));
        }
        let mut stream = Stream::open(self.core);
        let replies = match &request.body {
            None => {
                let event = Event::RequestHeaders {
                    headers: support::request_headers(&request.method, &request.path, &headers),
                    end_of_stream: true,
                };
                stream.feed(Incoming { event, metadata: self.metadata() }).0
            }
            Some(body) => stream.request(&request.path, &headers, body.as_bytes(), self.metadata()),
        };
        self.check(&replies, &id, round)?;
        if self.step.observed.immediate.is_some() || request.body.is_none() {
            return Ok((stream, None));
        }
        if self.step.hold_open {
            return Ok((stream, None));
        }
        let token = self.respond(&mut stream)?;
        Ok((stream, token))
    }

    fn metadata(&self) -> Option<Metadata> {
        let request = &self.step.request;
        let mut metadata = Metadata::default();
        for (namespace, fields) in &request.metadata {
            metadata.0.insert(namespace.clone(), fields.clone());
        }
        if let Some(subset) = &request.subset_hint_endpoints {
            let hint: Vec<Value> = subset
                .iter()
                .map(|&index| self.scenario.endpoints[index].address.to_string().into())
                .collect();
            metadata.insert(names::SUBSET_NAMESPACE, names::DESTINATION_SUBSET, hint.into());
        }
        (!metadata.is_empty()).then_some(metadata)
    }

    fn check(&self, replies: &[Reply], id: &str, round: usize) -> Result<(), String> {
        let observed = &self.step.observed;
        if let Some(expected) = &observed.immediate {
            let [Reply { action: Action::Immediate(immediate), .. }] = replies else {
                return Err(format!("expected {}, got {replies:?}", expected.status));
            };
            let body = String::from_utf8_lossy(&immediate.body);
            // Request ids of the recording are scenario-request-round.
            let expected_body = expected.body.replace(&recorded_id(&expected.body), id);
            if immediate.status != expected.status || body != expected_body {
                return Err(format!(
                    "expected {} {expected_body:?}, got {} {body:?}",
                    expected.status, immediate.status
                ));
            }
            return Ok(());
        }
        let Some((first, rest)) = replies.split_first() else {
            return Err("no reply".to_owned());
        };
        let Action::RequestHeaders(changes) = &first.action else {
            return Err(format!("expected a header reply, got {first:?}"));
        };
        let destination = changes.get(names::DESTINATION).unwrap_or_default();
        if first.metadata.destination() != Some(destination) {
            return Err("header and metadata differ".to_owned());
        }
        // Scores were recorded for the first round only.
        if round == 0 {
            self.check_scores(first)?;
            self.check_raw_scores()?;
        }
        if !observed.picks.contains_key(destination) && !self.is_tied(destination) {
            return Err(format!("{OTHER_PICK}{destination} is not among {:?}", observed.picks));
        }
        if observed.picks.len() == 1 && !observed.picks.contains_key(destination) {
            return Err(format!("{OTHER_PICK}{destination} instead of {:?}", observed.picks));
        }
        self.check_headers(changes, destination, id)?;
        self.check_body(rest)
    }

    /// Whether the destination has the best of the recorded totals.
    fn is_tied(&self, destination: &str) -> bool {
        let scores = &self.step.observed.emitted_scores;
        let best = scores.values().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.get(destination).is_some_and(|score| (score - best).abs() < 1e-9)
    }

    fn check_scores(&self, reply: &Reply) -> Result<(), String> {
        let expected = &self.step.observed.emitted_scores;
        if expected.is_empty() {
            return Ok(());
        }
        let Some(Value::Object(scores)) = reply.metadata.get(names::LB_NAMESPACE, names::DESTINATION_SCORES)
        else {
            return Err("no scores".to_owned());
        };
        let ours: BTreeMap<&str, f64> =
            scores.iter().map(|(endpoint, score)| (endpoint.as_str(), score.as_f64().unwrap())).collect();
        let same = ours.len() == expected.len()
            && ours.iter().all(|(endpoint, score)| {
                expected.get(*endpoint).is_some_and(|expected| (expected - score).abs() < 1e-9)
            });
        if same {
            return Ok(());
        }
        // The order among endpoints that were never used is random: try again.
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values
        };
        let theirs = sorted(expected.values().copied().collect());
        let permuted = sorted(ours.values().copied().collect());
        let prefix =
            if theirs.iter().zip(&permuted).all(|(a, b)| (a - b).abs() < 1e-9) || self.has_idle_order() {
                OTHER_PICK
            } else {
                ""
            };
        Err(format!("{prefix}scores {ours:?} instead of {expected:?}"))
    }

    /// Compares what each scorer of each profile said with the record of the decision.
    fn check_raw_scores(&self) -> Result<(), String> {
        if self.step.observed.scores.is_empty() {
            return Ok(());
        }
        let kept: Value =
            serde_json::from_str(&Decisions::answer([&self.core.decisions], &Query::default())).unwrap();
        let mut ours: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        for profile in kept["decisions"][0]["profiles"].as_array().unwrap() {
            for endpoint in profile["endpoints"].as_array().unwrap() {
                let name = endpoint["endpoint"].as_str().unwrap().trim_start_matches("default/");
                for (index, scorer) in profile["scorers"].as_array().unwrap().iter().enumerate() {
                    let key = (scorer["plugin"].as_str().unwrap().to_owned(), name.to_owned());
                    ours.entry(key).or_default().push(endpoint["scores"][index].as_f64().unwrap());
                }
            }
        }
        let mut theirs: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        for (scorer, scores) in &self.step.observed.scores {
            let plugin = scorer.split_once('/').map_or(scorer.as_str(), |(_, name)| name);
            for (endpoint, scores) in scores {
                let scores = match scores {
                    RawScores::One(score) => vec![*score],
                    RawScores::Several(scores) => scores.clone(),
                };
                theirs.insert((plugin.to_owned(), endpoint.clone()), scores);
            }
        }
        let close = |one: &[f64], other: &[f64]| {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-9)
        };
        let differing: Vec<String> = theirs
            .iter()
            .filter(|(key, scores)| !ours.get(*key).is_some_and(|own| close(own, scores)))
            .map(|(key, scores)| format!("{key:?}: {:?} instead of {scores:?}", ours.get(key)))
            .collect();
        if differing.is_empty() {
            return Ok(());
        }
        let random = if self.has_idle_order() { OTHER_PICK } else { "" };
        Err(format!("{random}raw scores: {}", differing.join(", ")))
    }

    fn has_idle_order(&self) -> bool {
        self.scenario.config.to_string().contains("no-hit-lru-scorer")
    }

    fn check_headers(
        &self,
        changes: &longboat_extproc::HeaderChanges,
        destination: &str,
        id: &str,
    ) -> Result<(), String> {
        let mut ours: BTreeMap<String, String> = changes
            .set
            .iter()
            .map(|header| {
                let name = String::from_utf8_lossy(&header.name).into_owned();
                (name, header.text().unwrap().to_owned())
            })
            .filter(|(name, _)| name != names::DESTINATION)
            .collect();
        let mut expected = self.step.observed.set_headers.clone();
        if let Some(value) = expected.get_mut("x-request-id") {
            id.clone_into(value);
        }
        // If the best endpoints of a profile are tied, the recorded pick is only one of them, and so is the header that names
        // it.
        for header in ["x-prefiller-host-port", "x-data-parallel-host-port"] {
            if let (Some(own), Some(theirs)) = (ours.get(header), expected.get(header))
                && own != theirs
            {
                return Err(format!("{OTHER_PICK}{header} {own} instead of {theirs}"));
            }
        }
        ours.retain(|name, _| name != "x-session-token");
        expected.retain(|name, _| name != "x-session-token");
        if ours == expected {
            Ok(())
        } else {
            Err(format!("headers {ours:?} instead of {expected:?} ({destination})"))
        }
    }

    /// The body must be unchanged, or, with another model, equal as JSON.
    fn check_body(&self, replies: &[Reply]) -> Result<(), String> {
        let Some(sent) = &self.step.request.body else {
            return Ok(());
        };
        let mut body = Vec::new();
        for reply in replies {
            let Action::RequestBody { body: chunk, .. } = &reply.action else {
                return Err(format!("expected a body chunk, got {reply:?}"));
            };
            body.extend_from_slice(chunk);
        }
        match &self.step.observed.body_changed {
            Some(Value::String(text)) if text.starts_with('{') => {
                let ours: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                let theirs: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
                (ours == theirs).then_some(()).ok_or_else(|| format!("body {ours} instead of {theirs}"))
            }
            _ => (body == sent.as_bytes()).then_some(()).ok_or_else(|| "the body changed".to_owned()),
        }
    }

    /// Sends the response, and returns the session token in its headers.
    fn respond(&self, stream: &mut Stream) -> Result<Option<String>, String> {
        let observed = &self.step.observed;
        if observed.response_set_headers.is_empty() {
            return Ok(None);
        }
        let mut headers = Headers::new();
        headers.push(":status", "200");
        headers.push("content-type", "application/json");
        let (replies, _) = stream.feed(Event::ResponseHeaders { headers, end_of_stream: false });
        let [Reply { action: Action::ResponseHeaders(changes), .. }] = replies.as_slice() else {
            return Err(format!("expected response headers, got {replies:?}"));
        };
        let mut ours: BTreeMap<String, String> = changes
            .set
            .iter()
            .map(|header| {
                let name = String::from_utf8_lossy(&header.name).into_owned();
                (name, header.text().unwrap().to_owned())
            })
            .collect();
        // A picker that keeps decisions names the request in the response, so that clients can look it up.
        if !observed.response_set_headers.contains_key("x-request-id") {
            ours.remove("x-request-id");
        }
        if ours != observed.response_set_headers {
            return Err(format!("response headers {ours:?} instead of {:?}", observed.response_set_headers));
        }
        let target = observed.response_body.as_ref().map(|_| {
            ["internal", "internal2"]
                [usize::from(self.step.request.headers.contains_key("x-gateway-model-name-rewrite"))]
        });
        let body = observed.response_body.as_ref().map_or_else(
            || b"{}".to_vec(),
            |body| body.replace("public", target.unwrap_or_default()).into_bytes(),
        );
        let (replies, _) = stream.feed(Event::ResponseBody { body: Bytes::from(body), end_of_stream: true });
        if let (Some(expected), [Reply { action: Action::ResponseBody { body, .. }, .. }]) =
            (&observed.response_body, replies.as_slice())
            && body != expected.as_bytes()
        {
            return Err(format!("response {:?} instead of {expected:?}", String::from_utf8_lossy(body)));
        }
        Ok(ours.get("x-session-token").cloned())
    }
}

/// Marks a difference that may be a random choice.
const OTHER_PICK: &str = "other pick: ";

fn recorded_id(body: &str) -> String {
    body.rsplit_once("for request ").map_or_else(|| "\u{0}".to_owned(), |(_, id)| id.to_owned())
}
