//! Remembers which hosts have ever answered. If a person waits, a host that has never answered is given up sooner.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{failure::Failure, retry::Cause};

/// The maximum number of hosts that are remembered. Usually there are two or three. The limit protects against a server that
/// redirects to ever new hosts.
const MAX_HOSTS: usize = 64;

/// The hosts that requests were sent to.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The time for a host's first answer. `None` treats all hosts alike.
    first_answer: Option<Duration>,
    known: Mutex<BTreeMap<String, HostState>>,
}

#[derive(Debug, Clone, Copy)]
enum HostState {
    /// The host has not answered yet. Its first request was sent at this time.
    Silent(Instant),
    Responsive,
}

// === impl Hosts ===

impl Hosts {
    pub(crate) fn new(first_answer: Option<Duration>) -> Self {
        Self { first_answer, known: Mutex::default() }
    }

    /// Returns how long to wait for the answer to a request that is sent now, at most `usual`.
    pub(crate) fn wait(&self, host: &str, usual: Duration) -> Duration {
        let Some(first_answer) = self.first_answer else { return usual };
        let mut known = self.known.lock();
        if known.len() >= MAX_HOSTS && !known.contains_key(host) {
            return usual;
        }
        match known.entry(host.to_owned()).or_insert_with(|| HostState::Silent(Instant::now())) {
            HostState::Responsive => usual,
            HostState::Silent(since) => usual.min(first_answer.saturating_sub(since.elapsed())),
        }
    }

    /// Records that the host has answered, with any status.
    pub(crate) fn answered(&self, host: &str) {
        if let Some(known) = self.known.lock().get_mut(host) {
            *known = HostState::Responsive;
        }
    }

    /// Handles a request without an answer. If the host has never answered and its time is over, the returned failure is final.
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        let silent = match self.known.lock().get(&failure.host) {
            Some(HostState::Silent(since)) => since.elapsed(),
            _ => return failure,
        };
        match self.first_answer {
            Some(first_answer) if failure.cause == Cause::Connection && silent >= first_answer => {
                Failure { cause: Cause::Unanswered, ..failure }
            }
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_TIMEOUT: Duration = Duration::from_secs(30);

    fn broken(host: &str) -> Failure {
        Failure { host: host.to_owned(), ..Failure::broken("no answer in time") }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_host_that_never_answered_is_given_up_early() {
        let hosts = Hosts::new(Some(Duration::from_secs(5)));
        assert_eq!(hosts.wait("a", READ_TIMEOUT), Duration::from_secs(5));
        hosts.wait("b", READ_TIMEOUT);
        hosts.answered("b");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(hosts.failed(broken("a")).cause, Cause::Connection);
        assert_eq!(hosts.wait("a", READ_TIMEOUT), Duration::from_secs(3));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(hosts.failed(broken("a")).cause, Cause::Unanswered);
        assert_eq!(
            (hosts.wait("b", READ_TIMEOUT), hosts.failed(broken("b")).cause),
            (READ_TIMEOUT, Cause::Connection)
        );

        let attentive = Hosts::new(None);
        assert_eq!(attentive.wait("a", READ_TIMEOUT), READ_TIMEOUT);
        tokio::time::advance(READ_TIMEOUT).await;
        assert_eq!(attentive.failed(broken("a")).cause, Cause::Connection);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let hosts = Hosts::new(Some(Duration::from_secs(5)));
        for number in 0..1000 {
            hosts.wait(&number.to_string(), READ_TIMEOUT);
        }
        assert_eq!(hosts.known.lock().len(), MAX_HOSTS);
    }
}
