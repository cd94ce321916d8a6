//! The spec that services and configs share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    GatewayReference, KvCacheOffloading, ModelSpec, RouteSpec, RouterSpec, ScalingSpec, SchedulerSpec,
};
use crate::{
    cel,
    wire::{self, go_struct},
};

/// The model and how it is served. An `LLMInferenceServiceConfig` has the same fields, all of them optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LLMInferenceServiceSpec {
    /// The model to serve: the address of its weights, and the name that clients use for it.
    #[serde(deserialize_with = "wire::null_default")]
    pub model: ModelSpec,

    /// Whether the controller attaches model storage to the pods, by a download or a volume. Default: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_initializer: Option<StorageInitializerSpec>,

    /// Name of the ServingRuntime, of this namespace, or else of the ClusterServingRuntime whose engine serves the model. Its
    /// containers are the lowest layer of `template`. If absent, vLLM serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,

    /// The decode workload when `prefill` is set, otherwise the only workload.
    #[serde(flatten)]
    pub workload: WorkloadSpec,

    /// A separate workload for the prefill phase. Setting it, even to `{}`, splits prefill from decode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<Box<WorkloadSpec>>,

    /// How clients reach the model: Gateway, route and picker. If absent, there is only a Service inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<Box<RouterSpec>>,

    /// OpenTelemetry tracing of the model servers and the picker. Any value, even `{}`, turns tracing on; the preset
    /// `config-llm-tracing` supplies the fields that are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingSpec>,

    /// Configs that this service inherits from, in order. A later config overrides an earlier one, and the service
    /// overrides all. Not allowed on a config.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub base_refs: Vec<LocalReference>,
}

/// Reads all fields at once: a derived reader would buffer them for the flattened struct, and a pod has hundreds.
impl<'de> Deserialize<'de> for LLMInferenceServiceSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Flat {
            #[serde(deserialize_with = "wire::null_default")]
            model: ModelSpec,
            storage_initializer: Option<StorageInitializerSpec>,
            runtime: Option<String>,
            replicas: Option<i32>,
            scaling: Option<Box<ScalingSpec>>,
            parallelism: Option<ParallelismSpec>,
            #[serde(deserialize_with = "wire::null_default")]
            labels: BTreeMap<String, String>,
            #[serde(deserialize_with = "wire::null_default")]
            annotations: BTreeMap<String, String>,
            template: Option<Box<PodSpec>>,
            worker: Option<Box<PodSpec>>,
            kv_cache_offloading: Option<Box<KvCacheOffloading>>,
            rollout_strategy: Option<RolloutStrategy>,
            prefill: Option<Box<WorkloadSpec>>,
            router: Option<Box<RouterSpec>>,
            tracing: Option<TracingSpec>,
            #[serde(deserialize_with = "wire::null_default")]
            base_refs: Vec<LocalReference>,
        }
        let flat = Flat::deserialize(deserializer)?;
        Ok(Self {
            model: flat.model,
            storage_initializer: flat.storage_initializer,
            runtime: flat.runtime,
            workload: WorkloadSpec {
                replicas: flat.replicas,
                scaling: flat.scaling,
                parallelism: flat.parallelism,
                labels: flat.labels,
                annotations: flat.annotations,
                template: flat.template,
                worker: flat.worker,
                kv_cache_offloading: flat.kv_cache_offloading,
                rollout_strategy: flat.rollout_strategy,
            },
            prefill: flat.prefill,
            router: flat.router,
            tracing: flat.tracing,
            base_refs: flat.base_refs,
        })
    }
}

go_struct! {
    /// Whether model files are fetched before the model server starts.
    #[derive(Eq, JsonSchema)]
    pub struct StorageInitializerSpec {
        /// Whether model storage is attached. If false, the controller neither downloads nor mounts the model, whatever its
        /// `uri`: mount the files at `/mnt/models` yourself. False excludes LoRA adapters. Default true.
        pub enabled: Option<bool>,
    }

    /// OpenTelemetry settings of the model servers and the picker.
    #[derive(Eq, JsonSchema)]
    pub struct TracingSpec {
        /// URL of the collector that spans are sent to (`OTEL_EXPORTER_OTLP_ENDPOINT`, and `--otlp-traces-endpoint` of the
        /// model server). Default `http://otel-collector:4317`.
        pub exporter_endpoint: Option<String>,

        /// Sampler, which decides whether a request is traced (`OTEL_TRACES_SAMPLER`). Default `parentbased_traceidratio`:
        /// follows the decision of the caller, and traces a share of the requests without one.
        pub sampler: Option<String>,

        /// Argument of the sampler (`OTEL_TRACES_SAMPLER_ARG`): for ratios, a number from 0 to 1 as a string. Default `0.05`.
        pub sampler_arg: Option<String>,

        /// Exporter of the spans (`OTEL_TRACES_EXPORTER`). Default `otlp`.
        pub exporter: Option<String>,
    }

    /// A reference to an object by name, in the same namespace.
    #[derive(Eq, JsonSchema)]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub struct LocalReference {
        /// Name of the object, which must exist.
        #[schemars(extend("x-default" = ""))]
        pub name: String,
    }

    /// One group of model server pods: at `spec` itself, and at `spec.prefill`.
    #[derive(JsonSchema)]
    #[schemars(extend("x-kubernetes-validations" = cel::workload()))]
    pub struct WorkloadSpec {
        /// Number of replicas: pods, or groups of pods if `worker` is set. 0 removes the pods and keeps all other objects. If
        /// absent, the controller does not change the number, which is 1 at first, so that an autoscaler can. Excludes
        /// `scaling`.
        #[schemars(extend("minimum" = 0))]
        pub replicas: Option<i32>,

        /// Automatic scaling of this workload, between `minReplicas` and `maxReplicas`. Excludes `replicas`.
        pub scaling: Option<Box<ScalingSpec>>,

        /// How the model is spread over devices and pods. The number of pods of a group cannot change once the service exists.
        pub parallelism: Option<ParallelismSpec>,

        /// Additional labels for the pods and the Service of this workload. Do not set labels that selectors use, such as
        /// `app.kubernetes.io/name`.
        pub labels: BTreeMap<String, String>,

        /// Annotations for the pods and the Service of this workload.
        pub annotations: BTreeMap<String, String>,

        /// Pod spec of the workload, or of the leader pod if `worker` is set, merged over that of the preset. A container named
        /// `main` changes the model server, an init container named `storage-initializer` changes the download of the model,
        /// and any other name adds a container.
        #[schemars(extend("x-optional-containers" = true))]
        pub template: Option<Box<PodSpec>>,

        /// Pod spec of the workers in a group of several pods, merged over that of the preset. If set, the workload is a
        /// LeaderWorkerSet. Needs data or pipeline parallelism.
        #[schemars(extend("x-optional-containers" = true))]
        pub worker: Option<Box<PodSpec>>,

        /// Offloads blocks of the KV cache from the accelerator to memory and disk, so that long or shared prefixes are not
        /// computed again.
        pub kv_cache_offloading: Option<Box<KvCacheOffloading>>,

        /// How pods are replaced when the workload changes. Absent means the defaults of Kubernetes, or of LeaderWorkerSets.
        pub rollout_strategy: Option<RolloutStrategy>,
    }

    /// How a model is spread over devices and pods.
    #[derive(Eq, JsonSchema)]
    pub struct ParallelismSpec {
        /// Tensor parallelism: devices of one pod that share each layer, at least 1 (`--tensor-parallel-size`).
        #[schemars(extend("minimum" = 1))]
        pub tensor: Option<i32>,

        /// Pipeline parallelism: pods of a group that each hold a range of layers, at least 1. Needs `worker`, and presets for
        /// pipeline parallelism, which are not shipped. Excludes `data` and `dataLocal`.
        #[schemars(extend("minimum" = 1))]
        pub pipeline: Option<i32>,

        /// Data parallelism: replicas of the model in one group, over all its pods (`--data-parallel-size`). Must be a multiple
        /// of `dataLocal`. Needs `dataLocal` and `worker`; excludes `pipeline`.
        #[schemars(extend("minimum" = 1))]
        pub data: Option<i32>,

        /// Data parallelism within one pod (`--data-parallel-size-local`); `data / dataLocal` is the number of pods of a group.
        /// Needs `data` and `worker`; excludes `pipeline`.
        #[schemars(extend("minimum" = 1))]
        pub data_local: Option<i32>,

        /// Port on which data-parallel ranks talk to each other (`--data-parallel-rpc-port`), 1 to 65535. Absent means 5555.
        #[serde(rename = "dataRPCPort")]
        #[schemars(extend("minimum" = 1, "maximum" = 65535))]
        pub data_rpc_port: Option<i32>,

        /// Expert parallelism for mixture-of-experts models (`--enable-expert-parallel`). Needs `worker`. Default false. False
        /// does not override true from a base config.
        pub expert: bool,
    }

    /// How pods are replaced when the workload changes.
    #[derive(Eq, JsonSchema)]
    pub struct RolloutStrategy {
        /// Maximum number of pods (or groups) that are unavailable during a rollout: a number, or a percentage such as `25%`,
        /// rounded down. Absent means 25%, or 1 group. Must not be zero if `maxSurge` is zero.
        pub max_unavailable: Option<IntOrString>,

        /// Maximum number of additional pods (or groups) during a rollout: a number, or a percentage such as `25%`, rounded up.
        /// Absent means 25%, or 0 groups. Must not be zero if `maxUnavailable` is zero.
        pub max_surge: Option<IntOrString>,
    }
}

// === impl ParallelismSpec ===

impl ParallelismSpec {
    /// Whether pipeline parallelism is on: `pipeline` above zero.
    pub(crate) fn is_pipeline_parallel(&self) -> bool {
        self.pipeline.is_some_and(|n| n > 0)
    }

    /// Whether data parallelism is on: `data` or `dataLocal` above zero.
    pub fn is_data_parallel(&self) -> bool {
        self.data.is_some_and(|n| n > 0) || self.data_local.is_some_and(|n| n > 0)
    }

    /// Whether tensor parallelism is on: `tensor` above zero.
    pub(crate) fn is_tensor_parallel(&self) -> bool {
        self.tensor.is_some_and(|n| n > 0)
    }

    /// Returns the number of pods of one group, or `None` if nothing asks for more than one. Data parallelism takes
    /// precedence over pipeline parallelism. The division truncates.
    pub fn size(&self) -> Option<i32> {
        if self.is_data_parallel() {
            let data = self.data.unwrap_or(1).max(1);
            let local = self.data_local.unwrap_or(1).max(1);
            Some((data / local).max(1))
        } else if self.is_pipeline_parallel() {
            self.pipeline
        } else {
            None
        }
    }
}

// === impl WorkloadSpec ===

impl WorkloadSpec {
    /// Pods of one group, see [`ParallelismSpec::size`].
    pub fn size(&self) -> Option<i32> {
        self.parallelism.as_ref().and_then(ParallelismSpec::size)
    }
}

impl LLMInferenceServiceSpec {
    /// Whether model storage is attached; absent means yes.
    pub fn storage_initializer_enabled(&self) -> bool {
        self.storage_initializer.as_ref().and_then(|s| s.enabled).unwrap_or(true)
    }

    /// The workloads with their paths.
    pub fn workloads(&self) -> impl Iterator<Item = (&'static str, &WorkloadSpec)> {
        let prefill = self.prefill.as_deref().map(|prefill| ("spec.prefill", prefill));
        std::iter::once(("spec", &self.workload)).chain(prefill)
    }

    /// The pods of model servers with their paths.
    pub fn server_pods(&self) -> impl Iterator<Item = (&'static str, &PodSpec)> {
        let prefill = self.prefill.as_deref();
        let pods = [
            ("spec.template", self.workload.template.as_deref()),
            ("spec.worker", self.workload.worker.as_deref()),
            ("spec.prefill.template", prefill.and_then(|half| half.template.as_deref())),
            ("spec.prefill.worker", prefill.and_then(|half| half.worker.as_deref())),
        ];
        pods.into_iter().filter_map(|(path, pod)| Some((path, pod?)))
    }

    /// The route, if the service has one.
    pub fn route(&self) -> Option<&RouteSpec> {
        self.router.as_ref()?.route.as_ref()
    }

    /// The picker, if the service has one.
    pub fn scheduler(&self) -> Option<&SchedulerSpec> {
        self.router.as_ref()?.scheduler.as_deref()
    }

    /// The Gateways that the service names.
    pub fn gateway_refs(&self) -> &[GatewayReference] {
        let gateway = self.router.as_ref().and_then(|router| router.gateway.as_ref());
        gateway.map_or(&[], |gateway| &gateway.refs)
    }

    /// The LoRA adapters of the model.
    pub fn adapters(&self) -> &[ModelSpec] {
        self.model.lora.as_ref().map_or(&[], |lora| &lora.adapters)
    }

    /// The model and its LoRA adapters, each with its path.
    pub fn models(&self) -> impl Iterator<Item = (String, &ModelSpec)> {
        let adapters = self.adapters().iter().enumerate();
        let adapters = adapters.map(|(at, adapter)| (format!("spec.model.lora.adapters[{at}]"), adapter));
        std::iter::once(("spec.model".to_owned(), &self.model)).chain(adapters)
    }

    /// The runtime that the spec names, if it names one.
    pub fn runtime(&self) -> Option<&str> {
        self.runtime.as_deref().filter(|name| !name.is_empty())
    }
}
