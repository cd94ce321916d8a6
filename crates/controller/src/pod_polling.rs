//! Asks the pods of services for reports, from time to time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use longboat_key::Key;
use tokio::time::{MissedTickBehavior, interval};

use crate::{context::Context, pod_reports::PodReports};

/// The time between two reports, and so between two status writes because of them.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The number of pods that are asked concurrently.
pub(crate) const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Collects reports until this future is dropped, and enqueues the services of which something changed.
pub(crate) async fn poll<T: Clone + PartialEq, F: Future<Output = HashMap<Key, T>>>(
    context: Arc<Context>,
    reports: fn(&Context) -> &PodReports<T>,
    collect: fn(Arc<Context>) -> F,
) {
    let mut ticks = interval(POLL_INTERVAL);
    // After a slow round, the pods must not be asked several times in a row.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let found = collect(context.clone()).await;
        for service in reports(&context).replace(found) {
            if context.caches.inference_services.get(&service).is_some() {
                context.services.add(service);
            }
        }
    }
}
