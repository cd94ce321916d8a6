//! The spec that services and configs share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{KvCacheOffloading, ModelSpec, RouterSpec, ScalingSpec};
use crate::{cel, wire};

/// What an `LLMInferenceService` serves and how; an `LLMInferenceServiceConfig` holds the same, partially.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LLMInferenceServiceSpec {
    /// The model to serve: where its weights are, and the name clients use for it.
    #[serde(deserialize_with = "wire::null_default")]
    pub model: ModelSpec,

    /// Whether model storage is attached to the pods: files fetched, volumes mounted. Absent means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_initializer: Option<StorageInitializerSpec>,

    /// The decode workload when `prefill` is set, otherwise the only workload.
    #[serde(flatten)]
    pub workload: WorkloadSpec,

    /// A separate workload for the prefill phase. Setting it, even to `{}`, splits prefill from decode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<Box<WorkloadSpec>>,

    /// How clients reach the model: gateway, route and scheduler. Absent means a cluster-internal Service only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<Box<RouterSpec>>,

    /// OpenTelemetry tracing of the model servers and the scheduler. Setting it, even to `{}`, turns tracing on; what is
    /// left out comes from the preset `config-llm-tracing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingSpec>,

    /// Configs this service builds on, in order: a later one overrides an earlier one, and the service overrides all.
    /// Not allowed on a config.
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

/// Whether model files are fetched before the model server starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageInitializerSpec {
    /// False attaches no model storage at all, neither `hf://` nor `pvc://` nor `oci://`: mount the files at `/mnt/models`
    /// yourself. Excludes LoRA adapters. Absent means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// OpenTelemetry settings given to the model servers and the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TracingSpec {
    /// URL of the collector that spans are sent to (`OTEL_EXPORTER_OTLP_ENDPOINT`, and `--otlp-traces-endpoint` of the
    /// model server). Default `http://otel-collector:4317`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exporter_endpoint: Option<String>,

    /// Which requests are traced (`OTEL_TRACES_SAMPLER`). Default `parentbased_traceidratio`: a share of those whose caller
    /// did not decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<String>,

    /// Argument of the sampler (`OTEL_TRACES_SAMPLER_ARG`), for ratios from 0 to 1 as text. Default `0.05`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler_arg: Option<String>,

    /// How spans are sent (`OTEL_TRACES_EXPORTER`). Default `otlp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exporter: Option<String>,
}

/// A reference to an object by name, in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LocalReference {
    /// Name of the object, which must exist.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-default" = ""))]
    pub name: String,
}

/// One group of model server pods: at `spec` itself, and at `spec.prefill`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::workload()))]
pub struct WorkloadSpec {
    /// Number of replicas: pods, or groups of pods when `worker` is set. 0 serves nothing but keeps the rest in place.
    /// Absent leaves the number to whoever scales the workload, at first 1. Excludes `scaling`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i32>,

    /// Automatic scaling of this workload, between `minReplicas` and `maxReplicas`. Excludes `replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Box<ScalingSpec>>,

    /// How the model is spread over devices and pods. The number of pods of a group cannot change once the service exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<ParallelismSpec>,

    /// Labels for the pods and the Service of this workload, added to ours. Those by which pods are found, such as
    /// `app.kubernetes.io/name`, are not for use.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the pods and the Service of this workload.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// The pod, or the leader pod when `worker` is set. Merged over the preset's: name the container `main` to change the
    /// model server, `storage-initializer` among the init containers to change how the model is fetched, any other name to
    /// add a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-optional-containers" = true))]
    pub template: Option<Box<PodSpec>>,

    /// The worker pods of a group of several pods, merged over the preset's. Setting it makes the workload a
    /// LeaderWorkerSet and needs data or pipeline parallelism.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-optional-containers" = true))]
    pub worker: Option<Box<PodSpec>>,

    /// Offloads blocks of the KV cache from the accelerator to memory and disk, so that long or shared prefixes are not
    /// computed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_offloading: Option<Box<KvCacheOffloading>>,

    /// How pods are replaced when the workload changes. Absent means the defaults of Kubernetes, or of LeaderWorkerSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,
}

/// How a model is spread over devices and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ParallelismSpec {
    /// Tensor parallelism: devices of one pod that share each layer, at least 1 (`--tensor-parallel-size`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub tensor: Option<i32>,

    /// Pipeline parallelism: pods of a group that each hold a range of layers, at least 1. Needs `worker` and presets for it,
    /// which are not shipped. Excludes `data` and `dataLocal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub pipeline: Option<i32>,

    /// Data parallelism: replicas of the model in one group, over all its pods (`--data-parallel-size`). A multiple of
    /// `dataLocal`, which it needs. Needs `worker`; excludes `pipeline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub data: Option<i32>,

    /// Data parallelism within one pod (`--data-parallel-size-local`); `data / dataLocal` is the number of pods of a group.
    /// Needs `data` and `worker`; excludes `pipeline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub data_local: Option<i32>,

    /// Port on which data-parallel ranks talk to each other (`--data-parallel-rpc-port`), 1 to 65535. Absent means 5555.
    #[serde(rename = "dataRPCPort", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 65535))]
    pub data_rpc_port: Option<i32>,

    /// Expert parallelism for mixture-of-experts models (`--enable-expert-parallel`). Needs `worker`. Default false; a false
    /// cannot override the true of a config.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub expert: bool,
}

/// How pods are replaced when the workload changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStrategy {
    /// Pods (or groups) that may be missing during a rollout: a number, or a percentage such as `25%`, rounded down. Absent
    /// means 25%, or 1 group. Not zero together with `maxSurge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,

    /// Pods (or groups) that may exist in addition during a rollout: a number, or a percentage such as `25%`, rounded up.
    /// Absent means 25%, or 0 groups. Not zero together with `maxUnavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

// === impl ParallelismSpec ===

impl ParallelismSpec {
    /// Whether pipeline parallelism is on: `pipeline` above zero.
    pub fn is_pipeline_parallel(&self) -> bool {
        self.pipeline.is_some_and(|n| n > 0)
    }

    /// Whether data parallelism is on: `data` or `dataLocal` above zero.
    pub fn is_data_parallel(&self) -> bool {
        self.data.is_some_and(|n| n > 0) || self.data_local.is_some_and(|n| n > 0)
    }

    /// Whether tensor parallelism is on: `tensor` above zero.
    pub fn is_tensor_parallel(&self) -> bool {
        self.tensor.is_some_and(|n| n > 0)
    }

    /// Pods of one group, or none where nothing asks for more than one. Data parallelism wins over pipeline
    /// parallelism; the division truncates.
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
    /// Whether this workload runs as groups of pods: `worker` is set.
    pub fn is_multi_node(&self) -> bool {
        self.worker.is_some()
    }

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
}
