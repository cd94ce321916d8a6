//! The proof requests of all services.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use longboat_key::Key;
use longboat_plan::proof::{Outcome, Probe};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::AbortHandle};

/// Requests that are due, running or completed. There is at most one per service.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    due: HashMap<Key, Probe>,
    under_way: HashMap<Key, ProbeTask>,
    /// Outcomes that are not in a status yet.
    outcomes: HashMap<Key, Arc<Outcome>>,
}

/// A task that waits to send a request, or has sent it.
#[derive(Debug)]
struct ProbeTask {
    probe: Probe,
    sent: Arc<AtomicBool>,
    task: AbortHandle,
}

// === impl Proofs ===

impl Proofs {
    /// Returns the outcome of the service's last request, unless its status has it already.
    pub(crate) fn outcome(&self, service: &Key) -> Option<Arc<Outcome>> {
        self.state.lock().outcomes.get(service).cloned()
    }

    /// Records that the status has the outcome `shown`, and that the request `due` is the next one, if any.
    pub(crate) fn published(&self, service: &Key, shown: Option<&Arc<Outcome>>, due: Option<Probe>) {
        let mut state = self.state.lock();
        if let Some(shown) = shown
            && state.outcomes.get(service).is_some_and(|known| Arc::ptr_eq(known, shown))
        {
            state.outcomes.remove(service);
        }
        // A newer outcome is handled first: its service is enqueued.
        if state.outcomes.contains_key(service) {
            return;
        }
        // A task that has panicked leaves its entry: only `finish` removes it.
        let running = state.under_way.get(service).filter(|running| !running.task.is_finished());
        if let Some(running) = running {
            // A request that was already sent may finish, because its cost is already paid.
            let is_same = due.as_ref().is_some_and(|due| due.id == running.probe.id);
            if is_same || running.sent.load(Ordering::Acquire) {
                return;
            }
            running.task.abort();
            state.under_way.remove(service);
        }
        match due {
            Some(due) => {
                state.due.insert(service.clone(), due);
                drop(state);
                self.wake.notify_one();
            }
            None => {
                state.due.remove(service);
            }
        }
    }

    /// Forgets a service that is gone.
    pub(crate) fn forget(&self, service: &Key) {
        let mut state = self.state.lock();
        state.due.remove(service);
        state.outcomes.remove(service);
        if let Some(running) = state.under_way.remove(service) {
            running.task.abort();
        }
    }

    /// Stores an outcome until a status has it. Returns false if the service was forgotten meanwhile or needs another
    /// request.
    pub(super) fn finish(&self, service: &Key, outcome: Outcome) -> bool {
        let mut state = self.state.lock();
        if state.under_way.get(service).is_none_or(|running| running.probe.id != outcome.id) {
            return false;
        }
        state.under_way.remove(service);
        state.outcomes.insert(service.clone(), Arc::new(outcome));
        true
    }

    /// Starts the requests that are due. `start` starts the task of one.
    pub(super) fn start_due(&self, mut start: impl FnMut(&Key, &Probe, Arc<AtomicBool>) -> AbortHandle) {
        let mut state = self.state.lock();
        let due: Vec<(Key, Probe)> = state.due.drain().collect();
        for (service, probe) in due {
            let sent = Arc::new(AtomicBool::new(false));
            // Under the lock, so that a task that ends at once finds its entry in `finish`.
            let task = start(&service, &probe, Arc::clone(&sent));
            state.under_way.insert(service, ProbeTask { probe, sent, task });
        }
    }

    /// Waits until another request is due.
    pub(super) async fn next_due(&self) {
        self.wake.notified().await;
    }
}
