//! Generated answers: filler text, or text in the form that a request requires.

mod check;
mod json;
mod limits;
mod merge;
mod pattern;

use std::collections::VecDeque;

use longboat_serving::{Choice, Job, Part, Prompt, Refusal, Shape, Token, Tool};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::Value;
use xxhash_rust::xxh64::xxh64;

use crate::{
    args::{Args, Mode},
    text,
};

/// A complete answer that can be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// The tool to call, with the tokens as its arguments.
    pub(crate) call: Option<String>,
    pub(crate) tokens: VecDeque<Token>,
    /// `stop`, `length`, `tool_calls` or `remote_decode`.
    pub(crate) reason: &'static str,
    /// The stop string that ended the answer.
    pub(crate) stop: Option<String>,
}

/// Generates the answer number `copy` to a prompt. With a seed or a temperature of 0, the same request gets the same answer.
pub(crate) fn answer(args: &Args, job: &Job, prompt: &Prompt, copy: usize) -> Result<Answer, Refusal> {
    let greedy = (job.sampling.temperature == 0.0).then_some(0);
    let chosen = job.sampling.seed.map(i64::cast_unsigned).or(args.seed).or(greedy);
    let bytes: Vec<u8> = prompt.tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    // Copies of an answer differ, also with a seed.
    let seed = chosen.map_or_else(rand::random, |seed| xxh64(&bytes, seed)).wrapping_add(copy as u64);
    let mut random = StdRng::seed_from_u64(seed);

    let tool = tool(args, job, &mut random);
    let (full, is_free) = match (&tool, &job.shape, args.mode) {
        (Some(tool), _, _) => {
            let arguments =
                json::make(&arguments_schema(&tool.parameters), &mut random).map_err(|reason| {
                    Refusal::field("tools", format!("The parameters of the tool `{}`: {reason}", tool.name))
                })?;
            (arguments.to_string(), false)
        }
        (None, Some(shape), _) => (generate_value(shape, &job.shape_field, &mut random)?, false),
        (None, None, Mode::Echo) => (prompt.last.clone(), true),
        (None, None, Mode::Random) => (text::filler(seed, min_tokens(job, prompt.limit)).concat(), true),
    };
    let mut pieces: Vec<String> = text::pieces(&full).map(Into::into).collect();
    let mut reason = match &job.tools {
        // If the request names the tool, the call ends with `stop`.
        Some(tools) if tool.is_some() && !matches!(tools.choice, Choice::Named(_)) => "tool_calls",
        _ => "stop",
    };
    if pieces.len() > prompt.limit || (is_free && min_tokens(job, prompt.limit) == Some(prompt.limit)) {
        pieces.truncate(prompt.limit);
        reason = "length";
    }
    let mut stop = None;
    if tool.is_none() {
        let full = pieces.concat();
        let found = job.sampling.stops.iter().filter_map(|stop| Some((full.find(stop.as_str())?, stop)));
        if let Some((at, found)) = found.min_by_key(|(at, _)| *at) {
            let end = if job.sampling.include_stop { at + found.len() } else { at };
            pieces = text::pieces(&full[..end]).map(Into::into).collect();
            reason = "stop";
            stop = Some(found.clone());
        }
    }
    if job.part == Part::Prefill {
        reason = "remote_decode";
    }
    let tokens = pieces.into_iter().map(|text| token(text, job.sampling.logprobs, &mut random)).collect();
    Ok(Answer { call: tool.map(|tool| tool.name.clone()), tokens, reason, stop })
}

/// Returns the tool to call. If the client leaves the choice open, the simulator calls a tool, unless the last message is a
/// tool's result. Then it answers in words, so that agent loops end.
fn tool<'j>(args: &Args, job: &'j Job, random: &mut StdRng) -> Option<&'j Tool> {
    let tools = job.tools.as_ref()?;
    match &tools.choice {
        Choice::Named(name) => tools.list.iter().find(|tool| tool.name == *name),
        Choice::Required => tools.list.choose(random),
        Choice::Auto => {
            let speaks = job.follows_a_tool || job.shape.is_some() || args.mode == Mode::Echo;
            if speaks { None } else { tools.list.choose(random) }
        }
    }
}

/// Returns the schema of a tool's arguments. They are an object, also if the parameters do not say so.
fn arguments_schema(parameters: &Value) -> Value {
    let mut schema = parameters.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

fn generate_value(shape: &Shape, field: &str, random: &mut StdRng) -> Result<String, Refusal> {
    let refusal = |reason: String| Refusal::field("structured_outputs", reason);
    match shape {
        Shape::JsonObject => {
            let number = f64::from(random.random_range(0..100)) / 100.0;
            let answer = text::filler(random.random(), None).concat();
            Ok(serde_json::json!({"answer": answer, "confidence": number}).to_string())
        }
        Shape::Json(schema) => {
            json::make(schema, random).map(|value: Value| value.to_string()).map_err(refusal)
        }
        Shape::Grammar(_) => Err(Refusal::unsupported(field)),
        Shape::Regex(pattern) => pattern::make(pattern, random).map_err(refusal),
        Shape::Choice(choices) => Ok(choices.choose(random).cloned().unwrap_or_default()),
    }
}

/// The least number of tokens, if the client sets one.
fn min_tokens(job: &Job, limit: usize) -> Option<usize> {
    if job.sampling.ignore_eos {
        Some(limit)
    } else {
        Some(job.sampling.min_tokens.min(limit)).filter(|min_tokens| *min_tokens > 0)
    }
}

/// Creates a token with generated probabilities. The chosen token is always the most likely one. Each further token has half
/// of the remaining probability.
fn token(text: String, top: Option<usize>, random: &mut StdRng) -> Token {
    let Some(top) = top else {
        return Token { text, decoded: String::new(), logprob: 0.0, top: Vec::new() };
    };
    let chosen: f64 = random.random_range(0.5..0.98);
    let mut likely = vec![(text.clone(), chosen.ln())];
    let mut rest = 1.0 - chosen;
    for other in text::alternatives(&text) {
        rest /= 2.0;
        likely.push((other, rest.ln()));
    }
    likely.truncate(top);
    Token { decoded: text.clone(), text, logprob: chosen.ln(), top: likely }
}
