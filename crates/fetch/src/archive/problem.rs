//! Why an archive cannot be unpacked.

use std::io;

/// Why an archive cannot be unpacked.
#[derive(Debug)]
pub enum Problem {
    /// The archive is broken or not allowed.
    Archive(String),
    /// The archive cannot be read, or its content cannot be written.
    Io(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<&str> for Problem {
    fn from(why: &str) -> Self {
        Self::Archive(why.to_owned())
    }
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self::Archive(why)
    }
}
