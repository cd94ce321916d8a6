//! Waiting for what must come true.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Far beyond what anything here needs, so that a busy machine fails no test.
pub(crate) const LIMIT: Duration = Duration::from_mins(3);

/// Polls until there is a value; stops the test at the limit.
pub(crate) fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, what, probe)
}

/// The same with another limit, for what takes many processes to start.
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
