//! Injected faults: refused requests and lost KV caches.

use std::str::FromStr;

use longboat_serving::Refusal;
use rand::{Rng as _, seq::IndexedRandom as _};

/// The faults, with the percentage of requests that they affect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Requests that are refused.
    pub(crate) refused: Percent,
    /// The refusals to choose from. Empty means all.
    pub(crate) refusals: Vec<Refusal>,
    /// Requests whose KV cache from other engines or from a shared storage is lost. The prompt is computed again, and the
    /// answer does not show it.
    pub(crate) lost: Percent,
    /// Embeddings from other engines that are lost. The items are encoded again.
    pub(crate) lost_embeddings: Percent,
}

/// A percentage, 0 to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Percent(u8);

/// Makes a refusal with this text.
type Refuse = fn(&'static str) -> Refusal;

/// The refusals by their names in `--failure-types`.
const REFUSALS: [(&str, Refuse, &str); 6] = [
    ("rate_limit", Refusal::overloaded, "Rate limit reached (injected)."),
    ("invalid_api_key", Refusal::unauthorized, "Incorrect API key provided (injected)."),
    ("context_length", |text| Refusal::field("messages", text), "The context is too long (injected)."),
    ("server_error", Refusal::unavailable, "The server is overloaded (injected)."),
    ("invalid_request", Refusal::bad_request, "The request is invalid (injected)."),
    ("model_not_found", Refusal::not_found, "The model does not exist (injected)."),
];

// === impl Faults ===

impl Faults {
    /// Returns a refusal if this request is chosen to be refused.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        if !self.refused.occurs() {
            return None;
        }
        match self.refusals.choose(&mut rand::rng()) {
            Some(refusal) => Some(refusal.clone()),
            // Without --failure-types, any of them.
            None => REFUSALS.choose(&mut rand::rng()).map(|(_, refusal, text)| refusal(text)),
        }
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

/// Returns the refusal with this name.
pub(crate) fn refusal(name: &str) -> Result<Refusal, String> {
    let found = REFUSALS.iter().find(|(known, ..)| *known == name).map(|(_, refusal, text)| refusal(text));
    found.ok_or_else(|| {
        let names: Vec<_> = REFUSALS.iter().map(|(known, ..)| *known).collect();
        format!("unknown failure `{name}`; expected {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing_is_all_or_nothing() {
        let all = Faults {
            refused: "100".parse().unwrap(),
            refusals: vec![refusal("rate_limit").unwrap()],
            ..Faults::default()
        };
        assert!((0..100).all(|_| all.refusal().is_some()));
        assert!((0..100).all(|_| Faults::default().refusal().is_none()));
        assert!("101".parse::<Percent>().is_err());
        assert!(refusal("x").unwrap_err().contains("rate_limit"));
    }
}
