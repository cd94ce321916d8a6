//! Reads an engine's list of models.

use serde_json::Value;

/// The tokens that prompt and response may have together, by the response to `GET /v1/models`. `None` if the engine does not
/// say.
pub fn max_model_len(page: &[u8]) -> Option<usize> {
    let page: Value = serde_json::from_slice(page).ok()?;
    let models = page.get("data")?.as_array()?;
    let lengths = models.iter().filter_map(|model| model.get("max_model_len")?.as_u64());
    lengths.min().and_then(|tokens| usize::try_from(tokens).ok())
}
