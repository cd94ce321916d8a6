//! Finds the session of a request: in a header, in a cookie, or in the headers of coding agents.

use crate::request::HeaderLookup;

/// A source of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionSource {
    /// A header, by its lower-case name.
    Header(String),
    /// A cookie.
    Cookie(String),
}

impl SessionSource {
    /// Returns the session from this source. Returns `None` if there is none or it is empty.
    pub(crate) fn read<'h>(&self, headers: &'h dyn HeaderLookup) -> Option<&'h str> {
        let found = match self {
            Self::Header(name) => headers.header(name)?,
            Self::Cookie(name) => {
                let pairs =
                    headers.header("cookie")?.split(';').filter_map(|pair| pair.trim().split_once('='));
                pairs.into_iter().find(|(found, _)| found == name)?.1
            }
        };
        Some(found.trim()).filter(|session| !session.is_empty())
    }
}

/// Returns the session from the first source that has one.
pub(crate) fn first<'h>(sources: &[SessionSource], headers: &'h dyn HeaderLookup) -> Option<&'h str> {
    sources.iter().find_map(|source| source.read(headers))
}

/// `agent-identity`: the headers in which agents name their session, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agents(pub(crate) Vec<SessionSource>);

impl Agents {
    /// Returns the agent session of a request.
    pub fn of<'h>(&self, headers: &'h dyn HeaderLookup) -> Option<&'h str> {
        first(&self.0, headers)
    }
}
