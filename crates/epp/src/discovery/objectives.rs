//! Priorities from Kubernetes: the `InferenceObjective`s of the pool, in both groups that have them.

use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio_util::sync::CancellationToken;

use crate::core::Core;

/// The groups, the one that counts last.
const GROUPS: [&str; 2] = ["inference.networking.x-k8s.io", "llm-d.ai"];

type Events = Pin<Box<dyn Stream<Item = watcher::Result<Event<DynamicObject>>> + Send>>;

/// Follows the objectives of a pool until shutdown.
pub(crate) async fn follow(
    client: Client,
    namespace: String,
    pool: String,
    core: Arc<Core>,
    shutdown: CancellationToken,
) {
    let [mut first, mut second] = GROUPS.map(|group| events(&client, &namespace, group));
    let mut found = [Found::default(), Found::default()];
    loop {
        let changed = tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = first.next() => found[0].note(&pool, event),
            Some(event) = second.next() => found[1].note(&pool, event),
        };
        if changed {
            let all = found.iter().flat_map(|found| found.known.clone());
            core.admission.set_objectives(all.collect());
        }
    }
}

fn events(client: &Client, namespace: &str, group: &str) -> Events {
    let kind = GroupVersionKind::gvk(group, "v1alpha2", "InferenceObjective");
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    watcher(api, watcher::Config::default()).default_backoff().boxed()
}

/// The priorities of one group.
#[derive(Debug, Default)]
struct Found {
    known: BTreeMap<String, i32>,
    /// A list that is not complete.
    listing: BTreeMap<String, i32>,
}

impl Found {
    /// Notes what a watch says; whether the priorities may be others now.
    fn note(&mut self, pool: &str, event: watcher::Result<Event<DynamicObject>>) -> bool {
        match event {
            Ok(Event::Init) => self.listing.clear(),
            Ok(Event::InitApply(object)) => {
                self.listing.extend(priority(&object, pool).map(|priority| (object.name_any(), priority)));
            }
            Ok(Event::InitDone) => {
                self.known = std::mem::take(&mut self.listing);
                return true;
            }
            Ok(Event::Apply(object)) => {
                match priority(&object, pool) {
                    Some(priority) => self.known.insert(object.name_any(), priority),
                    None => self.known.remove(&object.name_any()),
                };
                return true;
            }
            Ok(Event::Delete(object)) => return self.known.remove(&object.name_any()).is_some(),
            // Most clusters have one group only, and give the picker rights for no other.
            Err(error) => tracing::debug!(%error, "Cannot watch InferenceObjectives."),
        }
        false
    }
}

/// The priority, where the objective is one of this pool.
fn priority(object: &DynamicObject, pool: &str) -> Option<i32> {
    let spec = object.data.get("spec")?;
    if spec.pointer("/poolRef/name")?.as_str()? != pool {
        return None;
    }
    let priority = spec.get("priority").and_then(serde_json::Value::as_i64).unwrap_or(0);
    i32::try_from(priority).ok()
}
