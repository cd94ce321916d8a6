//! What the executable was started as, where that changes how it talks to people.

use std::{ffi::OsStr, path::Path};

/// A name that people start the executable by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    /// `longboat`, or anything else.
    Longboat,
    /// `kubectl-longboat`, which kubectl runs for `kubectl longboat`.
    Plugin,
}

// === impl Called ===

impl Called {
    /// By the path of the executable as it was started.
    pub(crate) fn by(program: &OsStr) -> Self {
        match Path::new(program).file_name() {
            Some(name) if name == Self::Plugin.program() => Self::Plugin,
            _ => Self::Longboat,
        }
    }

    /// Of this process.
    pub(crate) fn now() -> Self {
        std::env::args_os().next().map_or(Self::Longboat, |program| Self::by(&program))
    }

    /// The file's name.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Longboat => "longboat",
            Self::Plugin => "kubectl-longboat",
        }
    }
}
