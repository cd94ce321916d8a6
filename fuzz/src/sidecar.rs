//! Fuzz targets of the sidecar: one function over bytes per target. The test that replays the stored corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 2] =
    [("sidecar_header", sidecar_header), ("sidecar_body", sidecar_body)];

/// Any header value must give endpoints with only host and port, or none.
pub(crate) fn sidecar_header(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    longboat_sidecar::fuzzing::header(text);
}

/// Any client's request body must be turned into valid requests for encoder, prefiller and decoder, or be refused. Any response
/// and stream must be forwarded, whatever chunks it arrives in.
pub(crate) fn sidecar_body(data: &[u8]) {
    longboat_sidecar::fuzzing::body(data);
}
