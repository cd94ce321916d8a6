//! Timestamps in the formats of Kubernetes.

use jiff::Timestamp;

/// The current time in whole seconds: `2026-11-21T18:00:00Z`.
pub(crate) fn now() -> String {
    seconds(Timestamp::now())
}

/// A time in whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time with six digits of fraction.
pub(crate) fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
