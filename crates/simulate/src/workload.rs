//! Workloads of `inference-perf`, which `llm-d-benchmark` uses too: how many requests a second in stages, and random prompts or
//! prompts with shared beginnings. What such a file says of servers, metrics and reports does not matter here.

use std::time::Duration;

use longboat_engine_model::split_mix::mix;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde::Deserialize;

use crate::{
    generate::MAX_LENGTH,
    trace::{Requests, Segment, TracePrompt, TraceRequest, timely},
};

/// The most requests a second.
const MAX_RATE: f64 = 1e6;
/// The longest stage, in seconds.
const MAX_STAGE_SECONDS: f64 = 3.2e8;
/// The most stages.
const MAX_STAGES: usize = 10_000;
/// The most groups of prompts, and the most prompts of a group.
const MAX_PROMPTS: u64 = 1 << 24;
/// Segments of questions begin here; the numbers below are shared prefixes.
const FIRST_QUESTION: u64 = 1 << 32;

/// A workload.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Workload {
    load: Load,
    data: Data,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Load {
    #[serde(rename = "type", default)]
    kind: LoadKind,
    /// Seconds between two stages.
    #[serde(default)]
    interval: f64,
    #[serde(default)]
    stages: Vec<Stage>,
    #[serde(default)]
    lora_traffic_split: Vec<AdapterShare>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LoadKind {
    #[default]
    Constant,
    Poisson,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Stage {
    rate: f64,
    duration: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct AdapterShare {
    name: String,
    split: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Data {
    #[serde(rename = "type")]
    kind: DataKind,
    input_distribution: Option<Lengths>,
    output_distribution: Option<Lengths>,
    shared_prefix: Option<SharedPrefix>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DataKind {
    Random,
    Synthetic,
    SharedPrefix,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Lengths {
    min: f64,
    max: f64,
    mean: f64,
    #[serde(default)]
    std_dev: f64,
    total_count: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct SharedPrefix {
    num_groups: u64,
    num_prompts_per_group: u64,
    system_prompt_len: u64,
    #[serde(default)]
    question_len: u64,
    #[serde(default)]
    output_len: u64,
    question_distribution: Option<Lengths>,
    output_distribution: Option<Lengths>,
    #[serde(default)]
    enable_multi_turn_chat: bool,
}

// === impl Workload ===

impl Workload {
    /// Reads a workload.
    ///
    /// # Errors
    /// What is wrong, or cannot be simulated.
    pub fn parse(text: &str) -> Result<Self, String> {
        let workload: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        workload.check().map(|()| workload)
    }

    fn check(&self) -> Result<(), String> {
        if self.load.stages.is_empty() || self.load.stages.len() > MAX_STAGES {
            return Err(format!(
                "load.stages: expected 1 to {MAX_STAGES} stages, each with `rate` and `duration`"
            ));
        }
        let seconds = |field: String, value: f64| match value {
            0.0..=MAX_STAGE_SECONDS => Ok(()),
            _ => Err(format!("load.{field}: {value}: expected 0 to {MAX_STAGE_SECONDS} seconds")),
        };
        for (index, Stage { rate, duration }) in self.load.stages.iter().enumerate() {
            if !(*rate > 0.0 && *rate <= MAX_RATE) {
                return Err(format!(
                    "load.stages[{index}].rate: {rate}: expected a number above 0, at most {MAX_RATE}"
                ));
            }
            seconds(format!("stages[{index}].duration"), *duration)?;
        }
        seconds("interval".to_owned(), self.load.interval)?;
        let data = &self.data;
        let lengths = |field: &str, lengths: Option<Lengths>| match lengths {
            None => Err(format!("data.{field}: missing")),
            Some(Lengths { min, max, .. })
                if !(0.0 <= min && min <= max && max <= crate::numbers::float(MAX_LENGTH)) =>
            {
                Err(format!("data.{field}: expected 0 <= min <= max <= {MAX_LENGTH}"))
            }
            Some(_) => Ok(()),
        };
        match (data.kind, &data.shared_prefix) {
            (DataKind::SharedPrefix, None) => Err("data.shared_prefix: missing".to_owned()),
            (DataKind::SharedPrefix, Some(shared)) => {
                if shared.enable_multi_turn_chat {
                    return Err(
                        "data.shared_prefix.enable_multi_turn_chat: conversations depend on answers, which \
                                are not made up here; use --generate sessions"
                            .to_owned(),
                    );
                }
                for (field, value, least, most) in [
                    ("num_groups", shared.num_groups, 1, MAX_PROMPTS),
                    ("num_prompts_per_group", shared.num_prompts_per_group, 1, MAX_PROMPTS),
                    ("system_prompt_len", shared.system_prompt_len, 0, MAX_LENGTH),
                    ("question_len", shared.question_len, 0, MAX_LENGTH),
                    ("output_len", shared.output_len, 0, MAX_LENGTH),
                ] {
                    if !(least..=most).contains(&value) {
                        let field = format!("data.shared_prefix.{field}");
                        return Err(format!("{field}: {value}: expected {least} to {most}"));
                    }
                }
                let further = [
                    ("shared_prefix.question_distribution", shared.question_distribution),
                    ("shared_prefix.output_distribution", shared.output_distribution),
                ];
                further
                    .into_iter()
                    .filter(|(_, given)| given.is_some())
                    .try_for_each(|(f, given)| lengths(f, given))
            }
            (DataKind::Random | DataKind::Synthetic, _) => {
                lengths("input_distribution", data.input_distribution)?;
                lengths("output_distribution", data.output_distribution)
            }
        }
    }

    /// Returns the requests, in the order of their times. The same seed makes the same requests.
    pub fn requests(self, seed: u64) -> Requests<'static> {
        Box::new(timely(Generator {
            random: StdRng::seed_from_u64(seed),
            seed,
            stage: 0,
            begun: 0.0,
            next: 0.0,
            count: 0,
            workload: self,
        }))
    }
}

struct Generator {
    workload: Workload,
    random: StdRng,
    seed: u64,
    stage: usize,
    /// When the stage began, and when its next request comes, in seconds.
    begun: f64,
    next: f64,
    count: u64,
}

impl Iterator for Generator {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        let stage = loop {
            let stage = *self.workload.load.stages.get(self.stage)?;
            if self.next < self.begun + stage.duration {
                break stage;
            }
            self.begun += stage.duration + self.workload.load.interval;
            // An interval that goes on past the end of a stage does not delay the next stage.
            self.next = self.begun;
            self.stage += 1;
        };
        let at = Duration::from_secs_f64(self.next);
        self.next += match self.workload.load.kind {
            LoadKind::Constant => 1.0 / stage.rate,
            LoadKind::Poisson => -(1.0 - self.random.random::<f64>()).ln() / stage.rate,
        };
        let mut request = match &self.workload.data.shared_prefix {
            Some(shared) if self.workload.data.kind == DataKind::SharedPrefix => {
                let group = self.random.random_range(0..shared.num_groups);
                let prompt = group * shared.num_prompts_per_group
                    + self.random.random_range(0..shared.num_prompts_per_group);
                // A question has the same length wherever it is asked.
                let mut own = StdRng::seed_from_u64(mix(self.seed ^ mix(prompt)));
                let question = length(shared.question_distribution, shared.question_len, &mut own);
                let output = length(shared.output_distribution, shared.output_len, &mut own);
                let segments = vec![
                    Segment(group, shared.system_prompt_len),
                    Segment(FIRST_QUESTION + prompt, question),
                ];
                TraceRequest::new(at, TracePrompt::Segments(segments), tokens(output))
            }
            _ => {
                let input = self.workload.data.input_distribution;
                let number = match input.and_then(|lengths| lengths.total_count) {
                    // Prompts come again after the last one.
                    Some(total) => self.count % total.max(1),
                    None => self.count,
                };
                let mut own = StdRng::seed_from_u64(mix(self.seed ^ mix(number)));
                let segments = vec![Segment(FIRST_QUESTION + number, length(input, 1, &mut own))];
                let output = length(self.workload.data.output_distribution, 1, &mut own);
                TraceRequest::new(at, TracePrompt::Segments(segments), tokens(output))
            }
        };
        self.count += 1;
        let mut left = self.random.random::<f64>();
        request.adapter = self.workload.load.lora_traffic_split.iter().find_map(|adapter| {
            left -= adapter.split;
            (left < 0.0).then(|| adapter.name.clone())
        });
        Some(request)
    }
}

/// Draws a length from a normal distribution between its bounds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length within checked bounds")]
fn length(lengths: Option<Lengths>, fixed: u64, random: &mut StdRng) -> u64 {
    let Some(Lengths { min, max, mean, std_dev, .. }) = lengths else { return fixed.max(1) };
    // Box and Muller: a normal number from two even ones.
    let (first, second): (f64, f64) = (random.random(), random.random());
    let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
    ((mean + std_dev * normal).clamp(min, max).round() as u64).max(1)
}

fn tokens(count: u64) -> usize {
    usize::try_from(count).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: &str = "
load: {type: constant, interval: 5, stages: [{rate: 2, duration: 10}, {rate: 10, duration: 3}]}
api: {type: completion, streaming: true}
server: {type: vllm, base_url: http://0.0.0.0:8000}
data:
  type: shared_prefix
  shared_prefix: {num_groups: 3, num_prompts_per_group: 2, system_prompt_len: 100, question_len: 50, output_len: 20}
";
    const RANDOM: &str = "
load: {type: poisson, stages: [{rate: 20, duration: 100}], lora_traffic_split: [{name: a, split: 0.25}, {name: b, split: 0.75}]}
data:
  type: random
  input_distribution: {min: 10, max: 90, mean: 50, std_dev: 10, total_count: 40}
  output_distribution: {min: 5, max: 5, mean: 5, std_dev: 0}
";

    fn all(text: &str) -> Vec<TraceRequest> {
        Workload::parse(text).unwrap().requests(7).map(Result::unwrap).collect()
    }

    #[test]
    fn stages_follow_each_other_and_groups_share_their_prefix() {
        let requests = all(SHARED);
        let seconds: Vec<f64> = requests.iter().map(|request| request.at.as_secs_f64()).collect();
        assert_eq!((requests.len(), seconds[1], seconds[20]), (20 + 30, 0.5, 15.0));
        let TracePrompt::Segments(segments) = &requests[0].prompt else { panic!("segments") };
        assert_eq!((segments[0].1, segments[1].1, requests[0].output_tokens), (100, 50, 20));
        let prompts: std::collections::HashSet<_> =
            requests.iter().map(|request| format!("{:?}", request.prompt)).collect();
        assert_eq!(prompts.len(), 6);
    }

    #[test]
    fn random_prompts_have_lengths_within_their_bounds_and_adapters_their_shares() {
        let requests = all(RANDOM);
        assert!((1700..2300).contains(&requests.len()), "{}", requests.len());
        assert!(requests.is_sorted_by_key(|request| request.at));
        assert!(
            requests
                .iter()
                .all(|request| (10..=90).contains(&request.prompt.tokens()) && request.output_tokens == 5)
        );
        assert_eq!(requests[0].prompt, requests[40].prompt);
        let first = requests.iter().filter(|request| request.adapter.as_deref() == Some("a")).count();
        assert!((requests.len() / 5..requests.len() / 3).contains(&first), "{first} of {}", requests.len());
        assert_eq!(requests, all(RANDOM));
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_its_field() {
        for (from, to, expected) in [
            ("stages: [{rate: 2, duration: 10}, {rate: 10, duration: 3}]", "stages: []", "load.stages"),
            ("rate: 2,", "rate: -2,", "load.stages[0].rate: -2"),
            ("duration: 10", "duration: 1e30", "load.stages[0].duration"),
            ("type: constant", "type: concurrent", "concurrent"),
            ("  type: shared_prefix", "  type: shareGPT", "shareGPT"),
            ("num_groups: 3", "num_groups: 0", "data.shared_prefix.num_groups: 0"),
            ("question_len: 50", "question_len: 5000000000", "data.shared_prefix.question_len"),
            ("output_len: 20", "output_len: 20, enable_multi_turn_chat: true", "enable_multi_turn_chat"),
        ] {
            let error = Workload::parse(&SHARED.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let error = Workload::parse(&RANDOM.replace("min: 10,", "min: 100,")).unwrap_err();
        assert!(error.starts_with("data.input_distribution"), "{error}");
    }
}
