//! The work queue of a controller. Each object is in the queue at most once, one object is reconciled at a time, and
//! failures are retried later.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use longboat_key::Key;
use longboat_watch::text_of;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, CachedKind, Change};

/// The first wait after a failure. It doubles up to [`MAX_RETRY_DELAY`].
const FIRST_RETRY: Duration = Duration::from_millis(5);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The reason for a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trigger {
    One(Key),
    All,
}

/// Turns changes of one kind into the keys that a controller must reconcile.
pub(super) fn triggers<K, I>(
    cache: &Cache<K>,
    keys: impl Fn(&K) -> I + Send + 'static,
) -> impl Stream<Item = Trigger> + Send + 'static
where
    K: CachedKind,
    I: IntoIterator<Item = Key>,
    I::IntoIter: Send,
{
    cache.changes().flat_map(move |change| {
        let triggers: Vec<Trigger> = match change {
            Change::Applied(object) | Change::Deleted(object) => {
                keys(&object).into_iter().map(Trigger::One).collect()
            }
            Change::Resync => vec![Trigger::All],
        };
        stream::iter(triggers)
    })
}

/// The time until the next reconcile if nothing changes before.
pub(super) type Again = Result<Option<Duration>, kube::Error>;

/// A controller of the objects of one kind.
pub(super) trait Reconcile<K: CachedKind>: Send {
    /// The name for log messages.
    const NAME: &'static str;

    /// Reconciles an object.
    fn reconcile(&mut self, key: &Key, object: &K) -> impl Future<Output = Again> + Send;

    /// Reconciles an object that is being deleted.
    fn finalize(&mut self, _: &Key, _: &K) -> impl Future<Output = Again> + Send {
        std::future::ready(Ok(None))
    }

    /// Forgets an object that is gone.
    fn forget(&mut self, _: &Key) -> impl Future<Output = Again> + Send {
        std::future::ready(Ok(None))
    }
}

/// Runs a controller of these objects until `cancel`. It reconciles an object that has changed, or that `others` names.
pub(super) async fn run<K: CachedKind, R: Reconcile<K>>(
    mut controller: R,
    objects: Cache<K>,
    others: impl Stream<Item = Trigger> + Send,
    cancel: CancellationToken,
) {
    let own = triggers(&objects, |object: &K| [Key::of_metadata(object.meta())]);
    let mut triggers = std::pin::pin!(stream::select(own, others));
    let mut due: BTreeMap<Key, Instant> = BTreeMap::new();
    let mut retries: HashMap<Key, Duration> = HashMap::new();
    // The objects that were reconciled and not forgotten.
    let mut known: BTreeSet<Key> = BTreeSet::new();
    loop {
        let next = due.iter().min_by_key(|(_, at)| **at).map(|(key, at)| (key.clone(), *at));
        tokio::select! {
            // Changes come first, so that each reconcile sees the newest state.
            biased;
            () = cancel.cancelled() => return,
            trigger = triggers.next() => match trigger {
                Some(Trigger::One(key)) => {
                    due.insert(key, Instant::now());
                }
                Some(Trigger::All) => {
                    let all = objects.all();
                    // What is known may be gone, and the signal of its deletion may be lost.
                    let keys = all.iter().map(|object| Key::of_metadata(object.meta())).chain(known.iter().cloned());
                    due.extend(keys.map(|key| (key, Instant::now())));
                }
                None => return,
            },
            () = sleep_until(next.as_ref().map(|(_, at)| *at)) => {
                let Some((key, _)) = next else { continue };
                // Before the reconcile, so that a change in the meantime makes the key due again.
                due.remove(&key);
                let object = objects.get(&key.namespace, &key.name);
                if object.is_some() {
                    known.insert(key.clone());
                } else {
                    known.remove(&key);
                }
                let outcome = match object {
                    Some(object) if object.meta().deletion_timestamp.is_some() => {
                        controller.finalize(&key, &object).await
                    }
                    Some(object) => controller.reconcile(&key, &object).await,
                    None => controller.forget(&key).await,
                };
                match outcome {
                    Ok(again) => {
                        retries.remove(&key);
                        if let Some(wait) = again {
                            due.insert(key, Instant::now() + wait);
                        }
                    }
                    Err(error) => {
                        let wait = retries.get(&key).map_or(FIRST_RETRY, |wait| (*wait * 2).min(MAX_RETRY_DELAY));
                        // A conflict means that the cache was old; the next change resolves it.
                        tracing::debug!(
                            error = %text_of(&error),
                            wait = %longboat_quantity::duration::text(wait),
                            controller = R::NAME,
                            namespace = &*key.namespace,
                            name = &*key.name,
                            "Retrying a reconcile."
                        );
                        retries.insert(key.clone(), wait);
                        due.insert(key, Instant::now() + wait);
                    }
                }
            }
        }
    }
}

/// Waits until then; for ever without a time.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::runtime::watcher;
    use longboat_key::{Name, Namespace};
    use parking_lot::Mutex;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    struct FailureLog {
        seen: Arc<Mutex<Vec<String>>>,
        failures: u32,
    }

    impl Reconcile<Pod> for FailureLog {
        const NAME: &'static str = "failing";

        async fn reconcile(&mut self, key: &Key, _: &Pod) -> Again {
            self.seen.lock().push(key.name.to_string());
            if &*key.name == "b" && self.failures > 0 {
                self.failures -= 1;
                return Err(kube::Error::LinesCodecMaxLineLengthExceeded);
            }
            Ok(None)
        }

        async fn forget(&mut self, key: &Key) -> Again {
            self.seen.lock().push(format!("no {}", key.name));
            Ok(None)
        }
    }

    fn key(name: &str) -> Key {
        Key::new(Namespace("ns"), Name(name))
    }

    fn pod(name: &str) -> Pod {
        let metadata =
            ObjectMeta { namespace: Some("ns".into()), name: Some(name.into()), ..ObjectMeta::default() };
        Pod { metadata, ..Pod::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_looked_at_once_for_many_changes_and_again_after_failures() {
        let seen = Arc::default();
        let objects = Cache::of(vec![pod("a"), pod("b")]);
        let controller = FailureLog { seen: Arc::clone(&seen), failures: 2 };
        let (sender, receiver) = mpsc::channel(10);
        for trigger in [Trigger::All, Trigger::One(key("a")), Trigger::One(key("a"))] {
            sender.send(trigger).await.unwrap();
        }
        let cancel = CancellationToken::new();
        let running = tokio::spawn(run(controller, objects, ReceiverStream::new(receiver), cancel.clone()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
        running.await.unwrap();
        let mut names = seen.lock().clone();
        names.sort();
        assert_eq!(names, ["a", "b", "b", "b"]);
    }
    #[tokio::test(start_paused = true)]
    async fn an_object_is_forgotten_whose_deletion_was_not_signalled() {
        let seen = Arc::default();
        let (objects, mut writer) = Cache::with_writer(vec![pod("a"), pod("c")]);
        let controller = FailureLog { seen: Arc::clone(&seen), failures: 0 };
        let (sender, receiver) = mpsc::channel(10);
        let cancel = CancellationToken::new();
        let running = tokio::spawn(run(controller, objects, ReceiverStream::new(receiver), cancel.clone()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        writer.apply_watcher_event(&watcher::Event::Delete(pod("a")));
        sender.send(Trigger::All).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
        running.await.unwrap();
        let mut names = seen.lock().clone();
        names.sort();
        assert_eq!(names, ["a", "c", "c", "no a"]);
    }
}
