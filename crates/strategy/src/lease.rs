//! Leases.

use serde_json::Value;

use super::{Strategy, checks};
use crate::Field;

/// Leases.
#[derive(Debug)]
pub(crate) struct Lease;

impl Strategy for Lease {
    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        let duration = object.at("spec.leaseDurationSeconds");
        if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
            duration.invalid("must be greater than 0");
        }
        checks::not_negative(&object.at("spec.leaseTransitions"));
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}
