//! Injected faults: refused requests and lost KV caches.

use std::str::FromStr;

use longboat_serving::Refusal;
use rand::Rng as _;

/// The faults, with the percentage of requests that they affect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Requests that are refused.
    pub(crate) refused: Percent,
    /// The kinds of refusals. Empty means all kinds.
    pub(crate) kinds: Vec<Kind>,
    /// Requests whose KV cache from other engines or from a shared storage is lost. The prompt is computed again, and the
    /// answer does not show it.
    pub(crate) lost: Percent,
    /// Embeddings from other engines that are lost. The items are encoded again.
    pub(crate) lost_embeddings: Percent,
}

/// A percentage, 0 to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Percent(u8);

/// A kind of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    RateLimit,
    InvalidApiKey,
    ContextLength,
    ServerError,
    InvalidRequest,
    ModelNotFound,
}

const KINDS: [(&str, Kind); 6] = [
    ("rate_limit", Kind::RateLimit),
    ("invalid_api_key", Kind::InvalidApiKey),
    ("context_length", Kind::ContextLength),
    ("server_error", Kind::ServerError),
    ("invalid_request", Kind::InvalidRequest),
    ("model_not_found", Kind::ModelNotFound),
];

// === impl Faults ===

impl Faults {
    /// Returns a refusal if this request is chosen to be refused.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        if !self.refused.occurs() {
            return None;
        }
        let number = rand::rng().random_range(0..KINDS.len());
        let kind = match self.kinds.as_slice() {
            [] => KINDS[number].1,
            kinds => kinds[number % kinds.len()],
        };
        Some(kind.refusal())
    }
}

// === impl Percent ===

impl Percent {
    /// Chooses at random whether the fault happens.
    pub(crate) fn occurs(self) -> bool {
        rand::rng().random_range(0..100) < self.0
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| *number <= 100);
        number.map(Self).ok_or_else(|| format!("`{text}`: expected a number from 0 to 100"))
    }
}

// === impl Kind ===

impl Kind {
    fn refusal(self) -> Refusal {
        match self {
            Self::RateLimit => Refusal::overloaded("Rate limit reached (injected)."),
            Self::InvalidApiKey => Refusal::unauthorized("Incorrect API key provided (injected)."),
            Self::ContextLength => Refusal::field("messages", "The context is too long (injected)."),
            Self::ServerError => Refusal::unavailable("The server is overloaded (injected)."),
            Self::InvalidRequest => Refusal::bad_request("The request is invalid (injected)."),
            Self::ModelNotFound => Refusal::not_found("The model does not exist (injected)."),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        KINDS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
            format!("unknown failure `{text}`; expected {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing_is_all_or_nothing() {
        let all =
            Faults { refused: "100".parse().unwrap(), kinds: vec![Kind::RateLimit], ..Faults::default() };
        assert!((0..100).all(|_| all.refusal().is_some()));
        assert!((0..100).all(|_| Faults::default().refusal().is_none()));
        assert!("101".parse::<Percent>().is_err());
        assert!("x".parse::<Kind>().unwrap_err().contains("rate_limit"));
    }
}
