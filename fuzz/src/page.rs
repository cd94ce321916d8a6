//! What is fuzzed of the dashboard: one function for each target, over bytes. The test that replays the corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_dashboard::probe;

/// What runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name: the folders of the corpus are named alike.
pub(crate) const ALL: [(&str, Target); 3] =
    [("page_metrics", page_metrics), ("page_request", page_request), ("page_manifest", page_manifest)];

/// Any page of metrics gives numbers.
pub(crate) fn page_metrics(data: &[u8]) {
    probe::metrics(&String::from_utf8_lossy(data));
}

/// Any name is refused or harmless in a path; any chat is refused or sent.
pub(crate) fn page_request(data: &[u8]) {
    probe::service_name(&String::from_utf8_lossy(data));
    probe::chat(data);
}

/// Any manifest is refused or is that of the service.
pub(crate) fn page_manifest(data: &[u8]) {
    probe::manifest(&String::from_utf8_lossy(data));
}
