//! The resources that the server serves: the table of built-in kinds, and custom resources that come at run time.

pub mod builtin;
pub mod custom;
pub mod registry;
mod scale;
pub mod views;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::interface::{Plain, Strategy};
pub use custom::{Column, Custom};
pub use registry::{Convert, Registry};
pub use scale::ScalePaths;

/// One served version of one resource.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// `v1`, `v1alpha2`, …
    pub version: String,
    /// Lower-case plural, the path segment.
    pub plural: String,
    /// Lower-case singular.
    pub singular: String,
    /// Object kind.
    pub kind: String,
    /// List kind, usually `<Kind>List`.
    pub list_kind: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs of the main resource, sorted.
    pub verbs: Vec<String>,
    /// Name of the store table, which all versions and views of the same objects share.
    pub table: Arc<str>,
    /// Where the definition comes from.
    pub origin: Origin,
}

/// The object or resource that an error names in its `details`.
#[derive(Debug, Clone, Copy)]
pub struct StatusDetails<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural resource name (or the kind, for validation).
    pub kind: &'a str,
    /// Object name, may be empty.
    pub name: &'a str,
}

/// The origin of a resource's definition, with the data that only this origin has.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A row of [`builtin::TABLE`].
    BuiltIn(&'static builtin::BuiltIn),
    /// A served version of a CustomResourceDefinition.
    Custom(Arc<Custom>),
}

// === impl StatusDetails ===

impl StatusDetails<'_> {
    /// The `details` of a Status about the object.
    pub fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, value) in [("name", self.name), ("group", self.group), ("kind", self.kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), Value::from(value));
            }
        }
        details
    }

    /// The kind as messages name it: `Deployment.apps`, or `Pod` for core.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.to_owned() } else { format!("{}.{}", self.kind, self.group) }
    }
}

// === impl Resource ===

impl Resource {
    /// `v1` or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name that messages use: `widgets.example.test`, or `pods` for core.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Names an object in errors about the object (the plural in `details.kind`).
    pub fn about<'a>(&'a self, name: &'a str) -> StatusDetails<'a> {
        StatusDetails { group: &self.group, kind: &self.plural, name }
    }

    /// Names an object in errors about its content (the kind in `details.kind`).
    ///
    /// Events of both groups are validated as core events, so the errors name the core group.
    pub fn about_kind<'a>(&'a self, name: &'a str) -> StatusDetails<'a> {
        let core = self.group == "events.k8s.io";
        StatusDetails { group: if core { "" } else { &self.group }, kind: &self.kind, name }
    }

    /// Returns the definition if this is a custom resource.
    pub fn custom(&self) -> Option<&Arc<Custom>> {
        match &self.origin {
            Origin::Custom(custom) => Some(custom),
            Origin::BuiltIn(_) => None,
        }
    }

    /// Returns the row of the table if this is a built-in kind.
    pub fn built_in(&self) -> Option<&'static builtin::BuiltIn> {
        match &self.origin {
            Origin::BuiltIn(row) => Some(row),
            Origin::Custom(_) => None,
        }
    }

    /// Returns what the server does with the objects beyond what it does with all objects.
    pub fn strategy(&self) -> &'static dyn Strategy {
        self.built_in().map_or(&Plain, |row| row.strategy)
    }

    /// Whether `PUT …/status` exists.
    pub fn has_status(&self) -> bool {
        match &self.origin {
            Origin::BuiltIn(row) => row.subresources.contains(&"status"),
            Origin::Custom(custom) => custom.status,
        }
    }

    /// Whether `…/scale` exists.
    pub fn has_scale(&self) -> bool {
        match &self.origin {
            Origin::BuiltIn(row) => row.subresources.contains(&"scale"),
            Origin::Custom(custom) => custom.scale.is_some(),
        }
    }
}
