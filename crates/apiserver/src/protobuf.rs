//! Bodies in protobuf, as kubectl 1.32 and later sends them for `create KIND` and `auth can-i`.

use serde_json::Value;

/// Decodes a body.
pub(crate) fn decode(_body: &[u8]) -> Result<Value, String> {
    Err("protobuf bodies are not understood here; use `--dry-run=client -o yaml | kubectl apply -f -`".to_owned())
}
