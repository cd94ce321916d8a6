//! Polling until a condition holds.

use std::{
    thread,
    time::{Duration, Instant},
};

use longboat_testkit::Awaited;

/// Much longer than any condition needs, so that no test fails on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(3);

/// Polls until a condition holds, and returns its value. Panics at the limit.
pub(crate) fn until<A: Awaited>(what: &str, probe: impl FnMut() -> A) -> A::Value {
    within(LIMIT, what, probe)
}

/// Like [`until`], with another limit, for tests that start many processes.
pub(crate) fn within<A: Awaited>(limit: Duration, what: &str, mut probe: impl FnMut() -> A) -> A::Value {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe().value() {
            return value;
        }
        assert!(Instant::now() < deadline, "did not happen within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}
