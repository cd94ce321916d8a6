//! Remembers which hosts have ever answered. If a person waits, a host that has never answered is given up sooner.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{http::Failure, retry::Cause};

/// The most hosts that are remembered. Usually there are two or three. The limit protects against a server that redirects to
/// ever new hosts.
const MOST: usize = 64;

/// The hosts that requests were sent to.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The time for a host's first answer. `None` treats all hosts alike.
    patience: Option<Duration>,
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug, Clone, Copy)]
enum Known {
    /// The host has not answered yet. Its first request was sent at this time.
    Silent(Instant),
    Answers,
}

// === impl Hosts ===

impl Hosts {
    pub(crate) fn new(patience: Option<Duration>) -> Self {
        Self { patience, known: Mutex::default() }
    }

    /// Returns how long to wait for the answer to a request that is sent now, at most `usual`.
    pub(crate) fn wait(&self, host: &str, usual: Duration) -> Duration {
        let Some(patience) = self.patience else { return usual };
        let mut known = self.known.lock();
        if known.len() >= MOST && !known.contains_key(host) {
            return usual;
        }
        match known.entry(host.to_owned()).or_insert_with(|| Known::Silent(Instant::now())) {
            Known::Answers => usual,
            Known::Silent(since) => usual.min(patience.saturating_sub(since.elapsed())),
        }
    }

    /// Records that the host has answered, with any status.
    pub(crate) fn answered(&self, host: &str) {
        if let Some(known) = self.known.lock().get_mut(host) {
            *known = Known::Answers;
        }
    }

    /// Handles a request without an answer. If the host has never answered and its time is over, the returned failure is final.
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        let silent = match self.known.lock().get(&failure.host) {
            Some(Known::Silent(since)) => since.elapsed(),
            _ => return failure,
        };
        match self.patience {
            Some(patience) if failure.cause == Cause::Connection && silent >= patience => {
                Failure { cause: Cause::Unanswered, ..failure }
            }
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Duration = Duration::from_secs(30);

    fn broken(host: &str) -> Failure {
        Failure { host: host.to_owned(), ..Failure::broken("no answer in time") }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_host_that_never_answered_is_given_up_early() {
        let hosts = Hosts::new(Some(Duration::from_secs(5)));
        assert_eq!(hosts.wait("a", USUAL), Duration::from_secs(5));
        hosts.wait("b", USUAL);
        hosts.answered("b");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(hosts.failed(broken("a")).cause, Cause::Connection);
        assert_eq!(hosts.wait("a", USUAL), Duration::from_secs(3));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(hosts.failed(broken("a")).cause, Cause::Unanswered);
        assert_eq!((hosts.wait("b", USUAL), hosts.failed(broken("b")).cause), (USUAL, Cause::Connection));

        let patient = Hosts::new(None);
        assert_eq!(patient.wait("a", USUAL), USUAL);
        tokio::time::advance(USUAL).await;
        assert_eq!(patient.failed(broken("a")).cause, Cause::Connection);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let hosts = Hosts::new(Some(Duration::from_secs(5)));
        for number in 0..1000 {
            hosts.wait(&number.to_string(), USUAL);
        }
        assert_eq!(hosts.known.lock().len(), MOST);
    }
}
