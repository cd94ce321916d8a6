//! Watches, lists and writes of objects of any kind.
//!
//! kube's watcher and client are generic over the kind, so a program that watches twenty kinds contains twenty copies of
//! them. Decoding an event in them also needs a second decoder for every type, because the type of an event precedes its
//! object only by convention. So this crate delivers objects of every kind as text, and the caller decodes those that it
//! needs: [`ReceivedObject`], [`Decode`].

mod connect;
mod decode;
mod error;
mod named;
pub mod pools;
mod received;
pub mod reviews;
mod selection;
mod watched;
mod write;

use futures::{StreamExt, future, stream::BoxStream};
use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{ListParams, ObjectList},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};

pub use connect::{client, with_read_timeout};
pub use decode::Decode;
pub use error::{has_code, is_temporary, text_of, text_of_watch, watch_has_code};
pub use named::named;
pub use received::{ReceivedObject, without_managed_fields};
pub use selection::Selection;
pub use watched::Watched;
pub use write::{create, replace};

use received::MetadataOnly;

/// The events of a watch. The stream never ends: after an error and a growing delay, it continues at the last revision. If the API server
/// does not have that revision any more, it restarts with a list.
pub type Events<K = ReceivedObject> = BoxStream<'static, watcher::Result<Event<K>>>;

/// Watches objects.
pub fn events(client: &Client, selection: &Selection) -> Events {
    let config = selection.config();
    if selection.is_metadata_only() {
        let api: Api<MetadataOnly> = selection.api(client);
        let events = watcher(api, config).default_backoff();
        return events.map(|event| event.map(without_mark)).boxed();
    }
    let api: Api<ReceivedObject> = selection.api(client);
    watcher(api, config).default_backoff().boxed()
}

/// Watches objects and decodes each. An object that cannot be decoded is logged and skipped.
pub fn decoded<K: Decode + Send + 'static>(client: &Client, selection: &Selection) -> Events<K> {
    read(client, selection, |object| K::decode(object.text()))
}

/// Watches objects of which only the metadata is requested. Their other fields have default values.
pub fn metadata<K>(client: &Client, selection: Selection) -> Events<K>
where
    K: Metadata<Ty = ObjectMeta> + Default + Send + 'static,
{
    read(client, &selection.metadata_only(), |object| {
        let mut known = K::default();
        *known.metadata_mut() = object.read_metadata()?;
        Ok(known)
    })
}

fn read<K: Send + 'static>(
    client: &Client,
    selection: &Selection,
    decoder: fn(&ReceivedObject) -> Result<K, serde_json::Error>,
) -> Events<K> {
    let kind = selection.kind().to_owned();
    let decode = move |event: watcher::Result<Event<ReceivedObject>>| {
        future::ready(event.map(|event| decode(event, &kind, decoder)).transpose())
    };
    events(client, selection).filter_map(decode).boxed()
}

/// Lists a page of objects.
///
/// # Errors
/// If the request fails.
pub async fn page(
    client: &Client,
    selection: &Selection,
    mut params: ListParams,
) -> Result<ObjectList<ReceivedObject>, kube::Error> {
    params = selection.restrict(params);
    if !selection.is_metadata_only() {
        return selection.api::<ReceivedObject>(client).list(&params).await;
    }
    let ObjectList { types, metadata, items } = selection.api::<MetadataOnly>(client).list(&params).await?;
    Ok(ObjectList { types, metadata, items: items.into_iter().map(|object| object.0).collect() })
}

fn without_mark(event: Event<MetadataOnly>) -> Event<ReceivedObject> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(object.0),
        Event::Apply(object) => Event::Apply(object.0),
        Event::Delete(object) => Event::Delete(object.0),
    }
}

fn decode<K>(
    event: Event<ReceivedObject>,
    kind: &str,
    decoder: fn(&ReceivedObject) -> Result<K, serde_json::Error>,
) -> Option<Event<K>> {
    let read = |object: ReceivedObject| match decoder(&object) {
        Ok(read) => Some(read),
        Err(error) => {
            let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
            let (namespace, name) = (namespace.as_deref(), name.as_deref());
            tracing::warn!(kind, namespace, name, %error, "Cannot read an object; ignoring it.");
            None
        }
    };
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(object)?),
        Event::Apply(object) => Event::Apply(read(object)?),
        Event::Delete(object) => Event::Delete(read(object)?),
    })
}
