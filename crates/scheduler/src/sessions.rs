//! Finds the session of a request, in a header, in a cookie or in the headers of coding agents, and remembers its endpoint.

use ahash::AHashMap;

use crate::{
    decision::{Decision, ProfileRun},
    endpoint::{Candidate, Slot, Snapshot},
    finding::Finding,
    inflight::TargetLoad,
    producer::{Producer, ProducerState},
    request::{HeaderLookup, Request},
};

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
                let cookies = headers.header("cookie")?.split(';');
                let mut pairs = cookies.filter_map(|cookie| cookie.trim().split_once('='));
                pairs.find(|(found, _)| found == name)?.1
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

/// How the endpoints of sessions are remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionSettings {
    /// The session is that of the first source that has one.
    pub(crate) sources: Vec<SessionSource>,
    pub(crate) ttl_ms: u64,
    /// The profile whose endpoint is remembered, if it is not the primary one.
    pub(crate) profile: Option<String>,
}

impl Producer for SessionSettings {
    fn state(&self) -> Box<dyn ProducerState> {
        Box::new(Sessions::new(self.clone()))
    }

    fn is_timed(&self) -> bool {
        false
    }
}

/// The session of a request.
pub(crate) struct SessionLookup {
    id: String,
    /// The endpoint of the session, and its place among the candidates. `None` if the session is new.
    bound: Option<(Slot, Option<Candidate>)>,
}

impl SessionLookup {
    /// The endpoint of the session, if it is a candidate.
    pub(crate) fn candidate(&self) -> Option<Candidate> {
        self.bound.and_then(|(_, candidate)| candidate)
    }

    /// Whether the profile had no choice but to send the session elsewhere.
    fn is_bereft(&self, run: &ProfileRun) -> bool {
        self.bound.is_some_and(|(_, candidate)| {
            candidate.is_none_or(|own| run.totals.iter().all(|(candidate, _)| *candidate != own))
        })
    }
}

/// The endpoints of sessions. Clients choose the names of sessions, so the number is limited by two generations. When the
/// younger generation is full, it becomes the older one, and the former older one is dropped. A session that is used moves to
/// the younger generation.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    settings: SessionSettings,
    younger: AHashMap<String, Session>,
    older: AHashMap<String, Session>,
    swept: u64,
}

/// The most sessions of a generation.
const MAX_SESSIONS: usize = 50_000;
/// The longest name of a session. A longer name counts as none.
const MAX_NAME: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Session {
    slot: Slot,
    expires: u64,
}

/// How often expired sessions are removed, in milliseconds.
const SWEEP_MS: u64 = 10_000;

impl Sessions {
    fn new(settings: SessionSettings) -> Self {
        Self { settings, younger: AHashMap::new(), older: AHashMap::new(), swept: 0 }
    }

    pub(crate) fn get(&self, id: &str, now: u64) -> Option<Slot> {
        let known = self.younger.get(id).or_else(|| self.older.get(id));
        known.filter(|session| session.expires > now).map(|session| session.slot)
    }

    /// The number of sessions.
    pub(crate) fn live(&self, now: u64) -> usize {
        let older = self.older.iter().filter(|(id, _)| !self.younger.contains_key(*id));
        let all = self.younger.iter().chain(older);
        all.filter(|(_, session)| session.expires > now).count()
    }

    fn remember(&mut self, id: String, slot: Slot, expires: u64, now: u64) {
        if id.len() > MAX_NAME {
            return;
        }
        if now.saturating_sub(self.swept) > SWEEP_MS {
            self.younger.retain(|_, session| session.expires > now);
            self.older.retain(|_, session| session.expires > now);
            self.swept = now;
        }
        if self.younger.len() >= MAX_SESSIONS && !self.younger.contains_key(&id) {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(id, Session { slot, expires });
    }
}

impl ProducerState for Sessions {
    /// Finds the session of the request.
    fn find(&self, request: &Request<'_>, candidates: &[Snapshot], now: u64) -> Finding {
        Finding::new(first(&self.settings.sources, request.headers).map(|id| {
            let place = |slot| candidates.iter().position(|candidate| candidate.endpoint.slot == slot);
            let bound = self.get(id, now).map(|slot| (slot, place(slot)));
            SessionLookup { id: id.to_owned(), bound }
        }))
    }

    fn learn(&mut self, finding: &Finding, decision: &Decision) {
        let Some(Some(session)) = finding.get::<Option<SessionLookup>>() else { return };
        let index = match &self.settings.profile {
            None => Some(decision.primary),
            Some(name) => decision.runs.iter().position(|run| run.name == *name),
        };
        let Some(index) = index else { return };
        let (run, TargetLoad { slot, .. }) = (&decision.runs[index], decision.reserve[index]);
        // A session whose endpoint was there stays with it, even if this request went elsewhere.
        let stays = self.get(&session.id, decision.now).is_some_and(|bound| bound != slot);
        if !stays || session.is_bereft(run) {
            let expires = decision.now.saturating_add(self.settings.ttl_ms);
            self.remember(session.id.clone(), slot, expires, decision.now);
        }
    }

    fn forget(&mut self, slot: Slot) {
        self.younger.retain(|_, session| session.slot != slot);
        self.older.retain(|_, session| session.slot != slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_one_that_is_used_stays() {
        let mut sessions = Sessions::new(SessionSettings { sources: Vec::new(), ttl_ms: 100, profile: None });
        for number in 0..3 * MAX_SESSIONS {
            sessions.remember(number.to_string(), Slot(1), 100, 0);
            if number % 1000 == 0 {
                sessions.remember("used".to_owned(), Slot(2), 100, 0);
            }
        }
        assert!(sessions.younger.len() <= MAX_SESSIONS && sessions.older.len() <= MAX_SESSIONS);
        assert_eq!(sessions.get("used", 50), Some(Slot(2)));
        assert_eq!(sessions.get("0", 50), None, "it was used longest ago");
        assert_eq!(sessions.get("used", 100), None, "its time is over");
        sessions.remember("x".repeat(MAX_NAME + 1), Slot(1), 100, 0);
        assert_eq!(sessions.get(&"x".repeat(MAX_NAME + 1), 50), None);
        sessions.forget(Slot(1));
        assert_eq!(sessions.live(50), 1);
    }
}
