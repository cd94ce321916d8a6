//! The loop that deletes events an hour after they were last seen.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::state::State;

/// The table of events.
const EVENTS: &str = "events";
/// How long an event lives after it was last seen, in seconds, as in kube-apiserver.
const EVENT_TTL_SECONDS: i64 = 3600;
/// The interval between searches for expired events.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(1);

/// Runs until `shutdown`.
pub(super) async fn run(state: &Arc<State>, shutdown: &CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(EXPIRY_INTERVAL)).await.is_some() {
        let now = Timestamp::now().as_second();
        for (key, stored) in state.store.list(EVENTS, None).objects {
            if now - last_seen(&stored.value) > EVENT_TTL_SECONDS {
                // an event that was updated in the meantime has not expired, and this deletion fails
                let _ = state.store.delete(EVENTS, key, stored.revision);
            }
        }
    }
}

/// Returns the latest of an event's times, in seconds since 1970.
fn last_seen(event: &Value) -> i64 {
    [
        &event["metadata"]["creationTimestamp"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["series"]["lastObservedTime"],
    ]
    .into_iter()
    .filter_map(|time| time.as_str()?.parse::<Timestamp>().ok())
    .map(Timestamp::as_second)
    .max()
    .unwrap_or(0)
}
