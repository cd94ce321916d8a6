//! Reads whether a service must prove by a request that it serves.

use std::collections::BTreeMap;

use crate::annotations::SERVING_PROOF;

/// Whether a request has to prove that a service serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProofMode {
    /// No request is sent, and nothing is said about it.
    #[default]
    Off,
    /// Conditions say what the request came to. `Ready` does not depend on them.
    Report,
    /// `Ready` waits for the proof.
    Gate,
}

/// A word that is not a [`ProofMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is unknown: expected \"off\", \"report\" or \"gate\"")]
pub struct UnknownMode(pub String);

// === impl ProofMode ===

impl ProofMode {
    /// Parses the word of a setting.
    ///
    /// # Errors
    ///
    /// If the word is none of `off`, `report` and `gate`.
    pub fn parse(word: &str) -> Result<Self, UnknownMode> {
        match word {
            "off" => Ok(Self::Off),
            "report" => Ok(Self::Report),
            "gate" => Ok(Self::Gate),
            other => Err(UnknownMode(other.chars().take(64).collect())),
        }
    }

    /// Returns the mode in the annotations of a service, or `None` if they have none.
    ///
    /// # Errors
    ///
    /// If the value is unknown.
    pub fn of_annotations(
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Result<Option<Self>, UnknownMode> {
        annotations.and_then(|all| all.get(SERVING_PROOF)).map(|word| Self::parse(word)).transpose()
    }
}
