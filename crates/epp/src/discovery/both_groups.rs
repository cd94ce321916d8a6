//! Objects that refer to a pool and whose kind exists in two API groups, a former one and the present one.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use longboat_api::groups;
use longboat_key::Namespace;
use longboat_watch::{Events, Selection, Watched, text_of_watch};
use tokio_util::sync::CancellationToken;

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
    let [mut first, mut second] = groups::PICKER.map(|group| events(&client, &scope.namespace, group, kind));
    let mut found = [Watched::default(), Watched::default()];
    let read = |object: DynamicObject| belongs_to_pool(&object, &scope.pool).then(|| read(&object)).flatten();
    loop {
        let differs = tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = first.next() => found[0].apply(event, read),
            Some(event) = second.next() => found[1].apply(event, read),
        };
        match differs {
            Ok(false) => {}
            Ok(true) => {
                // The present group comes last, so of two objects with the same name its own stays.
                let all = found.iter().flat_map(|group| &group.now);
                changed(all.map(|(key, value)| (key.name.to_string(), value.clone())).collect());
            }
            // Most clusters have only one of the groups, and give the picker no rights for the other one.
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), "Cannot watch the objects of the pool.");
            }
        }
    }
}

fn events(client: &Client, namespace: &str, group: &str, kind: &str) -> Events<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, VERSION, kind);
    let all = Selection::of_resource(ApiResource::from_gvk(&kind));
    longboat_watch::decoded(client, &all.within(Some(Namespace(namespace))))
}

fn belongs_to_pool(object: &DynamicObject, pool: &str) -> bool {
    object.data.pointer("/spec/poolRef/name").and_then(serde_json::Value::as_str) == Some(pool)
}
