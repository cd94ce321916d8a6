//! The stages of a request.

use serde::Deserialize;

/// A stage of a request for which endpoints may be set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The prompt is computed.
    Prefill,
    /// The response is generated.
    Decode,
}

// === impl Stage ===

impl Stage {
    /// All stages.
    pub const ALL: [Self; 2] = [Self::Prefill, Self::Decode];

    /// The name in configurations and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}
