//! Watches the objects of the tree.

use std::{fmt::Debug, future, hash::Hash, sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Client, Resource,
    runtime::{WatchStreamExt, reflector, reflector::Store, watcher},
};
use longboat_api::{
    foreign::leaderworkerset::LeaderWorkerSet, labels::PART_OF_SELECTOR, v1alpha2::LLMInferenceService,
};
use longboat_controller::reader;
use longboat_watch::Selection;
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};

use super::{Scope, TreeObjects};

/// The interval of redraws while something is waiting: times are shown in seconds.
pub(crate) const REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// The interval of redraws without changes, when there is nothing to draw.
pub(crate) const IDLE_REDRAW_INTERVAL: Duration = Duration::from_hours(1);
/// How long to wait after a change before redrawing: a person cannot read faster, and further changes are drawn together.
const FRAME: Duration = Duration::from_millis(30);

/// The watches of all objects of the tree.
pub(crate) struct Follow {
    services: Watch<LLMInferenceService>,
    deployments: Watch<Deployment>,
    sets: Watch<LeaderWorkerSet>,
    pods: Watch<Pod>,
    watches: BoxStream<'static, ()>,
    wake: mpsc::Receiver<()>,
}

/// The watch of a kind, and its objects.
struct Watch<K: Resource<DynamicType: Eq + Hash + Clone> + 'static> {
    store: Store<K>,
    state: Arc<Mutex<State>>,
}

/// The state of the watch of a kind.
#[derive(Default)]
struct State {
    /// Whether the first list is complete, or the cluster does not serve the kind.
    known: bool,
    /// Why the watch fails, if it does.
    failure: Option<String>,
}

// === impl Follow ===

impl Follow {
    pub(crate) fn start(client: &Client, scope: &Scope) -> Self {
        // The capacity is one: a pending signal also covers later changes.
        let (changed, wake) = mpsc::channel(1);
        let (services, first) = watch(client, &scope.all::<LLMInferenceService>(), &changed);
        let (deployments, second) = watch(client, &ours::<Deployment>(scope), &changed);
        let (sets, third) = watch(client, &ours::<LeaderWorkerSet>(scope), &changed);
        let (pods, fourth) = watch(client, &ours::<Pod>(scope), &changed);
        let watches = futures::stream::select_all([first, second, third, fourth]).boxed();
        Self { services, deployments, sets, pods, watches, wake }
    }

    /// Returns the current objects.
    pub(crate) fn seen(&self) -> TreeObjects {
        TreeObjects {
            services: self.services.store.state(),
            deployments: self.deployments.store.state(),
            sets: self.sets.store.state(),
            pods: self.pods.store.state(),
        }
    }

    /// Returns why a watch fails, if one does. The objects may then be outdated.
    pub(crate) fn failure(&self) -> Option<String> {
        self.states().into_iter().find_map(|state| state.lock().failure.clone())
    }

    /// Returns the objects once all first lists are complete or have failed.
    pub(crate) async fn synced(&mut self) -> TreeObjects {
        loop {
            let is_known = |state: &Mutex<State>| {
                let state = state.lock();
                state.known || state.failure.is_some()
            };
            if self.states().into_iter().all(is_known) {
                return self.seen();
            }
            tokio::select! {
                changed = self.wake.recv() => if changed.is_none() { return self.seen() },
                () = (&mut self.watches).for_each(|()| future::ready(())) => return self.seen(),
            }
        }
    }

    /// Waits for a change, or until the deadline.
    pub(crate) async fn changed_by(&mut self, deadline: Instant) {
        let change = async {
            self.wake.recv().await;
            tokio::time::sleep(FRAME).await;
        };
        // The watches make progress only while they are polled here.
        tokio::select! {
            () = change => {}
            () = (&mut self.watches).for_each(|()| future::ready(())) => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }

    fn states(&self) -> [&Mutex<State>; 4] {
        [&self.services.state, &self.deployments.state, &self.sets.state, &self.pods.state]
    }
}

fn ours<K: Resource<DynamicType = ()>>(scope: &Scope) -> Selection {
    scope.all::<K>().labelled(PART_OF_SELECTOR)
}

fn watch<K>(
    client: &Client,
    selection: &Selection,
    changed: &mpsc::Sender<()>,
) -> (Watch<K>, BoxStream<'static, ()>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + longboat_watch::Decode + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let state = Arc::new(Mutex::new(State::default()));
    let (changed, says) = (changed.clone(), state.clone());
    let events = longboat_watch::decoded::<K>(client, selection).reflect(writer);
    let stream = events.map(move |event| {
        says.lock().apply_event(&event);
        // If the channel is full, a wake-up is pending, and the store has this change already.
        let _ = changed.try_send(());
    });
    (Watch { store, state }, stream.boxed())
}

// === impl State ===

impl State {
    fn apply_event<K>(&mut self, event: &Result<watcher::Event<K>, watcher::Error>) {
        match event {
            Ok(event) => {
                self.failure = None;
                self.known |= matches!(event, watcher::Event::InitDone);
            }
            // A kind that is not served has no objects. If the cluster serves it later, the next retry finds it.
            Err(watcher::Error::InitialListFailed(error)) if reader::is_missing(error) => {
                self.known = true;
                self.failure = None;
            }
            Err(watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) => {
                self.failure = Some(reader::sentence(error));
            }
            // Watches end regularly and are restarted.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_kind_that_is_not_served_counts_as_known_and_a_refused_one_as_trouble() {
        type PodWatchResult = Result<watcher::Event<Pod>, watcher::Error>;
        let failed = |message: &str, code: u16| -> PodWatchResult {
            let status = Status::failure(message, "x").with_code(code).boxed();
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status)))
        };
        let mut state = State::default();
        state.apply_event(&failed("404 page not found", 404));
        assert!(state.known && state.failure.is_none());

        let mut state = State::default();
        state.apply_event(&failed("pods is forbidden", 403));
        assert_eq!((state.known, state.failure.as_deref()), (false, Some("pods is forbidden")));
        state.apply_event(&PodWatchResult::Ok(watcher::Event::Init));
        assert_eq!((state.known, state.failure.as_deref()), (false, None));
        state.apply_event(&PodWatchResult::Ok(watcher::Event::InitDone));
        assert!(state.known);
    }
}
