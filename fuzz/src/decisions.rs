//! Fuzz target of the picker's decisions. The test that replays the stored corpus shares this file.
#![allow(dead_code, reason = "the fuzz target uses a part of it")]

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 1] = [("decisions_query", decisions_query)];

/// Any query must be answered or refused.
pub(crate) fn decisions_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    longboat_epp::fuzzing::decisions_query(text);
}
