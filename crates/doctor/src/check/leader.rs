//! Checks whether one of the controllers leads, if they elect a leader.

use std::time::Duration;

use longboat_api::names::{CONTROLLER, CONTROLLER_LEASE};

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
};

/// If a lease expired longer ago than this, no controller is about to take it. Clocks may differ by this much.
const EXPIRY_TOLERANCE: Duration = Duration::from_mins(2);

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(spec) = facts.lease.as_ref().and_then(|lease| lease.spec.as_ref()) else { return };
    // If no controller runs, another check reports that.
    let running = facts.controller.as_ref().and_then(|found| found.status.as_ref()?.available_replicas);
    let renewed = spec.renew_time.as_ref().map(|time| time.0);
    if facts.local || running.unwrap_or(0) == 0 {
        return;
    }
    let held = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty());
    // client-go's default is 15 seconds.
    let lasts = Duration::from_secs(spec.lease_duration_seconds.unwrap_or(15).unsigned_abs().into());
    let silent = renewed.is_none_or(|renewed| {
        let age = facts.snapshot.now.duration_since(renewed);
        age.is_positive() && age.unsigned_abs() > lasts + EXPIRY_TOLERANCE
    });
    if !silent {
        return;
    }
    let namespace = &facts.snapshot.system_namespace;
    let who =
        held.map_or_else(|| "nobody".to_owned(), |holder| format!("{holder}, which no longer renews it,"));
    let cause =
        format!("{who} holds the lease, and no other controller takes it over, so nothing is reconciled");
    let fix = format!(
        "run `kubectl logs -n {namespace} deployment/{CONTROLLER}`, and check that the controller may write its Lease"
    );
    findings.push(Cause::new("NoLeader", cause, fix).broken(format!("Lease {namespace}/{CONTROLLER_LEASE}")));
}
