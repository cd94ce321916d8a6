//! Sampling parameters, checked as in vLLM.

use serde_json::Value;

use crate::{
    Refusal,
    fields::{Fields, LogprobsField, OneOrMany},
};

/// The most answers to one prompt; in vLLM the limit is the batch size.
pub(crate) const MAX_CHOICES: usize = 128;
/// vLLM's default of `--max-logprobs`.
const MAX_LOGPROBS: i64 = 20;
/// The most stop strings, and the most stop tokens, of one request.
const MAX_STOPS: usize = 64;
/// The most `bad_words` of a request, and the most bytes of one: every token is compared with all of them.
const MAX_BAD_WORDS: usize = 256;
const MAX_BAD_WORD: usize = 256;

/// How tokens are sampled, and when an answer ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 always chooses the most likely token.
    pub temperature: f64,
    /// Sampling is limited to the most likely tokens whose total probability reaches this value, over 0 to 1.
    pub top_p: f64,
    /// Sampling is limited to this number of most likely tokens; 0 means all.
    pub top_k: usize,
    /// Sampling is limited to tokens with at least this share of the highest probability, 0 to 1.
    pub min_p: f64,
    /// Lowers the probability of tokens that occur already, -2 to 2.
    pub presence_penalty: f64,
    /// Lowers the probability of tokens by the number of their occurrences, -2 to 2.
    pub frequency_penalty: f64,
    /// Divides the weight of tokens that occur already, over 0.
    pub repetition_penalty: f64,
    /// The seed, which makes answers repeatable.
    pub seed: Option<i64>,
    /// Texts that end an answer.
    pub stops: Vec<String>,
    /// Tokens that end an answer.
    pub stop_tokens: Vec<u32>,
    /// Whether the stop string is part of the answer.
    pub include_stop: bool,
    /// The minimum number of tokens.
    pub min_tokens: usize,
    /// Whether an answer continues to its limit instead of ending at the end-of-sequence token.
    pub ignore_eos: bool,
    /// The biases that are added to the logits of tokens.
    pub biases: Vec<(u32, f32)>,
    /// The only tokens that are chosen from, if there are such.
    pub allowed: Option<Vec<u32>>,
    /// Texts that an answer does not have.
    pub bad_words: Vec<String>,
    /// Whether special tokens are part of an answer's text.
    pub show_special_tokens: bool,
    /// How many of the likeliest tokens are told beside each chosen one; none where no probabilities are wanted.
    pub logprobs: Option<usize>,
}

/// Returns the number of answers per prompt.
fn copies(fields: &Fields) -> Result<usize, Refusal> {
    match fields.n.unwrap_or(1) {
        n if n < 1 => Err(Refusal::bad_request(format!("n must be at least 1, got {n}."))),
        n => match usize::try_from(n) {
            Ok(n) if n <= MAX_CHOICES => Ok(n),
            _ => Err(Refusal::bad_request(format!("n must be at most {MAX_CHOICES}, got {n}."))),
        },
    }
}

/// Returns the maximum number of tokens that the client asks for.
pub(crate) fn limit(fields: &Fields) -> Result<Option<usize>, Refusal> {
    match fields.max_completion_tokens.or(fields.max_tokens) {
        Some(limit) if limit < 1 => {
            let message = format!("max_tokens must be at least 1, got {limit}.");
            Err(Refusal::parameter("max_tokens", message, Some(&limit)))
        }
        limit => Ok(limit.and_then(|limit| usize::try_from(limit).ok())),
    }
}

/// Reads and checks all sampling fields. Also returns the number of answers per prompt.
pub(crate) fn read(fields: &Fields) -> Result<(Sampling, usize), Refusal> {
    let within = |name: &'static str, value: Option<f64>, default: f64, fits: fn(f64) -> bool, rule: &str| {
        let value = value.unwrap_or(default);
        if fits(value) {
            Ok(value)
        } else {
            let value = Value::from(value);
            let message = format!("{name} must be {rule}, got {value}.");
            // vLLM's other checks do not name the parameter.
            let names_it = ["temperature", "top_p"].contains(&name);
            Err(if names_it {
                Refusal::parameter(name, message, Some(&value))
            } else {
                Refusal::bad_request(message)
            })
        }
    };
    let penalty = |name: &'static str, value: Option<f64>| {
        within(name, value, 0.0, |penalty| (-2.0..=2.0).contains(&penalty), "in [-2, 2]")
    };
    let min_tokens = match fields.min_tokens.unwrap_or(0) {
        min_tokens if min_tokens < 0 => {
            let message = format!("min_tokens must be greater than or equal to 0, got {min_tokens}.");
            return Err(Refusal::bad_request(message));
        }
        min_tokens => usize::try_from(min_tokens).unwrap_or(usize::MAX),
    };
    let top_k = match fields.top_k.unwrap_or(0) {
        top_k if top_k < -1 => {
            let message = format!("top_k must be 0 (disable), or at least 1, got {top_k}.");
            return Err(Refusal::bad_request(message));
        }
        // -1 means all, too.
        top_k => usize::try_from(top_k).unwrap_or(0),
    };
    let sampling = Sampling {
        // vLLM words the two bounds differently.
        temperature: within("temperature", fields.temperature, 1.0, |t| t >= 0.0, "non-negative")
            .and_then(|_| within("temperature", fields.temperature, 1.0, |t| t <= 2.0, "in [0, 2]"))?,
        top_p: within("top_p", fields.top_p, 1.0, |p| p > 0.0 && p <= 1.0, "in (0, 1]")?,
        top_k,
        min_p: within("min_p", fields.min_p, 0.0, |p| (0.0..=1.0).contains(&p), "in [0, 1]")?,
        presence_penalty: penalty("presence_penalty", fields.presence_penalty)?,
        frequency_penalty: penalty("frequency_penalty", fields.frequency_penalty)?,
        repetition_penalty: within(
            "repetition_penalty",
            fields.repetition_penalty,
            1.0,
            |p| p > 0.0,
            "greater than zero",
        )?,
        seed: fields.seed,
        stops: stops(fields)?,
        stop_tokens: stop_tokens(fields)?,
        include_stop: fields.include_stop_str_in_output == Some(true),
        min_tokens,
        ignore_eos: fields.ignore_eos == Some(true),
        biases: biases(fields)?,
        allowed: allowed(fields)?,
        bad_words: bad_words(fields)?,
        show_special_tokens: fields.skip_special_tokens == Some(false),
        logprobs: logprobs(fields)?,
    };
    let copies = copies(fields)?;
    // Greedy sampling generates the same answer each time.
    if sampling.temperature == 0.0 && copies > 1 {
        return Err(Refusal::bad_request(format!("n must be 1 when using greedy sampling, got {copies}.")));
    }
    Ok((sampling, copies))
}

fn stops(fields: &Fields) -> Result<Vec<String>, Refusal> {
    let stops = match &fields.stop {
        None => Vec::new(),
        Some(OneOrMany::One(stop)) => vec![stop.clone()],
        Some(OneOrMany::Many(stops)) => stops.clone(),
    };
    if stops.iter().any(String::is_empty) {
        return Err(Refusal::bad_request("stop cannot contain an empty string."));
    }
    if stops.len() > MAX_STOPS {
        return Err(Refusal::field("stop", format!("stop may have at most {MAX_STOPS} strings.")));
    }
    Ok(stops)
}

/// Reads the biases of logits, within OpenAI's limits.
fn biases(fields: &Fields) -> Result<Vec<(u32, f32)>, Refusal> {
    let biases = fields.logit_bias.iter().flatten().map(|(token, bias)| {
        let token = token.parse().map_err(|_| {
            let token: String = token.chars().take(40).collect();
            Refusal::field(
                "logit_bias",
                format!("Invalid key in 'logit_bias': {token}. Each key must be a token id."),
            )
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
        Ok((token, bias.clamp(-100.0, 100.0) as f32))
    });
    biases.collect()
}

fn allowed(fields: &Fields) -> Result<Option<Vec<u32>>, Refusal> {
    match &fields.allowed_token_ids {
        Some(tokens) if tokens.is_empty() => {
            let message = "allowed_token_ids is not None and empty!";
            Err(Refusal::parameter("allowed_token_ids", message, Some(&"[]")))
        }
        tokens => Ok(tokens.clone()),
    }
}

fn bad_words(fields: &Fields) -> Result<Vec<String>, Refusal> {
    let words = fields.bad_words.clone().unwrap_or_default();
    if words.iter().any(String::is_empty) {
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let message =
            format!("bad_words cannot contain an empty string. Got bad_words=[{}]", words.join(", "));
        return Err(Refusal::bad_request(message));
    }
    if words.len() > MAX_BAD_WORDS || words.iter().any(|word| word.len() > MAX_BAD_WORD) {
        let message =
            format!("bad_words may have at most {MAX_BAD_WORDS} strings, of at most {MAX_BAD_WORD} bytes.");
        return Err(Refusal::field("bad_words", message));
    }
    Ok(words)
}

fn stop_tokens(fields: &Fields) -> Result<Vec<u32>, Refusal> {
    let tokens = fields.stop_token_ids.clone().unwrap_or_default();
    if tokens.len() > MAX_STOPS {
        let message = format!("stop_token_ids may have at most {MAX_STOPS} tokens.");
        return Err(Refusal::field("stop_token_ids", message));
    }
    Ok(tokens)
}

/// Returns how many probabilities to report with each token. Chat has two fields for this, completions have one number.
fn logprobs(fields: &Fields) -> Result<Option<usize>, Refusal> {
    let number = if fields.messages.is_some() {
        let is_enabled = match fields.logprobs {
            Some(LogprobsField::Flag(is_enabled)) => is_enabled,
            // vLLM reads bodies with pydantic, for which 1 is true.
            Some(LogprobsField::Number(number)) => number == 1,
            None => false,
        };
        match fields.top_logprobs {
            Some(top) if top < -1 => {
                let message = "`top_logprobs` must be a positive value or -1.";
                return Err(Refusal::parameter("top_logprobs", message, Some(&top)));
            }
            Some(top) if (top > 0 || top == -1) && !is_enabled => {
                let message = "when using `top_logprobs`, `logprobs` must be set to true.";
                return Err(Refusal::parameter("top_logprobs", message, None));
            }
            top => is_enabled.then(|| top.unwrap_or(0)),
        }
    } else {
        match fields.logprobs {
            Some(LogprobsField::Number(number)) => Some(number),
            // And true is 1.
            Some(LogprobsField::Flag(flag)) => Some(i64::from(flag)),
            None => None,
        }
    };
    match number {
        Some(number) if number < -1 => {
            let message = "`logprobs` must be a positive value or -1.";
            Err(Refusal::parameter("logprobs", message, Some(&number)))
        }
        // -1 asks for the whole vocabulary.
        Some(number) if number > MAX_LOGPROBS || number == -1 => {
            let message = format!(
                "Requested sample logprobs of {number}, which is greater than max allowed: {MAX_LOGPROBS}"
            );
            Err(Refusal::parameter("logprobs", message, Some(&number)))
        }
        number => Ok(number.and_then(|number| usize::try_from(number).ok())),
    }
}
