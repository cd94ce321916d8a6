//! Which objects to watch or to list.

use kube::{
    Api, Client, Resource,
    api::{ApiResource, ListParams},
    core::DynamicResourceScope,
    runtime::watcher,
};
use serde::de::DeserializeOwned;

/// Objects per page of a list. A program lists all its kinds at the same time when it starts, and their pages are the peak of its memory.
const PAGE: u32 = 100;

/// The objects of one kind: all of them, or those of a namespace, or those that selectors leave.
#[derive(Clone, Debug)]
pub struct Selection {
    resource: ApiResource,
    namespace: Option<String>,
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

    /// All objects of a kind that only its name says.
    pub fn of_resource(resource: ApiResource) -> Self {
        Self { resource, namespace: None, labels: None, fields: None, metadata_only: false }
    }

    /// Only those of this namespace; of all namespaces for `None`.
    #[must_use]
    pub fn within(self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(Into::into), ..self }
    }

    /// Only those that this label selector leaves.
    #[must_use]
    pub fn labelled(self, selector: impl Into<String>) -> Self {
        Self { labels: Some(selector.into()), ..self }
    }

    /// Only those that this field selector leaves.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self { fields: Some(selector.into()), ..self }
    }

    /// Without anything but their metadata: the API server sends no more.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { metadata_only: true, ..self }
    }

    /// Its kind, as manifests write it.
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
            ..watcher::Config::default().page_size(PAGE)
        }
    }

    pub(crate) fn restrict(&self, params: ListParams) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: params.limit.or(Some(PAGE)),
            ..params
        }
    }
}
