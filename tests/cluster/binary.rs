//! The program under test.

use std::path::PathBuf;

/// Returns the path of the built binary, or of the one that `LONGBOAT_BINARY` names: measurements and long runs use a release
/// build.
pub(crate) fn longboat() -> PathBuf {
    std::env::var_os("LONGBOAT_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_longboat").into(), PathBuf::from)
}
