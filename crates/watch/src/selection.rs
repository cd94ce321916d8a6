//! Selects the objects to watch or list.

use kube::{
    Api, Client, Resource,
    api::{ApiResource, ListParams},
    core::DynamicResourceScope,
    runtime::watcher,
};
use longboat_key::Namespace;
use serde::de::DeserializeOwned;

use crate::ReceivedObject;

/// The number of objects per page of a list. At startup, a program lists all its kinds at the same time, and their pages
/// cause its peak memory usage.
const PAGE_SIZE: u32 = 100;

/// The objects of one kind: all of them, or those of a namespace, or those that match selectors.
#[derive(Clone, Debug)]
pub struct Selection {
    resource: ApiResource,
    namespace: Option<Namespace>,
    labels: Option<String>,
    fields: Option<String>,
    metadata_only: bool,
}

// === impl Selection ===

impl Selection {
    /// All objects of a kind.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self::of_resource(ApiResource::erase::<K>(&()))
    }

    /// All objects of a kind that has no Rust type here.
    pub fn of_resource(resource: ApiResource) -> Self {
        Self { resource, namespace: None, labels: None, fields: None, metadata_only: false }
    }

    /// Selects the objects of this namespace; `None` selects all namespaces.
    #[must_use]
    pub fn within(self, namespace: Option<Namespace<&str>>) -> Self {
        Self { namespace: namespace.map(Namespace::to_shared), ..self }
    }

    /// Selects the objects that match this label selector.
    #[must_use]
    pub fn labelled(self, selector: impl Into<String>) -> Self {
        Self { labels: Some(selector.into()), ..self }
    }

    /// Selects the objects that match this field selector.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self { fields: Some(selector.into()), ..self }
    }

    /// Requests only the metadata from the API server.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { metadata_only: true, ..self }
    }

    /// Requests for these objects. Selectors do not apply to them.
    pub fn objects(&self, client: &Client) -> Api<ReceivedObject> {
        self.api(client)
    }

    /// The kind, as in manifests.
    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub(crate) fn is_metadata_only(&self) -> bool {
        self.metadata_only
    }

    pub(crate) fn api<R>(&self, client: &Client) -> Api<R>
    where
        R: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope> + DeserializeOwned,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    pub(crate) fn config(&self) -> watcher::Config {
        watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..watcher::Config::default().page_size(PAGE_SIZE)
        }
    }

    pub(crate) fn restrict(&self, params: ListParams) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: params.limit.or(Some(PAGE_SIZE)),
            ..params
        }
    }
}
