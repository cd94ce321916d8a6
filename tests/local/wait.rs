//! Polling until a condition holds.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Much longer than any condition needs, so that no test fails on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(3);

/// Polls until there is a value, and returns it. Panics at the limit.
pub(crate) fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, what, probe)
}

/// Like [`until`], with another limit, for tests that start many processes.
pub(crate) fn within<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "did not happen within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}
