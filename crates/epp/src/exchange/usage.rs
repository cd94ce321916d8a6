//! Finds the token counts of a response without parsing it: they are near its end.

use longboat_scheduler::Usage;
use memchr::memmem;
use serde::Deserialize;

use super::frames::Frames;
use crate::body::Api;

/// The bytes that are kept of the response's end. The usage object and the text after it are shorter.
const TAIL_BYTES: usize = 4096;

/// Keeps the end of the response, or reads its gRPC messages.
#[derive(Debug)]
pub(crate) struct UsageScan {
    /// The quoted name of the field that has the token counts.
    key: &'static [u8],
    tail: Vec<u8>,
    frames: Option<Frames>,
}

impl UsageScan {
    /// Creates a scan for the response to a request of this API.
    pub(crate) fn of(api: Api) -> Self {
        // SGLang's own API has the counts of tokens among other facts about the request.
        let key: &[u8] = if api == Api::SglangGenerate { b"\"meta_info\"" } else { b"\"usage\"" };
        Self { key, tail: Vec::new(), frames: Frames::of(api) }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        if let Some(frames) = &mut self.frames {
            return frames.push(chunk);
        }
        if chunk.len() >= TAIL_BYTES {
            self.tail.clear();
            self.tail.extend_from_slice(&chunk[chunk.len() - TAIL_BYTES..]);
            return;
        }
        self.tail.extend_from_slice(chunk);
        // Bytes are moved only when the buffer has twice the kept length, so each byte is moved once.
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }

    /// Returns the last complete usage object.
    pub(crate) fn usage(&self) -> Option<Usage> {
        if let Some(frames) = &self.frames {
            return frames.usage();
        }
        memmem::rfind_iter(&self.tail, self.key).find_map(|at| read(&self.tail[at + self.key.len()..]))
    }
}

fn read(after_key: &[u8]) -> Option<Usage> {
    let value = after_key.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    if !value.starts_with(b"{") {
        return None;
    }
    let object: Object = serde_json::Deserializer::from_slice(value).into_iter().next()?.ok()?;
    let cached = object
        .prompt_tokens_details
        .or(object.input_tokens_details)
        .and_then(|details| details.cached_tokens)
        .or(object.cache_read_input_tokens)
        .or(object.cached_tokens);
    Some(Usage {
        input: object.prompt_tokens.or(object.input_tokens).unwrap_or_default(),
        output: object.completion_tokens.or(object.output_tokens).unwrap_or_default(),
        cached: cached.unwrap_or_default(),
    })
}

#[derive(Debug, Deserialize)]
struct Object {
    prompt_tokens: Option<u64>,
    input_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    output_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    input_tokens_details: Option<Details>,
    cache_read_input_tokens: Option<u64>,
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}
