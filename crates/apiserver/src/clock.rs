//! Timestamps in the formats of Kubernetes, and the current time.

use jiff::Timestamp;
pub(crate) use longboat_strategy::clock::{micros, seconds};

/// The current time in whole seconds: `2026-11-21T18:00:00Z`.
pub(crate) fn now() -> String {
    seconds(Timestamp::now())
}
