//! Adds stored objects to a scene.

use std::sync::Arc;

use k8s_openapi::Resource as _;
use longboat_api::{
    defaulting,
    foreign::servingruntime::{ClusterServingRuntime, ServingRuntime},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::Layer;
use longboat_key::Key;
use longboat_plan::types::{self, Gateway, GatewayClass};
use serde::de::DeserializeOwned;

use super::{NO_UID, Scene, SceneError, Subject};
use crate::{finding::ObjectName, stored::StoredManifest};

impl Scene {
    pub(super) fn add(&mut self, stored: StoredManifest) -> Result<(), SceneError> {
        let key = || (stored.document.kind().to_owned(), stored.key());
        if stored.is_ours("LLMInferenceService") {
            let service = read(&stored)?;
            self.documents.insert(key(), stored.document);
            self.put(service);
            return Ok(());
        }
        if stored.is_ours("LLMInferenceServiceConfig") {
            let config: LLMInferenceServiceConfig = read(&stored)?;
            self.documents.insert(key(), stored.document);
            self.configs.insert(Layer::new(&config)?);
            return Ok(());
        }
        let runtime = match stored.document.kind() {
            _ if stored.document.api_version() != ServingRuntime::API_VERSION => None,
            "ServingRuntime" => {
                let runtime: ServingRuntime = read(&stored)?;
                Some(Layer::of_runtime(&runtime.metadata, &runtime.spec)?)
            }
            "ClusterServingRuntime" => {
                let runtime: ClusterServingRuntime = read(&stored)?;
                Some(Layer::of_runtime(&runtime.metadata, &runtime.spec)?)
            }
            _ => None,
        };
        if let Some(layer) = runtime {
            self.documents.insert(key(), stored.document);
            self.configs.insert(layer);
            return Ok(());
        }
        // A picker's configuration may be in it, and findings about that name its line.
        if stored.document.kind() == "ConfigMap" {
            self.documents.insert(key(), stored.document.clone());
        }
        self.add_other(&stored)
    }

    /// Adds a service. If it exists, the values that the server has set stay.
    fn put(&mut self, mut service: LLMInferenceService) {
        let key = Key::of(&service);
        let known = self.subjects.iter_mut().find(|subject| subject.has(&key));
        if let Some(known) = &known {
            service.metadata.uid.clone_from(&known.service.metadata.uid);
            service.status.clone_from(&known.service.status);
        }
        let subject = Subject { service: Arc::new(completed(service)), given: true };
        match known {
            Some(known) => *known = subject,
            None => self.subjects.push(subject),
        }
    }

    fn add_other(&mut self, stored: &StoredManifest) -> Result<(), SceneError> {
        let snapshot = &mut self.snapshot;
        let of = (stored.object["apiVersion"].as_str().unwrap_or_default(), stored.document.kind());
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
                match of {
                    // Planning sees each object of somebody else that has the name of a child.
                    $((types::$kind::API_VERSION, types::$kind::KIND) => {
                        snapshot.$field.insert(Arc::new(read(stored)?));
                    })*
                    (Gateway::API_VERSION, Gateway::KIND) => snapshot.gateways.insert(Arc::new(read(stored)?)),
                    (GatewayClass::API_VERSION, GatewayClass::KIND) => {
                        snapshot.gateway_classes.insert(Arc::new(read(stored)?));
                    }
                    // The controller depends on no other kinds.
                    _ => {}
                }
            };
        }
        longboat_plan::kinds!(children each);
        Ok(())
    }
}

/// Returns a service in the state in which the controller's reconcile starts.
pub(crate) fn completed(mut service: LLMInferenceService) -> LLMInferenceService {
    service.metadata.uid.get_or_insert_with(|| NO_UID.to_owned());
    defaulting::apply_typed(&mut service);
    service
}

/// Decodes a stored object.
fn read<K: DeserializeOwned>(stored: &StoredManifest) -> Result<K, SceneError> {
    K::deserialize(&stored.object).map_err(|error| SceneError::Object {
        place: stored.document.place(""),
        name: ObjectName { name: stored.name().to_owned(), ..stored.object_name() }.to_string(),
        message: error.to_string(),
    })
}
