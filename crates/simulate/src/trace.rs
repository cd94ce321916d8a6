//! A trace: requests with their times, as JSON lines.

use std::{
    io::{BufRead, Read as _},
    time::Duration,
};

use longboat_engine_model::split_mix::{mix, sequence};
use serde::{Deserialize, Serialize};

/// The longest line of a trace, in bytes. A prompt of a million tokens as numbers is shorter.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// The most tokens of a prompt or of an answer.
pub const MAX_TOKENS: u64 = 4_000_000;
/// The longest time of a trace, in milliseconds: ten years.
const MAX_TIME_MS: f64 = 3.2e11;
/// Made-up tokens are below this number, so that every model's vocabulary has them.
const VOCABULARY: u64 = 30_000;

/// A part of a prompt: made-up tokens, which are the same wherever the same number stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment(pub u64, pub u64);

/// The prompt of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TracePrompt {
    /// Text. Four bytes count as one token.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
    /// Parts that other prompts may share.
    Segments(Vec<Segment>),
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceRequest {
    /// When it arrives, from the start of the trace.
    pub at: Duration,
    /// Its prompt.
    pub prompt: TracePrompt,
    /// Tokens of its answer; at least 1.
    pub output_tokens: usize,
    /// The model. Empty: the model of the service.
    pub model: String,
    /// The LoRA adapter, if there is one.
    pub adapter: Option<String>,
    /// The priority of its objective.
    pub priority: i32,
    /// The session, which the picker sees in a header.
    pub session: Option<String>,
}

/// One line of a trace.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at_ms: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_ids: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash_ids: Option<Vec<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segments: Option<Vec<Segment>>,
    output_tokens: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adapter: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("line {line}: cannot read the trace")]
    Read {
        /// The line.
        line: u64,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is too long.
    #[error("line {line}: longer than {} MiB; give the prompt as segments or hash_ids", MAX_LINE_BYTES >> 20)]
    TooLong {
        /// The line.
        line: u64,
    },
    /// A line has the wrong form.
    #[error("line {line}: {message}")]
    Form {
        /// The line.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// A request cannot be simulated.
    #[error("request {number}: {message}")]
    Request {
        /// The number of the request, from 1.
        number: usize,
        /// What the request asks for, and what is possible.
        message: String,
    },
    /// A request comes before the one above it.
    #[error("line {line}: at {at_ms} ms, before the line above; sort the trace by time")]
    Order {
        /// The line.
        line: u64,
        /// Its time.
        at_ms: f64,
    },
}

/// The requests of a trace, one after the other.
pub type Requests<'a> = Box<dyn Iterator<Item = Result<TraceRequest, TraceError>> + 'a>;

/// The lines of a text, with their numbers, without empty ones. No line is longer than the limit.
pub(crate) struct Lines<R> {
    reader: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, number: 0 }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<(u64, String), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            let line = self.number;
            let mut text = String::new();
            // With one byte more, a line that is too long differs from one with exactly the limit.
            match self.reader.by_ref().take(MAX_LINE_BYTES + 1).read_line(&mut text) {
                Err(source) => return Some(Err(TraceError::Read { line, source })),
                Ok(0) => return None,
                Ok(length) if length as u64 > MAX_LINE_BYTES => {
                    return Some(Err(TraceError::TooLong { line }));
                }
                Ok(_) if text.trim().is_empty() => {}
                Ok(_) => return Some(Ok((line, text))),
            }
        }
    }
}

/// Reads a trace of JSON lines. Stops after the first error.
pub fn read<'a>(reader: impl BufRead + 'a) -> Requests<'a> {
    let mut last = 0.0;
    let parsed = Lines::new(reader).map(move |line| {
        let (line, text) = line?;
        let request = parse(&text).map_err(|message| TraceError::Form { line, message })?;
        let at_ms = request.at.as_secs_f64() * 1000.0;
        if at_ms < last {
            return Err(TraceError::Order { line, at_ms });
        }
        last = at_ms;
        Ok(request)
    });
    Box::new(until_error(parsed))
}

/// Ends after the first error, so that nobody reads on in a broken file.
pub(crate) fn until_error<T, E>(
    items: impl Iterator<Item = Result<T, E>>,
) -> impl Iterator<Item = Result<T, E>> {
    let mut has_failed = false;
    items.take_while(move |item| !std::mem::replace(&mut has_failed, item.is_err()))
}

/// Reads the JSON object of a line. Errors say the column only, because the caller knows the line.
pub(crate) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    // Otherwise, an array of the fields' values would be read too.
    if !text.starts_with('{') {
        return Err("expected a JSON object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        format!("{message} (column {})", error.column())
    })
}

fn parse(text: &str) -> Result<TraceRequest, String> {
    let line: Line = object(text)?;
    let forms = [
        line.prompt.is_some(),
        line.token_ids.is_some(),
        line.hash_ids.is_some(),
        line.segments.is_some(),
        line.prompt_tokens.is_some() && line.hash_ids.is_none(),
    ];
    if forms.iter().filter(|form| **form).count() != 1 {
        return Err(
            "expected one of `prompt`, `token_ids`, `prompt_tokens`, `hash_ids` and `segments`".to_owned()
        );
    }
    if line.block_tokens.is_some() && line.hash_ids.is_none() {
        return Err("`block_tokens` belongs to `hash_ids`".to_owned());
    }
    let prompt = match line {
        Line { prompt: Some(text), .. } => TracePrompt::Text(text),
        Line { token_ids: Some(tokens), .. } => TracePrompt::Tokens(tokens),
        Line { segments: Some(segments), .. } => TracePrompt::Segments(segments),
        Line { hash_ids: Some(ids), prompt_tokens, .. } => {
            let block = line.block_tokens.ok_or("`hash_ids` needs `block_tokens`, the tokens of a block")?;
            TracePrompt::Segments(blocks(&ids, block, prompt_tokens)?)
        }
        Line { prompt_tokens: Some(tokens), .. } => TracePrompt::unshared(tokens),
        _ => return Err("no prompt".to_owned()),
    };
    let request = TraceRequest {
        at: time(line.at_ms)?,
        prompt,
        output_tokens: tokens("output_tokens", line.output_tokens)?.max(1),
        model: line.model,
        adapter: line.adapter,
        priority: line.priority,
        session: line.session,
    };
    request.checked()
}

/// Returns the segments of a prompt that is given as the hashes of its blocks. The last block may be shorter.
pub(crate) fn blocks(ids: &[u64], block: u64, total: Option<u64>) -> Result<Vec<Segment>, String> {
    if block == 0 || block > MAX_TOKENS {
        return Err(format!("block_tokens: {block}: expected 1 to {MAX_TOKENS}"));
    }
    let mut left = total.unwrap_or_else(|| block.saturating_mul(ids.len() as u64));
    let mut segments = Vec::with_capacity(ids.len() + 1);
    for id in ids {
        segments.push(Segment(*id, block.min(left)));
        left = left.saturating_sub(block);
    }
    if left > 0 {
        // Tokens after the last block are shared with nobody.
        segments.push(Segment(UNSHARED, left));
    }
    segments.retain(|Segment(_, tokens)| *tokens > 0);
    Ok(segments)
}

pub(crate) fn tokens(field: &str, tokens: u64) -> Result<usize, String> {
    let tokens = usize::try_from(tokens).ok().filter(|_| tokens <= MAX_TOKENS);
    tokens.ok_or_else(|| format!("{field}: expected at most {MAX_TOKENS}"))
}

/// Returns a time in milliseconds as a duration.
pub(crate) fn time(at_ms: f64) -> Result<Duration, String> {
    if (0.0..=MAX_TIME_MS).contains(&at_ms) {
        Ok(Duration::from_secs_f64(at_ms / 1000.0))
    } else {
        // `{}` writes out all digits of a number such as 1e300.
        let time = if at_ms.abs() > MAX_TIME_MS { format!("{at_ms:e}") } else { at_ms.to_string() };
        Err(format!("time {time} ms: expected 0 to {MAX_TIME_MS}"))
    }
}

/// Ends with an error at a request that no trace could have, because it comes too late. Times of a run would overflow.
pub(crate) fn timely(
    requests: impl Iterator<Item = TraceRequest>,
) -> impl Iterator<Item = Result<TraceRequest, TraceError>> {
    until_error(requests.zip(1..).map(|(request, number)| {
        let at = time(request.at.as_secs_f64() * 1000.0);
        at.map(|_| request).map_err(|message| TraceError::Request { number, message })
    }))
}

/// The number of segments that no other prompt has.
const UNSHARED: u64 = u64::MAX;

// === impl Segment ===

impl Segment {
    /// Whether no other prompt has this part.
    pub(crate) fn is_unshared(&self) -> bool {
        self.0 == UNSHARED
    }
}

// === impl TracePrompt ===

impl TracePrompt {
    /// A prompt that shares nothing with others.
    pub(crate) fn unshared(tokens: u64) -> Self {
        Self::Segments(vec![Segment(UNSHARED, tokens)])
    }

    /// The number of its tokens.
    pub fn tokens(&self) -> usize {
        match self {
            Self::Text(text) => text.len().div_ceil(4),
            Self::Tokens(tokens) => tokens.len(),
            Self::Segments(segments) => {
                let sum = segments.iter().fold(0u64, |sum, Segment(_, tokens)| sum.saturating_add(*tokens));
                usize::try_from(sum).unwrap_or(usize::MAX)
            }
        }
    }

    /// Whether the picker sees the model's own tokens, and not text.
    pub fn is_exact(&self) -> bool {
        !matches!(self, Self::Text(_))
    }

    /// Returns the little-endian bytes of its tokens, or its text. `number` is that of the request, for parts that no other
    /// prompt has. `bytes` has the tokens of so many of the first segments.
    pub fn bytes(&self, number: u64, segments_known: usize, mut bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Tokens(tokens) => tokens.iter().flat_map(|token| token.to_le_bytes()).collect(),
            Self::Segments(segments) => {
                bytes.reserve((self.tokens() * 4).saturating_sub(bytes.len()));
                for (place, segment) in segments.iter().enumerate().skip(segments_known) {
                    let Segment(id, tokens) = segment;
                    // Without the place, two unshared parts of a prompt would be equal.
                    let unshared = mix(number ^ mix(place as u64)) | 1 << 63;
                    let numbers = sequence(mix(if segment.is_unshared() { unshared } else { *id }));
                    let start = bytes.len();
                    bytes.resize(start + usize::try_from(*tokens).unwrap_or_default() * 4, 0);
                    // Published results were made without the first number.
                    for (place, number) in bytes[start..].chunks_exact_mut(4).zip(numbers.skip(1)) {
                        // The upper half of the product is below the vocabulary, without a division for each token.
                        let token = (u128::from(number) * u128::from(VOCABULARY)) >> 64;
                        place.copy_from_slice(&u32::try_from(token).unwrap_or_default().to_le_bytes());
                    }
                }
                bytes
            }
        }
    }
}

// === impl TraceRequest ===

impl TraceRequest {
    /// A request without model, adapter, priority and session.
    pub fn new(at: Duration, prompt: TracePrompt, output_tokens: usize) -> Self {
        Self { at, prompt, output_tokens, model: String::new(), adapter: None, priority: 0, session: None }
    }

    /// The name of the model or the adapter that it asks for. Empty: the model of the service.
    pub fn asks_for(&self) -> &str {
        self.adapter.as_deref().unwrap_or(&self.model)
    }

    pub(crate) fn checked(self) -> Result<Self, String> {
        tokens("prompt", self.prompt.tokens() as u64)?;
        Ok(self)
    }

    /// Returns the request as a line of a trace, without the line's end.
    pub fn to_line(&self) -> String {
        let mut line = Line {
            at_ms: self.at.as_secs_f64() * 1000.0,
            output_tokens: self.output_tokens as u64,
            model: self.model.clone(),
            adapter: self.adapter.clone(),
            priority: self.priority,
            session: self.session.clone(),
            ..Line::default()
        };
        match &self.prompt {
            TracePrompt::Text(text) => line.prompt = Some(text.clone()),
            TracePrompt::Tokens(tokens) => line.token_ids = Some(tokens.clone()),
            TracePrompt::Segments(segments) => match segments.as_slice() {
                [Segment(UNSHARED, tokens)] => line.prompt_tokens = Some(*tokens),
                _ => line.segments = Some(segments.clone()),
            },
        }
        // A line has text, numbers and no keys but its own, so this cannot fail.
        serde_json::to_string(&line).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<TraceRequest>, String> {
        read(text.as_bytes()).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_of_a_prompt_is_read_and_written_again() {
        let text = "{\"at_ms\":0.0,\"prompt\":\"Hello, world\",\"output_tokens\":5}\n\n\
                    {\"at_ms\":1.5,\"token_ids\":[1,2],\"output_tokens\":5,\"model\":\"m\",\"adapter\":\"a\",\"priority\":-1}\n\
                    {\"at_ms\":2.0,\"prompt_tokens\":100,\"output_tokens\":5,\"session\":\"s\"}\n\
                    {\"at_ms\":2.0,\"segments\":[[1,16],[2,8]],\"output_tokens\":5}\n";
        let requests = all(text).unwrap();
        let tokens: Vec<usize> = requests.iter().map(|request| request.prompt.tokens()).collect();
        assert_eq!(tokens, [3, 2, 100, 24]);
        let lines: Vec<String> = requests.iter().map(|request| request.to_line() + "\n").collect();
        assert_eq!(lines.concat(), text.replace("\n\n", "\n"));
        let blocks = all(
            "{\"at_ms\":0,\"hash_ids\":[7,8],\"block_tokens\":16,\"prompt_tokens\":40,\"output_tokens\":1}",
        );
        let segments = vec![Segment(7, 16), Segment(8, 16), Segment(UNSHARED, 8)];
        assert_eq!(blocks.unwrap()[0].prompt, TracePrompt::Segments(segments));
    }

    #[test]
    fn equal_segments_are_equal_tokens_and_unshared_ones_are_not() {
        let shared =
            TracePrompt::Segments(vec![Segment(5, 32), Segment(UNSHARED, 16), Segment(UNSHARED, 16)]);
        let (first, second) = (shared.bytes(1, 0, Vec::new()), shared.bytes(2, 0, Vec::new()));
        assert_eq!((first.len(), &first[..128]), (256, &second[..128]));
        assert_ne!(first[128..192], second[128..192]);
        assert_ne!(first[128..192], first[192..]);
    }

    #[test]
    fn wrong_lines_are_named_and_end_the_trace() {
        let good = "{\"at_ms\":5,\"prompt_tokens\":1,\"output_tokens\":1}\n";
        for (line, expected) in [
            ("{\"at_ms\":5,\"output_tokens\":1}", "line 2: expected one of `prompt`"),
            (
                "{\"at_ms\":5,\"prompt_tokens\":5000000,\"output_tokens\":1}",
                "line 2: prompt: expected at most",
            ),
            ("{\"at_ms\":-5,\"prompt_tokens\":1,\"output_tokens\":1}", "line 2: time -5 ms"),
            (
                "{\"at_ms\":1e300,\"prompt_tokens\":1,\"output_tokens\":1}",
                "line 2: time 1e300 ms: expected 0 to",
            ),
            (
                "{\"at_ms\":4,\"prompt_tokens\":1,\"output_tokens\":1}",
                "line 2: at 4 ms, before the line above",
            ),
            ("{\"at_ms\":5,\"hash_ids\":[1],\"output_tokens\":1}", "line 2: `hash_ids` needs `block_tokens`"),
            (
                "{\"at_ms\":5,\"segments\":[[1,1]],\"block_tokens\":1,\"output_tokens\":1}",
                "line 2: `block_tokens` belongs to `hash_ids`",
            ),
            ("{\"at_ms\":5,\"promt\":\"x\",\"output_tokens\":1}", "line 2: unknown field `promt`"),
            ("{", "line 2: EOF while parsing an object (column 1)"),
            ("[5,null,null,1,null,null,null,1,\"\",null,0,null]", "line 2: expected a JSON object"),
        ] {
            let error = all(&format!("{good}{line}\n{good}")).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let huge = "x".repeat(17 << 20);
        assert!(all(&huge).unwrap_err().contains("longer than 16 MiB"));
        assert_eq!(read(format!("{good}[\n{good}").as_bytes()).count(), 2);
    }
}
