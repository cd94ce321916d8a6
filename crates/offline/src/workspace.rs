//! What manifests hold, sorted by what it is to us.

use longboat_api::{
    conversion::{self, Version},
    v1alpha2::GROUP,
};
use longboat_manifest::Document;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::OfflineError;

/// Namespace of objects that name none, as with kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// What manifests hold.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// LLMInferenceServices, in the order of the files.
    pub services: Vec<Member>,
    /// LLMInferenceServiceConfigs, in the order of the files.
    pub configs: Vec<Member>,
    /// ConfigMaps: settings of the platform, and configs of schedulers.
    pub config_maps: Vec<Document>,
    /// Everything else.
    pub others: Vec<Document>,
}

/// An object of one of our kinds.
#[derive(Debug, Clone)]
pub struct Member {
    /// As it was written, with the places of its fields.
    pub document: Document,
    /// In the storage version, in a namespace. Neither defaults nor schema were applied.
    pub object: Value,
}

// === impl Workspace ===

impl Workspace {
    /// Sorts documents. Nothing is judged: what is broken shows when it is used.
    pub fn of(documents: Vec<Document>) -> Self {
        let mut workspace = Self::default();
        for document in documents {
            let (group, _) = document.api_version().split_once('/').unwrap_or(("", document.api_version()));
            let list = match (group, document.kind()) {
                (GROUP, "LLMInferenceService") => &mut workspace.services,
                (GROUP, "LLMInferenceServiceConfig") => &mut workspace.configs,
                ("", "ConfigMap") => {
                    workspace.config_maps.push(document);
                    continue;
                }
                _ => {
                    workspace.others.push(document);
                    continue;
                }
            };
            list.push(Member::of(document));
        }
        workspace
    }
}

// === impl Member ===

impl Member {
    /// Takes over one document of our kinds.
    pub(crate) fn of(document: Document) -> Self {
        let mut object = document.object.clone();
        if document.namespace().is_empty() && object["metadata"].is_object() {
            object["metadata"]["namespace"] = Value::from(DEFAULT_NAMESPACE);
        }
        if Version::of_object(&object).is_ok_and(|version| version == Version::V1Alpha1) {
            let mut converted = object.clone();
            // What cannot be converted stays as it is, and is refused where it is read.
            if conversion::convert(&mut converted, Version::V1Alpha2).is_ok() {
                object = converted;
            }
        }
        Self { document, object }
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.document.name()
    }

    /// The object's namespace, `default` where it names none.
    pub fn namespace(&self) -> &str {
        namespace_of(&self.document)
    }

    /// The typed object.
    ///
    /// # Errors
    /// [`OfflineError::Unreadable`] with the place of the object.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, OfflineError> {
        serde_json::from_value(self.object.clone()).map_err(|error| OfflineError::Unreadable {
            place: self.document.place(""),
            object: format!("{} {}/{}", self.document.kind(), self.namespace(), self.name()),
            message: error.to_string(),
        })
    }
}

/// The namespace of a namespaced object.
pub(crate) fn namespace_of(document: &Document) -> &str {
    match document.namespace() {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    }
}
