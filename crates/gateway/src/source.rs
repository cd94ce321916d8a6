//! Starts watches, and signals what they change.

use std::{
    borrow::Cow,
    future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream::BoxStream};
use kube::{
    Client, Resource,
    runtime::{reflector, reflector::Store, watcher},
};
use longboat_api::annotations::LAST_APPLIED;
use longboat_watch::{Decode, Events, Selection, has_code, text_of_watch};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

/// Starts watches, and knows which have not delivered yet.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) client: Client,
    /// The capacity is one: a pending signal also covers later changes.
    changed: mpsc::Sender<()>,
    /// The number of watches whose first list has not arrived.
    pending: Arc<AtomicUsize>,
    /// Wakes the watcher later.
    timer: Arc<Mutex<Option<AbortHandle>>>,
}

/// A kind that can be watched.
pub(crate) trait Watchable:
    Resource<DynamicType = ()> + Clone + Decode + Send + Sync + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + Decode + Send + Sync + 'static> Watchable for K {}

/// What an event of a watch means, without its object: all kinds share what follows from it.
enum Progress {
    /// A list is arriving.
    Listing,
    /// A list is complete.
    Listed,
    Changed,
}

/// A watch whose first list has not arrived.
struct FirstList(Source);

// === impl Source ===

impl Source {
    /// Returns a source, and the signals of its watches.
    pub(crate) fn new(client: &Client) -> (Self, mpsc::Receiver<()>) {
        // Not a `Notify`: the watcher's end closes the channel, which ends timers.
        let (changed, wake) = mpsc::channel(1);
        (Self { client: client.clone(), changed, pending: Arc::default(), timer: Arc::default() }, wake)
    }

    /// Whether the first list of a watch has not arrived.
    pub(crate) fn waits(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    /// Wakes the watcher, as a change would.
    pub(crate) fn wake(&self) {
        // If the channel is full, the watcher wakes anyway.
        let _ = self.changed.try_send(());
    }

    /// Wakes the watcher after a while. The last call counts, so that many changes do not become as many timers. The task ends with the
    /// watcher.
    pub(crate) fn wake_after(&self, delay: Duration) {
        let source = self.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(delay) => source.wake(),
                () = source.changed.closed() => {}
            }
        });
        if let Some(former) = self.timer.lock().replace(task.abort_handle()) {
            former.abort();
        }
    }

    /// Watches objects.
    pub(crate) fn watch<K: Watchable>(&self, selection: &Selection, tasks: &mut JoinSet<()>) -> Store<K> {
        self.reflect(longboat_watch::decoded(&self.client, selection), tasks, |_| {}, usize::MAX)
    }

    /// Keeps the objects of a watch, without the parts that `trim` removes before they are stored.
    pub(crate) fn reflect<K: Watchable>(
        &self,
        events: Events<K>,
        tasks: &mut JoinSet<()>,
        trim: fn(&mut K),
        max_failures: usize,
    ) -> Store<K> {
        let (reader, mut writer) = reflector::store();
        let mut store = move |event: watcher::Event<K>| {
            let event = event.modify(|object| {
                let metadata = object.meta_mut();
                metadata.managed_fields = None;
                if let Some(annotations) = &mut metadata.annotations {
                    annotations.remove(LAST_APPLIED);
                }
                trim(object);
            });
            writer.apply_watcher_event(&event);
            Progress::of(&event)
        };
        let progress = events.map(move |event| event.map(&mut store)).boxed();
        tasks.spawn(self.clone().follow(K::kind(&()), progress, max_failures));
        reader
    }

    fn first_list(&self) -> FirstList {
        self.pending.fetch_add(1, Ordering::AcqRel);
        FirstList(self.clone())
    }

    /// Signals the changes of a watch. Must be called before the task starts, so that the watch counts from now on.
    fn follow(
        self,
        kind: Cow<'static, str>,
        progress: BoxStream<'static, watcher::Result<Progress>>,
        max_failures: usize,
    ) -> impl Future<Output = ()> + Send {
        let mut first = Some(self.first_list());
        let mut failures = 0;
        progress.for_each(move |progress| {
            match progress {
                // A new list is only signalled when it is complete. Otherwise the process would see a partial cluster.
                Ok(Progress::Listing) => {}
                Ok(Progress::Listed) => {
                    drop(first.take());
                    self.wake();
                }
                Ok(Progress::Changed) => self.wake(),
                Err(error) => {
                    let text = text_of_watch(&error);
                    failures += 1;
                    // Without the first list, nothing is served. One line says why; a watch by name may wait for its right.
                    if failures == 1 && first.is_some() && max_failures == usize::MAX && !is_absent(&error) {
                        tracing::warn!(error = %text, %kind, "Cannot list objects; nothing new is served until this works.");
                    } else {
                        tracing::debug!(error = %text, %kind, "Restarting a watch that failed.");
                    }
                    // A cluster may lack optional kinds.
                    if is_absent(&error) || failures >= max_failures {
                        drop(first.take());
                    }
                }
            }
            future::ready(())
        })
    }
}

// === impl Progress ===

impl Progress {
    fn of<K>(event: &watcher::Event<K>) -> Self {
        match event {
            watcher::Event::Init | watcher::Event::InitApply(_) => Self::Listing,
            watcher::Event::InitDone => Self::Listed,
            watcher::Event::Apply(_) | watcher::Event::Delete(_) => Self::Changed,
        }
    }
}

fn is_absent(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(error) if has_code(error, 404))
}

impl Drop for FirstList {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::AcqRel);
        self.0.wake();
    }
}
