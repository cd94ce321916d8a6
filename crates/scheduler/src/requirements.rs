//! What plugins require of other parts of the picker.

use std::time::Duration;

use crate::{
    estimates::MediaEstimates, producers::inflight_load::OutputEstimate, report::Report, sessions::Agents,
};

/// What plugins require of other parts of the picker.
#[derive(Default)]
pub(crate) struct Requirements {
    pub(crate) tokenizer: Option<TokenizerSettings>,
    /// What images and videos count as without a tokenizer.
    pub(crate) estimates: Option<MediaEstimates>,
    /// The reports about responses to the proxy.
    pub(crate) reports: Vec<Report>,
    /// Whether responses name the endpoint that served.
    pub(crate) names_served_endpoint: bool,
    /// The headers in which agents name their sessions.
    pub(crate) agents: Option<Agents>,
    /// Names of the declared load producers.
    pub(crate) loads: Vec<String>,
    /// The place of the prefix producer that says which part of a prompt is no load, if one is named.
    pub(crate) load_prefix: Option<usize>,
    /// How the output of requests is estimated. `None` if only prompts count as load.
    pub(crate) output: Option<OutputEstimate>,
}

/// The tokenizer to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerSettings {
    /// Its address: `http://…` or `https://…`.
    pub url: String,
    /// The model to name in the call.
    pub model: String,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long an answer may take for a request with images, audio or video.
    pub multimodal_timeout: Duration,
}
