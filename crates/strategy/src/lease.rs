//! Leases.

use serde_json::Value;

use super::{Strategy, checks};
use crate::Cause;

/// Leases.
#[derive(Debug)]
pub(crate) struct Lease;

impl Strategy for Lease {
    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Some(seconds) = value["spec"]["leaseDurationSeconds"].as_i64().filter(|s| *s <= 0) {
            causes.push(Cause::invalid(
                "spec.leaseDurationSeconds",
                &Value::from(seconds),
                "must be greater than 0",
            ));
        }
        let transitions = &value["spec"]["leaseTransitions"];
        checks::not_negative(transitions, "spec.leaseTransitions", &mut causes);
        causes
    }

    fn creates_on_update(&self) -> bool {
        true
    }
}
