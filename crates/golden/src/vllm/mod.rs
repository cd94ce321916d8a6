//! vLLM's API as it is: a thousand requests (`tests/vllm/requests.yaml`), and what a real vLLM answered to each
//! (`tests/vllm/answers.json`). The simulator and the engine get the same requests in their tests, and `tests/vllm` asks a real
//! vLLM again. Of an answer only [`facts`] are compared, not the texts that a model generates.

mod facts;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod names;
mod recording;
mod requests;
mod send;
#[cfg(test)]
mod texts;

pub use facts::{Response, facts};
pub use recording::{Recording, write};
pub use requests::{Request, requests};
pub use send::{assert_answers, send};

use serde_json::Value;

use crate::{Difference, differences};

/// What vLLM takes.
#[cfg(test)]
static RECORDING: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../tests/vllm/options.json")).unwrap()
});

/// Collects the facts in which an answer differs from vLLM's.
pub fn compare(recorded: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |place: &str, recorded: String, ours: String| {
        if recorded != ours {
            found.push(Difference { place: place.into(), recorded, ours });
        }
    };
    let (error, our_error) = (&recorded["body"]["error"], &ours["body"]["error"]);
    let message = |error: &Value| error["message"].as_str().unwrap_or_default().to_owned();
    if recorded["status"] != ours["status"] {
        // After another status, everything differs.
        let status = |facts: &Value, error| format!("{} {}", facts["status"], message(error));
        differ("status", status(recorded, error), status(ours, our_error));
    } else if error.is_object() && our_error.is_object() {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let kind = |error: &Value| format!("{}, {}", word(&error["type"]), word(&error["param"]));
        differ("error", kind(error), kind(our_error));
        differ("message", message(error), message(our_error));
    } else {
        for part in ["type", "body", "events", "metrics", "text"] {
            differences(part, &recorded[part], &ours[part], &mut found);
        }
    }
    found
}
