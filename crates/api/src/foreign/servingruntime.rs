//! ServingRuntime and ClusterServingRuntime of KServe, `serving.kserve.io/v1alpha1`: the pods of an engine.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Container, LocalObjectReference, PodSpec, Toleration, Volume};
use serde_json::Value;

use crate::engine::Engine;
use crate::resource::kind;
use crate::v1alpha2::{LLMInferenceServiceSpec, WorkloadSpec};
use crate::wire::go_struct;

kind! {
    /// A ServingRuntime: the pods of an engine, for the services of one namespace.
    pub struct ServingRuntime: "serving.kserve.io", "v1alpha1", "servingruntimes", Namespaced {
        spec: ServingRuntimeSpec,
        status: Value,
    }
}

kind! {
    /// A ClusterServingRuntime: the pods of an engine, for the services of all namespaces.
    pub struct ClusterServingRuntime: "serving.kserve.io", "v1alpha1", "clusterservingruntimes", Cluster {
        spec: ServingRuntimeSpec,
        status: Value,
    }
}

go_struct! {
    /// The pods of an engine: the fields that `LLMInferenceService` uses. KServe's other fields are for `InferenceService`.
    pub struct ServingRuntimeSpec {
        /// The formats of models that the runtime serves. For `LLMInferenceService`, the name of a format names the engine.
        pub supported_model_formats: Vec<SupportedModelFormat>,

        /// Whether services may not use the runtime.
        pub disabled: Option<bool>,

        /// Containers of the pods. The engine is the container `main`.
        always pub containers: Vec<Container>,

        /// Volumes of the pods.
        pub volumes: Vec<Volume>,

        /// Labels of nodes on which the pods may run.
        pub node_selector: BTreeMap<String, String>,

        /// Constraints on the nodes of the pods.
        pub affinity: Option<Affinity>,

        /// Taints of nodes that the pods tolerate.
        pub tolerations: Vec<Toleration>,

        /// Labels of the pods.
        pub labels: BTreeMap<String, String>,

        /// Annotations of the pods.
        pub annotations: BTreeMap<String, String>,

        /// Secrets with credentials for the images.
        pub image_pull_secrets: Vec<LocalObjectReference>,
    }

    /// A format of models.
    #[derive(Eq)]
    pub struct SupportedModelFormat {
        /// Name of the format.
        always pub name: String,
    }
}

// === impl ServingRuntimeSpec ===

impl ServingRuntimeSpec {
    /// The engine that the runtime starts: named by a format, or else known by the command of the container `main`, or by its
    /// image if the runtime names no format.
    pub fn engine(&self) -> Option<&'static Engine> {
        let main = || self.containers.iter().find(|container| container.name == "main");
        let mut formats = self.supported_model_formats.iter();
        formats
            .find_map(|format| Engine::of_format(&format.name))
            .or_else(|| Engine::of_command(main()?))
            .or_else(|| {
                let main = main().filter(|_| self.supported_model_formats.is_empty())?;
                Engine::of_image(main.image.as_deref()?)
            })
    }

    /// What the runtime contributes to the spec of a service.
    pub fn layer(&self) -> LLMInferenceServiceSpec {
        let pod = PodSpec {
            containers: self.containers.clone(),
            volumes: Some(self.volumes.clone()).filter(|all| !all.is_empty()),
            node_selector: Some(self.node_selector.clone()).filter(|all| !all.is_empty()),
            affinity: self.affinity.clone(),
            tolerations: Some(self.tolerations.clone()).filter(|all| !all.is_empty()),
            image_pull_secrets: Some(self.image_pull_secrets.clone()).filter(|all| !all.is_empty()),
            ..PodSpec::default()
        };
        LLMInferenceServiceSpec {
            workload: WorkloadSpec {
                labels: self.labels.clone(),
                annotations: self.annotations.clone(),
                template: Some(Box::new(pod)),
                ..WorkloadSpec::default()
            },
            ..LLMInferenceServiceSpec::default()
        }
    }
}
