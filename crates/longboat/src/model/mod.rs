//! Models that people name on the command line, and the service that serves one of them.

pub(crate) mod catalogue;
mod manifest;
mod progress;
mod reference;

pub(crate) use self::{
    progress::ProgressBar,
    reference::{FilePatterns, ModelReference},
};

/// Formats a number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        1_000_000_000.. => (1_000_000_000, "GB"),
        1_000_000.. => (1_000_000, "MB"),
        _ => (1_000, "kB"),
    };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}
