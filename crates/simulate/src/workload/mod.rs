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
    #[serde(default = "one")]
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

/// How lengths are drawn. Absent fields have the defaults of inference-perf.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Lengths {
    #[serde(rename = "type")]
    kind: Distribution,
    min: f64,
    max: f64,
    mean: f64,
    std_dev: Option<f64>,
    variance: Option<f64>,
    total_count: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Distribution {
    Normal,
    Lognormal,
    Uniform,
    Fixed,
}

/// One length for all, or lengths that are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number of tokens, or a distribution with the fields type, min, max, mean and std_dev"
)]
enum Length {
    Fixed(u64),
    Drawn(Lengths),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SharedPrefix {
    #[serde(alias = "num_unique_system_prompts")]
    num_groups: u64,
    #[serde(alias = "num_users_per_system_prompt")]
    num_prompts_per_group: u64,
    system_prompt_len: Length,
    question_len: Length,
    output_len: Length,
    /// The former places of lengths that are drawn.
    question_distribution: Option<Lengths>,
    output_distribution: Option<Lengths>,
    enable_multi_turn_chat: bool,
    /// The seed of the lengths. Absent means that of the run.
    seed: Option<u64>,
}

fn one() -> f64 {
    1.0
}

// === impl Lengths ===

impl Default for Lengths {
    fn default() -> Self {
        let kind = Distribution::Normal;
        Self { kind, min: 10.0, max: 1024.0, mean: 512.0, std_dev: None, variance: None, total_count: None }
    }
}

impl Lengths {
    fn check(&self, field: &str) -> Result<(), String> {
        let Self { min, max, mean, .. } = *self;
        if !(0.0 <= min && min <= max && max <= crate::numbers::float(MAX_LENGTH)) {
            return Err(format!("data.{field}: expected 0 <= min <= max <= {MAX_LENGTH}"));
        }
        if self.kind == Distribution::Lognormal && !(mean > 0.0 && mean.is_finite()) {
            return Err(format!("data.{field}.mean: {mean}: expected a number above 0"));
        }
        if self.variance.is_some() && self.std_dev.is_some_and(|deviation| deviation > 0.0) {
            return Err(format!("data.{field}: expected `std_dev` or `variance`, not both"));
        }
        let spread = [("std_dev", self.std_dev), ("variance", self.variance)];
        match spread
            .into_iter()
            .find(|(_, value)| value.is_some_and(|value| !(value >= 0.0 && value.is_finite())))
        {
            Some((name, _)) => Err(format!("data.{field}.{name}: expected a number of at least 0")),
            None => Ok(()),
        }
    }

    fn deviation(&self) -> f64 {
        self.variance.map(f64::sqrt).or(self.std_dev).unwrap_or(200.0)
    }

    /// Draws a length between the bounds. It is at least 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a length within checked bounds"
    )]
    fn draw(&self, random: &mut StdRng) -> u64 {
        let (mean, deviation) = (self.mean, self.deviation());
        // Box and Muller: a normal number from two even ones.
        let (first, second): (f64, f64) = (random.random(), random.random());
        let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
        let length = match self.kind {
            Distribution::Normal => mean + deviation * normal,
            // Mean and deviation are those of the lengths, not of their logarithms.
            Distribution::Lognormal => {
                let variance = (deviation / mean).powi(2).ln_1p();
                (mean.ln() - variance / 2.0 + variance.sqrt() * normal).exp()
            }
            Distribution::Uniform => self.min + (self.max - self.min) * first,
            Distribution::Fixed => mean,
        };
        (length.clamp(self.min, self.max).round() as u64).max(1)
    }
}

// === impl Length ===

impl Length {
    fn check(&self, field: &str) -> Result<(), String> {
        match self {
            Self::Fixed(0..=MAX_LENGTH) => Ok(()),
            Self::Fixed(value) => Err(format!("data.{field}: {value}: expected 0 to {MAX_LENGTH}")),
            Self::Drawn(lengths) => lengths.check(field),
        }
    }

    fn draw(&self, random: &mut StdRng) -> u64 {
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::Drawn(lengths) => lengths.draw(random),
        }
    }
}

// === impl SharedPrefix ===

impl Default for SharedPrefix {
    fn default() -> Self {
        Self {
            num_groups: 10,
            num_prompts_per_group: 10,
            system_prompt_len: Length::Fixed(100),
            question_len: Length::Fixed(50),
            output_len: Length::Fixed(50),
            question_distribution: None,
            output_distribution: None,
            enable_multi_turn_chat: false,
            seed: None,
        }
    }
}

impl SharedPrefix {
    fn questions(&self) -> Length {
        self.question_distribution.map_or(self.question_len, Length::Drawn)
    }

    fn answers(&self) -> Length {
        self.output_distribution.map_or(self.output_len, Length::Drawn)
    }

    fn check(&self) -> Result<(), String> {
        if self.enable_multi_turn_chat {
            return Err("data.shared_prefix.enable_multi_turn_chat: conversations depend on answers, which are not made up \
                        here; use --generate sessions"
                .to_owned());
        }
        for (field, value) in
            [("num_groups", self.num_groups), ("num_prompts_per_group", self.num_prompts_per_group)]
        {
            if !(1..=MAX_PROMPTS).contains(&value) {
                return Err(format!("data.shared_prefix.{field}: {value}: expected 1 to {MAX_PROMPTS}"));
            }
        }
        self.system_prompt_len.check("shared_prefix.system_prompt_len")?;
        for (name, former, length, drawn) in [
            ("question_len", "question_distribution", &self.question_len, &self.question_distribution),
            ("output_len", "output_distribution", &self.output_len, &self.output_distribution),
        ] {
            length.check(&format!("shared_prefix.{name}"))?;
            if let Some(drawn) = drawn {
                if matches!(length, Length::Drawn(_)) {
                    return Err(format!("data.shared_prefix: expected `{name}` or `{former}`, not both"));
                }
                drawn.check(&format!("shared_prefix.{former}"))?;
            }
        }
        Ok(())
    }
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
        let lengths = |field: &str, lengths: Option<Lengths>| {
            lengths.ok_or_else(|| format!("data.{field}: missing"))?.check(field)
        };
        match (data.kind, &data.shared_prefix) {
            (DataKind::SharedPrefix, None) => Err("data.shared_prefix: missing".to_owned()),
            (DataKind::SharedPrefix, Some(shared)) => shared.check(),
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
                let seed = shared.seed.unwrap_or(self.seed);
                let mut own = StdRng::seed_from_u64(mix(seed ^ mix(prompt)));
                let question = shared.questions().draw(&mut own).max(1);
                let output = shared.answers().draw(&mut own).max(1);
                let mut of_group = StdRng::seed_from_u64(mix(!seed ^ mix(group)));
                let segments = vec![
                    Segment(group, shared.system_prompt_len.draw(&mut of_group)),
                    Segment(FIRST_QUESTION + prompt, question),
                ];
                TraceRequest::new(at, TracePrompt::Segments(segments), tokens(output))
            }
            _ => {
                // Both were checked to be there.
                let input = self.workload.data.input_distribution.unwrap_or_default();
                let output = self.workload.data.output_distribution.unwrap_or_default();
                // Prompts come again after the last one.
                let number = input.total_count.map_or(self.count, |total| self.count % total.max(1));
                let mut own = StdRng::seed_from_u64(mix(self.seed ^ mix(number)));
                let segments = vec![Segment(FIRST_QUESTION + number, input.draw(&mut own))];
                let output = output.draw(&mut own);
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

fn tokens(count: u64) -> usize {
    usize::try_from(count).unwrap_or(1)
}

#[cfg(test)]
mod tests;
