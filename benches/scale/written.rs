//! Counts writes of Events separately from all other writes, because nothing waits for Events.

use jiff::Timestamp;

use crate::log::Log;

/// The controller's writes: the times of the last ones, and the number of Events.
pub(crate) struct Written {
    /// The time of the response to the last write.
    pub(crate) all: Timestamp,
    /// The time of the response to the last write that is not of an Event.
    pub(crate) apart: Timestamp,
    /// The number of written Events.
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
