//! Sends proof requests, concurrently with reconciles.
//!
//! A reconcile only determines which request is due, and reads the outcome of an earlier one. The request runs in its own
//! task, with limits on time and size, and enqueues its service when it has ended. So an engine that hangs does not block a
//! reconcile.

mod ask;
pub(crate) mod requests;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use longboat_key::Key;
use longboat_plan::proof::{Probe, Verdict, judge};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::context::Context;

/// The most concurrent requests over all services.
const MAX_CONCURRENT_PROBES: usize = 8;

/// Sends due requests until this future is dropped, which ends all requests.
pub(crate) async fn run(context: Arc<Context>) {
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_PROBES));
    let mut tasks = JoinSet::new();
    loop {
        context.proofs.start_due(|service, probe, sent| {
            let permits = Arc::clone(&permits);
            tasks.spawn(send(context.clone(), permits, service.clone(), probe.clone(), sent))
        });
        tokio::select! {
            () = context.proofs.next_due() => {}
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
    let seen = ask::observe_probe(&probe).await;
    let outcome = judge(&probe, &seen);
    let transfer = outcome.transfer.as_ref().map(Verdict::reason);
    tracing::info!(
        %service, serving = outcome.serving.reason(), transfer,
        "Sent a test request through the gateway of the service."
    );
    if context.proofs.finish(&service, outcome) {
        context.services.add(service);
    }
}
