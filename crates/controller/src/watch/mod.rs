//! Watches: store objects of the API server in the caches, and enqueue the services that depend on a change.

pub(crate) mod kinds;
pub(crate) mod pod;

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{api::ListParams, runtime::watcher::Event};
use longboat_api::labels;
use longboat_key::{Key, Namespace};
use longboat_watch::{ReceivedObject, Selection, text_of_watch, watch_has_code};
use tokio_util::sync::CancellationToken;

use self::kinds::WatchedKind;
use crate::{
    announce::{announce, announce_unreadable},
    args::Args,
    context::Context,
};

/// The namespaces in which a kind is watched; `None` is the whole cluster. A controller that is limited to namespaces does
/// not watch cluster-scoped kinds.
pub(crate) fn scopes<K: WatchedKind>(args: &Args) -> Vec<Option<Namespace>> {
    if args.namespaces.is_empty() {
        if K::OF_SECRETS && !args.secret_namespaces.is_empty() {
            return args.secret_namespaces.iter().cloned().map(Some).collect();
        }
        return vec![None];
    }
    let mut all: BTreeSet<&Namespace> =
        if K::OF_CLUSTER { BTreeSet::new() } else { args.namespaces.iter().collect() };
    if K::OF_PLATFORM {
        all.insert(&args.system_namespace);
    }
    all.into_iter().cloned().map(Some).collect()
}

/// Selects the objects of a kind that are watched.
fn selection<K: WatchedKind>(namespace: Option<Namespace<&str>>) -> Selection {
    let all = every::<K>(namespace);
    if let Some(selector) = K::SELECTOR {
        return all.labelled(selector);
    }
    let operator = match (K::LABELLED, K::METADATA_ONLY) {
        (true, _) => "=",
        (false, true) => "!=",
        (false, false) => return all,
    };
    all.labelled(format!("{}{operator}{}", labels::PART_OF, labels::PART_OF_VALUE))
}

fn every<K: WatchedKind>(namespace: Option<Namespace<&str>>) -> Selection {
    let all = Selection::of::<K>().within(namespace);
    if K::METADATA_ONLY { all.metadata_only() } else { all }
}

/// The functions that handle the objects of one kind. Watching and listing is the same code for all kinds.
#[derive(Clone, Copy)]
struct Sink {
    kind: fn() -> String,
    /// Whether it is a service or a config. The controller cannot work without them.
    is_own: bool,
    store: fn(&Context, &ReceivedObject) -> Key,
    remove: fn(&Context, &ObjectMeta),
    forget_others: fn(&Context, Option<Namespace<&str>>, &BTreeSet<Key>),
}

/// The result of the first list of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstList {
    /// The cache is filled.
    Complete,
    /// The API server does not serve the kind. The watch is retried.
    Unserved,
    /// The API server denies access. The watch is retried.
    Forbidden,
}

/// Watches a kind until cancelled. Calls `first` with the result of the first list, and again when a kind that was
/// unavailable becomes available.
pub(crate) async fn watch<K: WatchedKind>(
    context: Arc<Context>,
    namespace: Option<Namespace>,
    cancel: CancellationToken,
    first: impl Fn(FirstList) + Send + 'static,
) {
    let selection = selection::<K>(namespace.as_ref().map(Namespace::as_deref));
    follow(context, Sink::of::<K>(), selection, namespace, cancel, Box::new(first)).await;
}

async fn follow(
    context: Arc<Context>,
    sink: Sink,
    selection: Selection,
    namespace: Option<Namespace>,
    cancel: CancellationToken,
    first: Box<dyn Fn(FirstList) + Send>,
) {
    let mut events = longboat_watch::events(&context.client, &selection);
    let mut present: BTreeSet<Key> = BTreeSet::new();
    let mut state = None;
    while let Some(Some(event)) = cancel.run_until_cancelled(events.next()).await {
        match event {
            // A list that broke off is begun anew.
            Ok(Event::Init) => present.clear(),
            Ok(Event::InitApply(object)) => {
                present.insert((sink.store)(&context, &object));
            }
            Ok(Event::InitDone) => {
                (sink.forget_others)(
                    &context,
                    namespace.as_ref().map(Namespace::as_deref),
                    &std::mem::take(&mut present),
                );
                // Further lists follow when the API server no longer has the revision of the watch.
                if state != Some(FirstList::Complete) {
                    state = Some(FirstList::Complete);
                    first(FirstList::Complete);
                }
            }
            Ok(Event::Apply(object)) => {
                (sink.store)(&context, &object);
            }
            Ok(Event::Delete(object)) => (sink.remove)(&context, &object.metadata),
            Err(error) => {
                let is_forbidden = watch_has_code(&error, 403);
                if state.is_none() && is_forbidden && sink.is_own {
                    // Without its services, a config would look unused.
                    tracing::warn!(
                        kind = (sink.kind)(), namespace = namespace.as_deref(), error = %text_of_watch(&error),
                        "No right to list and watch objects of this kind; nothing is reconciled before."
                    );
                    continue;
                }
                if state.is_none() && is_forbidden {
                    tracing::warn!(
                        kind = (sink.kind)(), namespace = namespace.as_deref(), error = %text_of_watch(&error),
                        "No right to list and watch objects of this kind; they are treated as absent."
                    );
                } else {
                    tracing::debug!(kind = (sink.kind)(), error = %text_of_watch(&error), "The watch is interrupted.");
                }
                // 404 if the CRD is there, but the API server does not serve the kind yet.
                let is_unserved = watch_has_code(&error, 404);
                if state.is_none() && (is_forbidden || is_unserved) {
                    let found = if is_forbidden { FirstList::Forbidden } else { FirstList::Unserved };
                    state = Some(found);
                    first(found);
                }
            }
        }
    }
}

/// Stores an object, whether or not it can be decoded, and announces the change. Returns its key.
fn store<K: WatchedKind>(context: &Context, object: &ReceivedObject) -> Key {
    let key = Key::of_metadata(&object.metadata);
    let cache = K::cache(&context.caches);
    // Most events repeat the response to our own write, which need not be decoded again.
    if cache.knows(&object.metadata) {
        return key;
    }
    let mut read: K = match metadata_only(object).map_or_else(|| object.read(), Ok) {
        Ok(read) => read,
        Err(error) => {
            tracing::warn!(kind = %K::kind(&()), object = %key, %error, "Cannot read an object.");
            if cache.set_unreadable(&object.metadata, error.to_string()) {
                announce_unreadable::<K>(context, &key, &object.read_metadata().unwrap_or_default());
            }
            return key;
        }
    };
    let change = if read.slim() { cache.set(&read) } else { cache.set_read(&read, object.text()) };
    if let Some(change) = change {
        announce(context, &change);
    }
    key
}

/// Removes a deleted object from the cache.
fn remove<K: WatchedKind>(context: &Context, metadata: &ObjectMeta) {
    if let Some(change) = K::cache(&context.caches).remove(metadata) {
        announce(context, &change);
    }
}

/// Returns the object with metadata only, if that is enough to store it.
fn metadata_only<K: WatchedKind>(object: &ReceivedObject) -> Option<K> {
    let make = K::FROM_METADATA?;
    Some(make(object.read_metadata().ok()?)).filter(K::is_compressed)
}

/// Removes objects from the cache that no longer exist.
pub(crate) fn forget_others<K: WatchedKind>(
    context: &Context,
    namespace: Option<Namespace<&str>>,
    present: &BTreeSet<Key>,
) {
    for change in &K::cache(&context.caches).retain(namespace, present) {
        announce(context, change);
    }
}

/// Fills the cache of a kind once, without watching it.
pub(crate) async fn list<K: WatchedKind>(
    context: &Context,
    namespace: Option<Namespace<&str>>,
) -> Result<(), kube::Error> {
    fill(context, Sink::of::<K>(), selection::<K>(namespace), namespace).await
}

/// Like [`list`], with all objects of the kind, including those that are not watched.
pub(crate) async fn list_every<K: WatchedKind>(
    context: &Context,
    namespace: Option<Namespace<&str>>,
) -> Result<(), kube::Error> {
    fill(context, Sink::of::<K>(), every::<K>(namespace), namespace).await
}

async fn fill(
    context: &Context,
    sink: Sink,
    selection: Selection,
    namespace: Option<Namespace<&str>>,
) -> Result<(), kube::Error> {
    let mut params = ListParams::default();
    let mut present = BTreeSet::new();
    loop {
        let page = longboat_watch::page(&context.client, &selection, params).await?;
        present.extend(page.items.into_iter().map(|object| (sink.store)(context, &object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().continue_token(&token),
            None => break,
        }
    }
    (sink.forget_others)(context, namespace, &present);
    Ok(())
}

// === impl Sink ===

impl Sink {
    fn of<K: WatchedKind>() -> Self {
        Self {
            kind: || K::kind(&()).into_owned(),
            is_own: matches!(&*K::kind(&()), "LLMInferenceService" | "LLMInferenceServiceConfig"),
            store: store::<K>,
            remove: remove::<K>,
            forget_others: forget_others::<K>,
        }
    }
}

#[cfg(test)]
mod tests;
