//! The name under which the executable was started, where the name changes messages to people.

use std::{ffi::OsStr, path::Path};

/// A name under which people start the executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramName {
    /// `longboat`, or anything else.
    Longboat,
    /// `kubectl-longboat`, which kubectl runs for `kubectl longboat`.
    Plugin,
}

// === impl ProgramName ===

impl ProgramName {
    /// Returns the name from the path with which the executable was started.
    pub(crate) fn by(program: &OsStr) -> Self {
        match Path::new(program).file_name() {
            Some(name) if name == Self::Plugin.program() => Self::Plugin,
            _ => Self::Longboat,
        }
    }

    /// Returns the name of this process.
    pub(crate) fn now() -> Self {
        std::env::args_os().next().map_or(Self::Longboat, |program| Self::by(&program))
    }

    /// Returns what people type.
    pub(crate) fn typed(self) -> &'static str {
        match self {
            Self::Longboat => "longboat",
            Self::Plugin => "kubectl longboat",
        }
    }

    /// Returns the file name of the executable.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Longboat => "longboat",
            Self::Plugin => "kubectl-longboat",
        }
    }
}
