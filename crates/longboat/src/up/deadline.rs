//! The timeout of `up`, counted from the start or from the last progress of a download.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use longboat_download::PROGRESS_CONDITION;
use tokio::time::Instant;

use crate::tree::TreeObjects;

/// The deadline for services that are not ready.
#[derive(Debug)]
pub(super) struct Deadline {
    patience: Duration,
    at: Instant,
    /// The progress messages of downloads in pods.
    messages: Vec<String>,
}

// === impl Deadline ===

impl Deadline {
    pub(super) fn after(patience: Duration) -> Self {
        Self { patience, at: Instant::now() + patience, messages: Vec::new() }
    }

    /// Restarts the timeout if a download has made progress. A stalled download repeats the same message.
    pub(super) fn observe(&mut self, seen: &TreeObjects) {
        let messages: Vec<String> = seen.pods.iter().filter_map(|pod| progress(pod)).collect();
        if messages != self.messages {
            self.at = Instant::now() + self.patience;
            self.messages = messages;
        }
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Returns the message after the deadline.
    pub(super) fn missed(&self) -> String {
        let seconds = self.patience.as_secs();
        if self.messages.is_empty() {
            return format!("did not become ready within {seconds} s");
        }
        format!("did not become ready, and its download made no progress for {seconds} s")
    }
}

/// Returns the progress of a pod's download while it runs.
fn progress(pod: &Pod) -> Option<String> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == PROGRESS_CONDITION)?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    Some(format!("{name}: {}", found.message.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn seen(messages: Option<&str>) -> TreeObjects {
        let messages =
            messages.map(|text| json!([{"type": PROGRESS_CONDITION, "status": "False", "message": text}]));
        let pod = json!({"metadata": {"name": "p"}, "status": {"conditions": messages}});
        TreeObjects { pods: vec![Arc::new(serde_json::from_value(pod).unwrap())], ..TreeObjects::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_starts_the_time_anew_and_a_stall_does_not() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut deadline = Deadline::after(10 * second);
        for (after, messages, ends) in [
            (1, None, 10),
            (7, Some("downloading 1/9 GB"), 18),
            (8, Some("downloading 2/9 GB"), 26),
            (9, Some("downloading 2/9 GB"), 26),
        ] {
            tokio::time::advance(after * second).await;
            deadline.observe(&seen(messages));
            assert_eq!(deadline.at() - start, ends * second, "{messages:?}");
        }
        assert!(deadline.missed().contains("made no progress for 10 s"));
        // After the download, the timeout starts again.
        deadline.observe(&seen(None));
        assert_eq!(deadline.at(), Instant::now() + 10 * second);
        assert_eq!(deadline.missed(), "did not become ready within 10 s");
    }
}
