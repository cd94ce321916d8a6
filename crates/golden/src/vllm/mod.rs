//! vLLM's API as it is: several hundred requests (`tests/vllm/requests.yaml`), and what a real vLLM answered to each
//! (`tests/vllm/answers.json`). The simulator and the engine get the same requests in their tests, and `tests/vllm` asks a real
//! vLLM again. Of an answer only [`facts`] are compared, not the texts that a model generates.

mod facts;
mod flags;
mod recording;
mod requests;

pub use facts::{Response, facts};
pub use flags::{Flag, Flags, parse, write_flags};
pub use recording::{Recording, write};
pub use requests::{Request, requests};

use serde_json::Value;

use crate::{Difference, differences};

/// Collects the facts in which an answer differs from vLLM's.
pub fn compare(recorded: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    // After another status, everything differs.
    let is_other = recorded["status"] != ours["status"];
    if is_other {
        let told = |facts: &Value| {
            let message = facts["body"]["error"]["message"].as_str().unwrap_or_default();
            format!("{} {message}", facts["status"])
        };
        found.push(Difference { place: "status".into(), recorded: told(recorded), ours: told(ours) });
    } else {
        for part in ["type", "body", "events", "metrics", "text"] {
            differences(part, &recorded[part], &ours[part], &mut found);
        }
    }
    found
}
