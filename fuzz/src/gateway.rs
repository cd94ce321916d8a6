//! Fuzz targets of the gateway. The test that replays the stored corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_gateway::fuzzing;

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 4] = [
    ("gateway_objects", fuzzing::objects),
    ("gateway_key_secret", fuzzing::key_secret),
    ("gateway_usage", fuzzing::usage),
    ("gateway_events", fuzzing::events),
];
