//! Fuzz targets of ext_proc's HTTP/2: one function over bytes per target. The test that replays the stored corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 1] = [("ext_proc_frames", ext_proc_frames)];

/// Whatever frames a peer sends while its windows are closed or tiny, no window may be exceeded and no memory kept. The input
/// are commands of the peer.
pub(crate) fn ext_proc_frames(data: &[u8]) {
    longboat_extproc::fuzzing::frames(data);
}
