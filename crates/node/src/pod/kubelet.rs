//! The kubelet: runs one worker for each pod of this node.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use super::deletion;
use super::shared::Shared;
use super::worker::{self, View};
use crate::cache::{Cache, Change};

/// Runs the pods of this node until the node shuts down and the last pod has ended.
pub(crate) async fn run(shared: Arc<Shared>, pods: Cache<Pod>) {
    let mut changes = std::pin::pin!(pods.changes());
    let mut shutdown = shared.shutdown.clone();
    let mut workers = Workers::default();
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(Change::Applied(pod)) => admit(&shared, &mut workers, pod),
                Some(Change::Deleted(pod)) => workers.remove(pod.metadata.uid.as_deref().unwrap_or_default()),
                Some(Change::Resync) => {
                    let all = pods.all();
                    let gone: Vec<_> = workers
                        .views
                        .keys()
                        .filter(|uid| !all.iter().any(|pod| pod.metadata.uid.as_ref() == Some(uid)))
                        .cloned()
                        .collect();
                    for uid in gone {
                        workers.remove(&uid);
                    }
                    for pod in all {
                        admit(&shared, &mut workers, pod);
                    }
                }
                None => break,
            },
            Some(ended) = workers.tasks.join_next_with_id() => if let Some((uid, view)) = workers.ended(ended) {
                let shared = Arc::clone(&shared);
                workers.spawn(uid, async move { deletion::fail(&shared, view).await });
            },
            _ = shutdown.wait_for(Option::is_some) => break,
        }
    }
    // Workers observe the shutdown themselves; this waits for the last process.
    while workers.tasks.join_next().await.is_some() {}
}

fn admit(shared: &Arc<Shared>, workers: &mut Workers, pod: Arc<Pod>) {
    if pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) != Some(&shared.node_name) {
        return;
    }
    let Some(uid) = pod.metadata.uid.clone() else { return };
    if let Some(view) = workers.show(&uid, View { pod, gone: false }) {
        workers.spawn(uid, worker::run(Arc::clone(shared), view));
    }
}

/// The workers of the pods, by uid.
#[derive(Default)]
struct Workers {
    views: HashMap<String, watch::Sender<View>>,
    tasks: JoinSet<()>,
    uids: HashMap<Id, String>,
}

impl Workers {
    /// Shows a pod to its worker. Returns what a new worker sees if the pod has none.
    fn show(&mut self, uid: &str, view: View) -> Option<watch::Receiver<View>> {
        let Some(sender) = self.views.get(uid) else {
            let (sender, receiver) = watch::channel(view);
            self.views.insert(uid.to_owned(), sender);
            return Some(receiver);
        };
        sender.send_if_modified(|current| {
            // A resync repeats what is known, and no worker need wake up for that.
            let newer = current.pod.metadata.resource_version != view.pod.metadata.resource_version;
            *current = view;
            newer
        });
        None
    }

    fn spawn(&mut self, uid: String, work: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(work).id();
        self.uids.insert(id, uid);
    }

    /// Called when a worker has ended. If it failed, returns its pod, whose object nobody else completes. Only now, or with the
    /// next end, the pod may get another worker: as long as one runs, changes go to it.
    fn ended(&mut self, result: Result<(Id, ()), JoinError>) -> Option<(String, watch::Receiver<View>)> {
        let (id, failure) = match result {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error)),
        };
        let uid = self.uids.remove(&id)?;
        let Some(error) = failure else {
            self.views.remove(&uid);
            return None;
        };
        let view = self.views.get(&uid)?.subscribe();
        let pod = Arc::clone(&view.borrow().pod);
        tracing::error!(
            %error,
            namespace = pod.namespace().unwrap_or_default(),
            pod = pod.name_any(),
            "The worker of a pod failed."
        );
        Some((uid, view))
    }

    fn remove(&self, uid: &str) {
        if let Some(sender) = self.views.get(uid) {
            sender.send_modify(|view| view.gone = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_pod_of_a_worker_that_failed_is_known_and_gets_no_second_worker_meanwhile() {
        let mut workers = Workers::default();
        let view = || View { pod: Arc::default(), gone: false };
        for uid in ["fails", "ends"] {
            assert!(workers.show(uid, view()).is_some());
            workers.spawn(uid.to_owned(), async move { assert_eq!(uid, "ends") });
        }
        let mut failed = Vec::new();
        while let Some(ended) = workers.tasks.join_next_with_id().await {
            failed.extend(workers.ended(ended).map(|(uid, _)| uid));
        }
        assert_eq!(failed, ["fails"]);
        assert!(workers.show("fails", view()).is_none(), "changes go to what completes the pod");
        assert!(workers.show("ends", view()).is_some());
    }
}
