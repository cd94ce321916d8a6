//! A request that two engines share: which part this one computes.

use serde::Deserialize;

/// How the KV cache of a shared request moves, as vLLM's connectors say it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Transfer {
    do_remote_decode: bool,
    do_remote_prefill: bool,
    remote_host: Option<String>,
}

/// An engine's part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The prompt and one token; another engine fetches the cache and goes on.
    Prefill,
    /// What follows a prompt that another engine has computed.
    Decode,
}

impl Transfer {
    pub(crate) fn part(&self) -> Part {
        match self {
            Self { do_remote_decode: true, .. } => Part::Prefill,
            Self { do_remote_prefill: true, .. } => Part::Decode,
            _ => Part::Whole,
        }
    }

    /// Where the cache of the prompt is, if it is elsewhere.
    pub(crate) fn cache_host(&self) -> Option<&str> {
        self.remote_host.as_deref().filter(|_| self.part() == Part::Decode)
    }
}
