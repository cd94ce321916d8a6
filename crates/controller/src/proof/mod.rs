//! Sends the requests that prove serving, beside reconciles.
//!
//! A reconcile only says which request is due and reads what an earlier one came to. The request itself runs in a task of its own, with
//! limits on time and size, and enqueues its service when it is over. So an engine that hangs holds no reconcile.

mod ask;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use longboat_plan::proof::{Outcome, Probe, Verdict, judge};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore},
    task::{AbortHandle, JoinSet},
};

use longboat_plan::Key;

use crate::context::Context;

/// Requests under way at the same time, over all services.
const AT_ONCE: usize = 8;

/// Requests that are due, that run, and that have ended. There is at most one for each service.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    due: HashMap<Key, Probe>,
    under_way: HashMap<Key, UnderWay>,
    /// Outcomes that no status shows yet.
    outcomes: HashMap<Key, Arc<Outcome>>,
}

/// A task that waits to send a request, or has sent it.
#[derive(Debug)]
struct UnderWay {
    probe: Probe,
    sent: Arc<AtomicBool>,
    task: AbortHandle,
}

// === impl Proofs ===

impl Proofs {
    /// What the last request of a service came to, unless its status shows it already.
    pub(crate) fn outcome(&self, service: &Key) -> Option<Arc<Outcome>> {
        self.state.lock().outcomes.get(service).cloned()
    }

    /// The status shows an outcome, and this request is due next, or none.
    pub(crate) fn published(&self, service: &Key, shown: Option<&Arc<Outcome>>, due: Option<Probe>) {
        let mut state = self.state.lock();
        if let Some(shown) = shown
            && state.outcomes.get(service).is_some_and(|known| Arc::ptr_eq(known, shown))
        {
            state.outcomes.remove(service);
        }
        // An outcome that came meanwhile is handled first: its service is enqueued.
        if state.outcomes.contains_key(service) {
            return;
        }
        if let Some(running) = state.under_way.get(service) {
            // A request that was sent is let finish: it has been paid for.
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

    /// Keeps an outcome until a status shows it. A service that was forgotten meanwhile has none.
    fn finish(&self, service: &Key, outcome: Outcome) -> bool {
        let mut state = self.state.lock();
        if state.under_way.get(service).is_none_or(|running| running.probe.id != outcome.id) {
            return false;
        }
        state.under_way.remove(service);
        state.outcomes.insert(service.clone(), Arc::new(outcome));
        true
    }
}

/// Sends what is due until dropped, which ends all requests.
pub(crate) async fn run(context: &Arc<Context>) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    loop {
        {
            let mut state = context.proofs.state.lock();
            let due: Vec<(Key, Probe)> = state.due.drain().collect();
            for (service, probe) in due {
                let sent = Arc::new(AtomicBool::new(false));
                let one =
                    send(context.clone(), permits.clone(), service.clone(), probe.clone(), sent.clone());
                let task = tasks.spawn(one);
                state.under_way.insert(service, UnderWay { probe, sent, task });
            }
        }
        tokio::select! {
            () = context.proofs.wake.notified() => {}
            Some(_) = tasks.join_next() => {}
        }
    }
}

async fn send(
    context: Arc<Context>,
    permits: Arc<Semaphore>,
    service: Key,
    probe: Probe,
    sent: Arc<AtomicBool>,
) {
    tokio::time::sleep(probe.delay).await;
    let Ok(_permit) = permits.acquire().await else { return };
    sent.store(true, Ordering::Release);
    let seen = ask::see(&probe).await;
    let outcome = judge(&probe, &seen);
    let transfer = outcome.transfer.as_ref().map(Verdict::reason);
    tracing::info!(
        %service, serving = outcome.serving.reason(), transfer,
        "A request was sent to prove that the service serves."
    );
    if context.proofs.finish(&service, outcome) {
        context.services.add(service);
    }
}
