//! Watches: from the API server into the caches, and from there to the services that depend on a change.

mod kinds;

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use kube::{
    api::ListParams,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use longboat_api::labels;
use longboat_plan::Key;
use tokio_util::sync::CancellationToken;

use crate::{announce::announce, args::Args, context::Context, error::has_code, received::Received};

pub(crate) use kinds::{Capability, Rules, Served, Watched, labelled};

/// Objects per page of a list. All kinds are listed at the same time when the process starts, and their pages are the peak of its
/// memory.
const PAGE: u32 = 100;

/// Where a kind is watched: in the whole cluster (`None`), or in each of these namespaces. A controller that is confined to namespaces
/// does not watch cluster-scoped kinds.
pub(crate) fn scopes<K: Watched>(args: &Args) -> Vec<Option<String>> {
    if args.namespaces.is_empty() {
        if K::OF_SECRETS && !args.secret_namespaces.is_empty() {
            return args.secret_namespaces.iter().cloned().map(Some).collect();
        }
        return vec![None];
    }
    let mut all: BTreeSet<&String> =
        if K::OF_CLUSTER { BTreeSet::new() } else { args.namespaces.iter().collect() };
    if K::OF_PLATFORM {
        all.insert(&args.system_namespace);
    }
    all.into_iter().cloned().map(Some).collect()
}

/// Which objects of a kind are watched, where not all are.
fn selector<K: Watched>() -> Option<String> {
    let operator = match (K::LABELLED, K::METADATA_ONLY) {
        (true, _) => "=",
        (false, true) => "!=",
        (false, false) => return None,
    };
    Some(format!("{}{operator}{}", labels::PART_OF, labels::PART_OF_VALUE))
}

/// How the first list of a watch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstList {
    /// The cache is filled.
    Complete,
    /// The API server does not serve the kind, or denies access. The watch is retried.
    Unavailable,
}

/// Watches a kind until cancelled. Calls `first` with the result of the first list, and again when a kind that was unavailable becomes
/// available.
pub(crate) async fn watch<K: Watched>(
    context: Arc<Context>,
    namespace: Option<String>,
    cancel: CancellationToken,
    first: impl Fn(FirstList) + Send,
) {
    // An object that cannot be decoded must not end the watch for all others.
    let api = K::guarded_api(&context.client, namespace.as_deref());
    let mut config = watcher::Config::default().page_size(PAGE);
    if let Some(selector) = selector::<K>() {
        config = config.labels(&selector);
    }
    let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
    let mut present: BTreeSet<Key> = BTreeSet::new();
    let mut state = None;
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Ok(Event::Init)) => present.clear(),
            Some(Ok(Event::InitApply(object))) => present.extend(store(&context, &object)),
            Some(Ok(Event::InitDone)) => {
                forget_others::<K>(&context, namespace.as_deref(), &std::mem::take(&mut present));
                if state != Some(FirstList::Complete) {
                    state = Some(FirstList::Complete);
                    first(FirstList::Complete);
                }
            }
            Some(Ok(Event::Apply(object))) => {
                store(&context, &object);
            }
            Some(Ok(Event::Delete(object))) => {
                if let Some(change) = K::cache(&context.caches).remove(&object.metadata) {
                    announce(&context, &change);
                }
            }
            Some(Err(error)) => {
                if state.is_none() && is_forbidden(&error) {
                    tracing::warn!(
                        kind = %K::kind(&()), namespace = namespace.as_deref(), %error,
                        "No right to list and watch these: they count as absent until there is."
                    );
                } else {
                    tracing::debug!(kind = %K::kind(&()), %error, "The watch is interrupted.");
                }
                if state.is_none() && is_unavailable(&error) {
                    state = Some(FirstList::Unavailable);
                    first(FirstList::Unavailable);
                }
            }
        }
    }
}

fn is_unavailable(error: &watcher::Error) -> bool {
    is_forbidden(error) || refused_with(error, 404)
}

fn is_forbidden(error: &watcher::Error) -> bool {
    refused_with(error, 403)
}

fn refused_with(error: &watcher::Error, code: u16) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            has_code(error, code)
        }
        _ => false,
    }
}

/// Stores an object that exists and announces the change. Returns its key, unless it is a change that cannot be decoded.
fn store<K: Watched>(context: &Context, object: &Received<K>) -> Option<Key> {
    let key = Key::of_metadata(&object.metadata);
    let cache = K::cache(&context.caches);
    if cache.knows(&object.metadata) {
        return Some(key);
    }
    let mut read = match metadata_only(object).map_or_else(|| object.read(), Ok) {
        Ok(read) => read,
        Err(error) => {
            tracing::warn!(kind = %K::kind(&()), object = %key, %error, "An object cannot be read and is left out.");
            return None;
        }
    };
    let change = if read.slim() { cache.set(&read) } else { cache.set_read(&read, object.text()) };
    if let Some(change) = change {
        announce(context, &change);
    }
    Some(key)
}

/// The object with metadata only, if that is enough.
fn metadata_only<K: Watched>(object: &Received<K>) -> Option<K> {
    let make = K::FROM_METADATA?;
    Some(make(object.read_metadata().ok()?)).filter(K::is_packed)
}

/// Removes the objects that no longer exist from the cache.
pub(crate) fn forget_others<K: Watched>(context: &Context, namespace: Option<&str>, present: &BTreeSet<Key>) {
    for change in &K::cache(&context.caches).retain(namespace, present) {
        announce(context, change);
    }
}

/// Fills the cache of a kind once, without watching it.
pub(crate) async fn list<K: Watched>(context: &Context, namespace: Option<&str>) -> Result<(), kube::Error> {
    list_selected::<K>(context, namespace, selector::<K>().as_deref()).await
}

/// The same, by all objects that the selector leaves.
pub(crate) async fn list_selected<K: Watched>(
    context: &Context,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<(), kube::Error> {
    let api = K::guarded_api(&context.client, namespace);
    let mut params = ListParams::default().limit(PAGE);
    if let Some(selector) = selector {
        params = params.labels(selector);
    }
    let mut present = BTreeSet::new();
    loop {
        let page = api.list(&params).await?;
        present.extend(page.items.into_iter().filter_map(|object| store(context, &object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    forget_others::<K>(context, namespace, &present);
    Ok(())
}

#[cfg(test)]
mod tests;
