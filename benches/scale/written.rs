//! Events apart from everything else that was written: nobody waits for them.

use jiff::Timestamp;

use crate::log::Log;

/// What the controller wrote, and until when.
pub(crate) struct Written {
    /// When the last write was answered.
    pub(crate) all: Timestamp,
    /// The same without events.
    pub(crate) apart: Timestamp,
    /// How many events there were.
    pub(crate) events: usize,
}

impl Written {
    pub(crate) fn since(log: &Log, mark: u64) -> Self {
        let mut written = Self { all: Timestamp::MIN, apart: Timestamp::MIN, events: 0 };
        for request in log.events(mark) {
            if ["get", "list", "watch"].iter().any(|verb| request["verb"] == *verb) {
                continue;
            }
            let at = request["stageTimestamp"].as_str().unwrap().parse().unwrap();
            written.all = written.all.max(at);
            if request["objectRef"]["resource"] == "events" {
                written.events += 1;
            } else {
                written.apart = written.apart.max(at);
            }
        }
        written
    }
}
