//! Translates between the model name that clients use and the name that the model server uses.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;

use crate::body::ParsedBody;

/// Puts the client's model name back into responses.
pub(super) struct Rewrite {
    tight: (Vec<u8>, Vec<u8>),
    spaced: (Vec<u8>, Vec<u8>),
}

impl Rewrite {
    /// Replaces `target`, the model server's name, by `incoming`, the client's name.
    pub(super) fn new(target: &str, incoming: &str) -> Self {
        let (target, incoming) = (json(target), json(incoming));
        let pair = |colon: &str| {
            (
                format!("\"model\"{colon}{target}").into_bytes(),
                format!("\"model\"{colon}{incoming}").into_bytes(),
            )
        };
        Self { tight: pair(":"), spaced: pair(": ") }
    }

    /// Rewrites a chunk or a whole body of a response.
    pub(super) fn response(&self, body: Bytes) -> Bytes {
        // A server spells a response in one way, so at most one of the two is found.
        replace(&body, &self.tight).or_else(|| replace(&body, &self.spaced)).unwrap_or(body)
    }
}

fn json(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

fn replace(body: &[u8], (from, to): &(Vec<u8>, Vec<u8>)) -> Option<Bytes> {
    let mut changed: Option<Vec<u8>> = None;
    let mut rest = body;
    while let Some(at) = memmem::find(rest, from) {
        let changed = changed.get_or_insert_with(|| Vec::with_capacity(body.len() + to.len()));
        changed.extend_from_slice(&rest[..at]);
        changed.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    let mut changed = changed?;
    changed.extend_from_slice(rest);
    Some(Bytes::from(changed))
}

/// A change of a request's body, which is JSON.
pub(crate) struct Edit {
    at: Range<usize>,
    text: String,
}

impl Edit {
    /// Replaces the model.
    pub(crate) fn model(parsed: &ParsedBody, target: &str) -> Self {
        Self { at: parsed.model_at.clone(), text: json(target) }
    }

    /// Replaces or adds the priority. Returns `None` if the body is no JSON object with fields.
    pub(crate) fn priority(body: &[u8], parsed: &ParsedBody, priority: i32) -> Option<Self> {
        if let Some(at) = &parsed.priority_at {
            return Some(Self { at: at.clone(), text: priority.to_string() });
        }
        if parsed.model_at.is_empty() {
            return None;
        }
        let first = body.iter().position(|byte| *byte == b'{')? + 1;
        // At least the model follows.
        Some(Self { at: first..first, text: format!("\"priority\":{priority},") })
    }
}

/// Returns the request's body with these changes, and otherwise unchanged byte for byte.
pub(crate) fn request(body: &Bytes, edits: impl IntoIterator<Item = Edit>) -> Bytes {
    let mut edits: Vec<Edit> = edits.into_iter().collect();
    if edits.is_empty() {
        return body.clone();
    }
    edits.sort_by_key(|edit| edit.at.start);
    let inserted: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut changed = Vec::with_capacity(body.len() + inserted);
    let mut done = 0;
    for Edit { at, text } in edits {
        changed.extend_from_slice(&body[done..at.start]);
        changed.extend_from_slice(text.as_bytes());
        done = at.end;
    }
    changed.extend_from_slice(&body[done..]);
    Bytes::from(changed)
}
