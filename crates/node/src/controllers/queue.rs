//! The loop of a controller: one object at a time, each at most once in the queue, again later when it failed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The first wait after a failure. It doubles up to [`LONGEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Which object to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Why to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trigger {
    One(Key),
    All,
}

/// What a controller does.
pub(super) trait Reconcile: Send {
    /// For log lines.
    const NAME: &'static str;

    /// Every object there is to look at.
    fn all(&self) -> Vec<Key>;

    /// Brings one object to what it should be. Answers when to look again even if nothing changes.
    fn reconcile(&mut self, key: &Key) -> impl Future<Output = Result<Option<Duration>, kube::Error>> + Send;
}

/// Runs a controller until `cancel`.
pub(super) async fn run<R: Reconcile>(
    mut controller: R,
    triggers: impl Stream<Item = Trigger> + Send,
    cancel: CancellationToken,
) {
    let mut triggers = std::pin::pin!(triggers);
    let mut due: BTreeMap<Key, Instant> = BTreeMap::new();
    let mut retries: HashMap<Key, Duration> = HashMap::new();
    loop {
        let next = due.iter().min_by_key(|(_, at)| **at).map(|(key, at)| (key.clone(), *at));
        tokio::select! {
            // Changes first: what is looked at then is as new as can be.
            biased;
            () = cancel.cancelled() => return,
            trigger = triggers.next() => match trigger {
                Some(Trigger::One(key)) => {
                    due.insert(key, Instant::now());
                }
                Some(Trigger::All) => due.extend(controller.all().into_iter().map(|key| (key, Instant::now()))),
                None => return,
            },
            () = sleep_until(next.as_ref().map(|(_, at)| *at)) => {
                let Some((key, _)) = next else { continue };
                due.remove(&key);
                match controller.reconcile(&key).await {
                    Ok(again) => {
                        retries.remove(&key);
                        if let Some(wait) = again {
                            due.insert(key, Instant::now() + wait);
                        }
                    }
                    Err(error) => {
                        let wait = retries.get(&key).map_or(FIRST_RETRY, |wait| (*wait * 2).min(LONGEST_RETRY));
                        // A conflict is how an old cache shows, and passes with the next change.
                        tracing::debug!(%error, controller = R::NAME, namespace = key.namespace, name = key.name, "again in {wait:?}");
                        retries.insert(key.clone(), wait);
                        due.insert(key, Instant::now() + wait);
                    }
                }
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    struct Failing {
        seen: Arc<Mutex<Vec<String>>>,
        failures: u32,
    }

    impl Reconcile for Failing {
        const NAME: &'static str = "failing";

        fn all(&self) -> Vec<Key> {
            vec![key("a"), key("b")]
        }

        async fn reconcile(&mut self, key: &Key) -> Result<Option<Duration>, kube::Error> {
            self.seen.lock().push(key.name.clone());
            if key.name == "b" && self.failures > 0 {
                self.failures -= 1;
                return Err(kube::Error::LinesCodecMaxLineLengthExceeded);
            }
            Ok(None)
        }
    }

    fn key(name: &str) -> Key {
        Key { namespace: "ns".into(), name: name.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_looked_at_once_for_many_changes_and_again_after_failures() {
        let seen = Arc::default();
        let controller = Failing { seen: Arc::clone(&seen), failures: 2 };
        let (sender, receiver) = mpsc::channel(10);
        for trigger in [Trigger::All, Trigger::One(key("a")), Trigger::One(key("a"))] {
            sender.send(trigger).await.unwrap();
        }
        let cancel = CancellationToken::new();
        let running = tokio::spawn(run(controller, ReceiverStream::new(receiver), cancel.clone()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
        running.await.unwrap();
        let mut names = seen.lock().clone();
        names.sort();
        assert_eq!(names, ["a", "b", "b", "b"]);
    }
}
