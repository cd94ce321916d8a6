//! Adds stored objects to a scene.

use std::sync::Arc;

use k8s_openapi::Resource as _;
use longboat_api::{
    defaulting,
    foreign::servingruntime::{ClusterServingRuntime, ServingRuntime},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::Layer;
use longboat_key::{Key, Name};
use serde::de::DeserializeOwned;

use super::{NO_UID, Scene, SceneError, Subject};
use crate::stored::StoredManifest;

impl Scene {
    pub(super) fn add(&mut self, stored: StoredManifest) -> Result<(), SceneError> {
        let key = || {
            let key = Key::new(stored.namespace.as_deref(), Name(stored.name()));
            (stored.document.kind().to_owned(), key)
        };
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
        if stored.document.api_version() == ServingRuntime::API_VERSION {
            let layer = match stored.document.kind() {
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
            if let Some(layer) = layer {
                self.documents.insert(key(), stored.document);
                self.configs.insert(layer);
                return Ok(());
            }
        }
        if stored.document.kind() == "ConfigMap" {
            self.documents.insert(key(), stored.document.clone());
        }
        self.add_other(&stored)
    }

    /// Adds a service. If it exists, the values that the server has set stay.
    fn put(&mut self, mut service: LLMInferenceService) {
        let same = |subject: &&mut Subject| {
            subject.service.metadata.name == service.metadata.name
                && subject.service.metadata.namespace == service.metadata.namespace
        };
        if let Some(known) = self.subjects.iter_mut().find(same) {
            service.metadata.uid.clone_from(&known.service.metadata.uid);
            service.status.clone_from(&known.service.status);
            *known = Subject { service: Arc::new(completed(service)), given: true };
        } else {
            self.subjects.push(Subject { service: Arc::new(completed(service)), given: true });
        }
    }

    fn add_other(&mut self, stored: &StoredManifest) -> Result<(), SceneError> {
        let snapshot = &mut self.snapshot;
        let group = stored.document.api_version().split_once('/').map_or("", |(group, _)| group);
        macro_rules! into {
            ($field:ident) => {
                snapshot.$field.insert(Arc::new(read(stored)?))
            };
        }
        match (group, stored.document.kind()) {
            ("", "ConfigMap") => into!(config_maps),
            ("", "Secret") => into!(secrets),
            ("", "ServiceAccount") => into!(service_accounts),
            ("", "Service") => into!(services),
            ("gateway.networking.k8s.io", "Gateway") => into!(gateways),
            ("gateway.networking.k8s.io", "HTTPRoute") => into!(http_routes),
            ("gateway.networking.k8s.io", "GatewayClass") => into!(gateway_classes),
            ("inference.networking.k8s.io", "InferencePool") => into!(inference_pools),
            ("inference.networking.x-k8s.io", "InferencePool") => into!(inference_pools_x),
            // The controller depends on no other kinds.
            _ => {}
        }
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
        kind: stored.document.kind().to_owned(),
        namespace: stored.namespace.as_deref().into(),
        name: stored.name().to_owned(),
        message: error.to_string(),
    })
}
