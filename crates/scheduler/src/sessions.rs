//! Where the session of a request stands: in a header, in a cookie, or in what coding agents send.

use crate::request::HeaderLookup;

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionSource {
    /// A header, by its lower-case name.
    Header(String),
    /// A cookie.
    Cookie(String),
}

impl SessionSource {
    /// The session that stands there; empty is none.
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

/// The first of several places that has one.
pub(crate) fn first<'h>(sources: &[SessionSource], headers: &'h dyn HeaderLookup) -> Option<&'h str> {
    sources.iter().find_map(|source| source.read(headers))
}

/// `agent-identity`: the headers in which agents name their session, in the order in which they count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agents(pub(crate) Vec<SessionSource>);

impl Agents {
    /// The agent's session of a request.
    pub fn of<'h>(&self, headers: &'h dyn HeaderLookup) -> Option<&'h str> {
        first(&self.0, headers)
    }
}
