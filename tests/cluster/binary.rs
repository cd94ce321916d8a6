//! Which program is looked at.

use std::path::PathBuf;

/// The built binary, or the one that `LONGBOAT_BINARY` names: a release is measured, and holds out longer, than what tests are
/// built with.
pub(crate) fn longboat() -> PathBuf {
    std::env::var_os("LONGBOAT_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_longboat").into(), PathBuf::from)
}
