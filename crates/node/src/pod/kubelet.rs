//! The kubelet: runs one worker for each pod of this node.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::shared::Shared;
use super::worker::{self, View};
use crate::cache::{Cache, Change};

/// Runs the pods of this node until the node shuts down and the last pod has ended.
pub(crate) async fn run(shared: Arc<Shared>, pods: Cache<Pod>) {
    let mut changes = std::pin::pin!(pods.changes());
    let mut shutdown = shared.shutdown.clone();
    let mut views: HashMap<String, watch::Sender<View>> = HashMap::new();
    let mut workers: JoinSet<String> = JoinSet::new();
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(Change::Applied(pod)) => admit(&shared, &mut views, &mut workers, pod),
                Some(Change::Deleted(pod)) => remove_view(&mut views, pod.metadata.uid.as_deref().unwrap_or_default()),
                Some(Change::Resync) => {
                    let all = pods.all();
                    let gone: Vec<_> = views
                        .keys()
                        .filter(|uid| !all.iter().any(|pod| pod.metadata.uid.as_ref() == Some(uid)))
                        .cloned()
                        .collect();
                    for uid in gone {
                        remove_view(&mut views, &uid);
                    }
                    for pod in all {
                        admit(&shared, &mut views, &mut workers, pod);
                    }
                }
                None => break,
            },
            Some(ended) = workers.join_next() => match ended {
                Ok(uid) => {
                    // Only now: as long as it runs, changes of the pod go to this worker and start no second one.
                    views.remove(&uid);
                }
                Err(error) => tracing::error!(%error, "A pod worker failed."),
            },
            _ = shutdown.wait_for(Option::is_some) => break,
        }
    }
    // Workers observe the shutdown themselves; this waits for the last process.
    while workers.join_next().await.is_some() {}
}

fn admit(
    shared: &Arc<Shared>,
    views: &mut HashMap<String, watch::Sender<View>>,
    workers: &mut JoinSet<String>,
    pod: Arc<Pod>,
) {
    if pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) != Some(&shared.node_name) {
        return;
    }
    let Some(uid) = pod.metadata.uid.clone() else { return };
    let view = View { pod, gone: false };
    if let Some(sender) = views.get(&uid) {
        sender.send_if_modified(|current| {
            // A resync repeats what is known, and no worker need wake up for that.
            let newer = current.pod.metadata.resource_version != view.pod.metadata.resource_version;
            *current = view;
            newer
        });
    } else {
        let (sender, receiver) = watch::channel(view);
        views.insert(uid.clone(), sender);
        let shared = Arc::clone(shared);
        workers.spawn(async move {
            worker::run(shared, receiver).await;
            uid
        });
    }
}

fn remove_view(views: &mut HashMap<String, watch::Sender<View>>, uid: &str) {
    if let Some(sender) = views.get(uid) {
        sender.send_modify(|view| view.gone = true);
    }
}
