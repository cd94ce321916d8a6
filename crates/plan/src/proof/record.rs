//! What the last proof was about. The status stores this record.

use std::collections::BTreeMap;

use longboat_api::annotations::SERVING_PROOF_RECORD;
use serde::{Deserialize, Serialize};

use super::Id;

/// What the last proof was about, and when it ran. The conditions have its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) id: Id,
    /// Seconds since 1970.
    pub(super) at: i64,
}

// === impl Record ===

impl Record {
    /// Reads the record from the annotations of a status. Returns `None` if the record cannot be parsed.
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(annotations.get(SERVING_PROOF_RECORD)?).ok()
    }

    pub(super) fn write(&self, annotations: &mut BTreeMap<String, String>) {
        if let Ok(text) = serde_json::to_string(self) {
            annotations.insert(SERVING_PROOF_RECORD.to_owned(), text);
        }
    }
}
