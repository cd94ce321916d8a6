//! Translates between the model name that clients use and the name that the model server uses.

use std::ops::Range;

use bytes::Bytes;

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
        replace(&body, &self.tight).or_else(|| replace(&body, &self.spaced)).unwrap_or(body)
    }
}

fn json(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

fn replace(body: &[u8], (from, to): &(Vec<u8>, Vec<u8>)) -> Option<Bytes> {
    let mut changed: Option<Vec<u8>> = None;
    let mut rest = body;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        let changed = changed.get_or_insert_with(|| Vec::with_capacity(body.len() + to.len()));
        changed.extend_from_slice(&rest[..at]);
        changed.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    let mut changed = changed?;
    changed.extend_from_slice(rest);
    Some(Bytes::from(changed))
}

/// Returns the request's body with another model, and otherwise unchanged byte for byte.
pub(crate) fn request(body: &[u8], model_at: &Range<usize>, target: &str) -> Bytes {
    let mut changed = Vec::with_capacity(body.len() + target.len());
    changed.extend_from_slice(&body[..model_at.start]);
    changed.extend_from_slice(json(target).as_bytes());
    changed.extend_from_slice(&body[model_at.end..]);
    Bytes::from(changed)
}
