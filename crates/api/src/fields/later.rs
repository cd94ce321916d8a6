//! What this release does not do yet. Removing a line makes a feature count as done: the warning at admission and the
//! condition of the controller go with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::plugins;
use crate::annotations::DRA_DEVICE_CLASS;
use crate::v1alpha2::{LLMInferenceServiceSpec, SchedulerSpec};

/// The part of a service that waits for a feature, and so whose condition names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The model servers.
    Workload,
    /// The picker, where it is ours to run.
    Scheduler,
    /// The route.
    Route,
}

/// A feature that is not there yet.
#[derive(Clone, Copy, Debug)]
pub struct Later {
    /// The part that waits for it.
    pub part: Part,
    /// The field that asks for it, for people.
    pub field: &'static str,
    /// Path of the field, below which no further warning is due.
    pub path: &'static str,
    asked: fn(&LLMInferenceServiceSpec, &ObjectMeta) -> bool,
}

/// Everything that is not there yet, in the order in which a service is told so.
pub const ALL: &[Later] = &[
    Later {
        part: Part::Workload,
        field: "spec.worker (a model over several pods)",
        path: "spec.worker",
        asked: |spec, _| spec.workload.worker.is_some(),
    },
    Later {
        part: Part::Workload,
        field: "spec.prefill (prefill apart from decode)",
        path: "spec.prefill",
        asked: |spec, _| spec.prefill.is_some(),
    },
    Later {
        part: Part::Workload,
        field: "spec.scaling",
        path: "spec.scaling",
        asked: |spec, _| spec.workload.scaling.is_some(),
    },
    Later {
        part: Part::Workload,
        field: "spec.model.lora.adapters",
        path: "spec.model.lora.adapters",
        asked: |spec, _| spec.model.lora.as_ref().is_some_and(|lora| !lora.adapters.is_empty()),
    },
    Later {
        part: Part::Workload,
        field: "spec.kvCacheOffloading.secondary",
        path: "spec.kvCacheOffloading.secondary",
        asked: |spec, _| {
            spec.workload.kv_cache_offloading.as_ref().is_some_and(|kv| !kv.secondary.is_empty())
        },
    },
    Later {
        part: Part::Workload,
        field: "spec.template.initContainers[llm-d-routing-sidecar]",
        path: "spec.template.initContainers",
        asked: |spec, _| {
            let pod = spec.workload.template.iter();
            pod.flat_map(|pod| pod.init_containers.iter().flatten())
                .any(|container| container.name == "llm-d-routing-sidecar")
        },
    },
    Later {
        part: Part::Workload,
        field: "metadata.annotations[serving.kserve.io/exp-dra-device-class]",
        path: "metadata.annotations",
        asked: |_, metadata| {
            metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DRA_DEVICE_CLASS))
        },
    },
    Later {
        part: Part::Scheduler,
        field: "spec.router.scheduler.tokenizer",
        path: "spec.router.scheduler.tokenizer",
        asked: |spec, _| own_scheduler(spec).is_some_and(|scheduler| scheduler.tokenizer.is_some()),
    },
    Later {
        part: Part::Scheduler,
        field: "spec.router.scheduler.template.containers[tokenizer]",
        path: "spec.router.scheduler.template.containers",
        asked: |spec, _| {
            let pod = own_scheduler(spec).and_then(|scheduler| scheduler.template.as_ref());
            pod.is_some_and(|pod| pod.containers.iter().any(|container| container.name == "tokenizer"))
        },
    },
    Later {
        part: Part::Scheduler,
        field: "a plugin that needs a tokenizer (token-producer, precise-prefix-cache-scorer) in the scheduler's configuration",
        path: "spec.router.scheduler.config",
        asked: |spec, _| {
            let config = own_scheduler(spec).and_then(plugins::config);
            config.is_some_and(|config| {
                plugins::types(&config)
                    .any(|kind| matches!(kind, "token-producer" | "precise-prefix-cache-scorer"))
            })
        },
    },
    Later {
        part: Part::Route,
        field: "spec.router.route.group",
        path: "spec.router.route.group",
        asked: |spec, _| {
            let route = spec.router.as_ref().and_then(|router| router.route.as_ref());
            route.is_some_and(|route| route.group.is_some())
        },
    },
];

/// The picker that is ours to run: one beside somebody else's pool asks for nothing.
fn own_scheduler(spec: &LLMInferenceServiceSpec) -> Option<&SchedulerSpec> {
    let scheduler = spec.router.as_ref()?.scheduler.as_ref()?;
    scheduler.external_pool().is_none().then_some(scheduler)
}

// === impl Later ===

impl Later {
    /// Whether a spec, or the metadata beside it, asks for the feature.
    pub fn is_asked(&self, spec: &LLMInferenceServiceSpec, metadata: &ObjectMeta) -> bool {
        (self.asked)(spec, metadata)
    }

    /// What the user is told, in the warning as in the condition.
    pub fn message(&self) -> String {
        format!("{} is not implemented yet: remove it to run the service without", self.field)
    }
}
