//! Objects that refer to a pool and whose kind exists in two API groups, a former one and the present one.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::{
    Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event},
};
use longboat_key::Namespace;
use longboat_watch::{Events, Selection, text_of_watch};
use tokio_util::sync::CancellationToken;

/// The API groups. An object of the last one wins.
const GROUPS: [&str; 2] = ["inference.networking.x-k8s.io", "llm-d.ai"];
const VERSION: &str = "v1alpha2";

/// The pool whose objects are followed.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) namespace: String,
    pub(crate) pool: String,
}

/// Follows a kind until shutdown. `read` extracts the wanted value from an object that refers to the pool, if it has one.
/// `changed` receives all values by object name whenever they may have changed.
pub(crate) async fn follow<T: Clone>(
    client: Client,
    scope: Scope,
    kind: &str,
    read: impl Fn(&DynamicObject) -> Option<T>,
    changed: impl Fn(BTreeMap<String, T>),
    shutdown: CancellationToken,
) {
    let [mut first, mut second] = GROUPS.map(|group| events(&client, &scope.namespace, group, kind));
    let mut found = [GroupObjects::default(), GroupObjects::default()];
    let read = |object: &DynamicObject| is_about(object, &scope.pool).then(|| read(object)).flatten();
    loop {
        let differs = tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = first.next() => found[0].note(event, &read),
            Some(event) = second.next() => found[1].note(event, &read),
        };
        if differs {
            changed(found.iter().flat_map(|found| found.known.clone()).collect());
        }
    }
}

fn events(client: &Client, namespace: &str, group: &str, kind: &str) -> Events<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, VERSION, kind);
    let all = Selection::of_resource(ApiResource::from_gvk(&kind));
    longboat_watch::decoded(client, &all.within(Some(Namespace(namespace))))
}

fn is_about(object: &DynamicObject, pool: &str) -> bool {
    object.data.pointer("/spec/poolRef/name").and_then(serde_json::Value::as_str) == Some(pool)
}

/// The objects of one group.
#[derive(Debug)]
struct GroupObjects<T> {
    known: BTreeMap<String, T>,
    /// The objects of a list that is not complete yet.
    listing: BTreeMap<String, T>,
}

impl<T> Default for GroupObjects<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: BTreeMap::new() }
    }
}

impl<T> GroupObjects<T> {
    /// Applies a watch event. Returns whether the objects may have changed.
    fn note(
        &mut self,
        event: watcher::Result<Event<DynamicObject>>,
        read: &impl Fn(&DynamicObject) -> Option<T>,
    ) -> bool {
        match event {
            Ok(Event::Init) => self.listing.clear(),
            Ok(Event::InitApply(object)) => {
                self.listing.extend(read(&object).map(|value| (object.name_any(), value)));
            }
            Ok(Event::InitDone) => {
                self.known = std::mem::take(&mut self.listing);
                return true;
            }
            Ok(Event::Apply(object)) => {
                match read(&object) {
                    Some(value) => self.known.insert(object.name_any(), value),
                    None => self.known.remove(&object.name_any()),
                };
                return true;
            }
            Ok(Event::Delete(object)) => return self.known.remove(&object.name_any()).is_some(),
            // Most clusters have only one of the groups, and give the picker no rights for the other one.
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), "Cannot watch the objects of the pool.");
            }
        }
        false
    }
}
