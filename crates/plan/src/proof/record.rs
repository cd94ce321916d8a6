//! What the last proof was about, as the status remembers it.

use std::collections::BTreeMap;

use longboat_api::annotations::SERVING_PROOF_RECORD;
use serde::{Deserialize, Serialize};

/// What the last proof was about, and when it was. What it came to is in the conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) subject: String,
    pub(super) reconciled: String,
    pub(super) attempt: u32,
    /// Seconds since 1970.
    pub(super) at: i64,
}

// === impl Record ===

impl Record {
    /// The record among the annotations of a status. What cannot be read counts as none.
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(annotations.get(SERVING_PROOF_RECORD)?).ok()
    }

    pub(super) fn write(&self, annotations: &mut BTreeMap<String, String>) {
        if let Ok(text) = serde_json::to_string(self) {
            annotations.insert(SERVING_PROOF_RECORD.to_owned(), text);
        }
    }
}
