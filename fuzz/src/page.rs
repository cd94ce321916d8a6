//! Fuzz targets of the dashboard: one function over bytes per target. The test that replays the stored corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_dashboard::fuzzing;

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 3] =
    [("page_metrics", page_metrics), ("page_request", page_request), ("page_manifest", page_manifest)];

/// Any metrics page must be parsed.
pub(crate) fn page_metrics(data: &[u8]) {
    fuzzing::metrics(&String::from_utf8_lossy(data));
}

/// Any service name must be refused or be safe in a path. Any chat must be refused or forwarded.
pub(crate) fn page_request(data: &[u8]) {
    fuzzing::service_name(&String::from_utf8_lossy(data));
    fuzzing::chat(data);
}

/// Any manifest must be refused, or must be one of the named service.
pub(crate) fn page_manifest(data: &[u8]) {
    fuzzing::manifest(&String::from_utf8_lossy(data));
}
