//! Leases.

use serde_json::Value;

use super::{Strategy, checks};
use crate::Field;

/// Leases.
#[derive(Debug)]
pub(crate) struct Lease;

impl Strategy for Lease {
    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        checks::within(&object.at("spec.leaseDurationSeconds"), 1.., "must be greater than 0");
        checks::not_negative(&object.at("spec.leaseTransitions"));
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}
