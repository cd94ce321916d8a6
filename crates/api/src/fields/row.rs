//! A row of the table, and what a row may read.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_download::address::Scheme;

use crate::v1alpha2::{KedaSettings, LLMInferenceServiceSpec, ModelSpec, SchedulerSpec, WorkloadSpec};
use crate::{engine::VLLM, names::MAIN_CONTAINER};

/// The effect of one field.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Path of the field, below the place that its table is for.
    pub path: &'static str,
    /// The field's effect.
    pub effect: Effect,
    /// Says when the field, as it stands here, does nothing.
    pub(super) warn: Option<fn(&Site<'_>) -> Option<String>>,
}

/// The effect of a field, as a sentence for the reader of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It takes effect there.
    Acts(&'static str),
    /// Every value is refused, by that rule.
    Refused(&'static str),
    /// Nothing ever comes of it; its warning says so.
    Ignored(&'static str),
}

/// The context of a warning: a spec, and the part of it that the row's table is for.
pub(super) struct Site<'a> {
    /// Name of the service.
    pub(super) name: Option<&'a str>,
    pub(super) spec: &'a LLMInferenceServiceSpec,
    /// Path of the workload: `spec` or `spec.prefill`.
    pub(super) base: &'static str,
    pub(super) workload: &'a WorkloadSpec,
    /// Path below `base`, and settings, of the ScaledObject, for the rows about one.
    pub(super) keda: Option<(&'static str, &'a KedaSettings)>,
    /// Whether nothing but presets adds to the spec, so that what it lacks is known to be absent.
    pub(super) whole: bool,
}

// === impl Row ===

impl Row {
    /// A field that takes effect.
    pub(super) const fn with_effect(path: &'static str, effect: &'static str) -> Self {
        Self { path, effect: Effect::Acts(effect), warn: None }
    }

    /// A field of which only the empty value is accepted.
    pub(super) const fn refused(path: &'static str, rule: &'static str) -> Self {
        Self { path, effect: Effect::Refused(rule), warn: None }
    }

    /// A field that never does anything.
    pub(super) const fn ignored(
        path: &'static str,
        why: &'static str,
        warn: fn(&Site<'_>) -> Option<String>,
    ) -> Self {
        Self { path, effect: Effect::Ignored(why), warn: Some(warn) }
    }

    /// The same row, with a warning for where the field does nothing.
    pub(super) const fn with_warning(self, warn: fn(&Site<'_>) -> Option<String>) -> Self {
        Self { warn: Some(warn), ..self }
    }
}

// === impl Site ===

impl<'a> Site<'a> {
    /// A warning about a field of the workload.
    #[expect(clippy::unnecessary_wraps, reason = "rows end with it, and answer with an option")]
    pub(super) fn note(&self, path: &str, text: &str) -> Option<String> {
        Some(format!("{}.{path} {text}", self.base))
    }

    /// A warning about a field of the ScaledObject.
    pub(super) fn note_keda(&self, path: &str, text: &str) -> Option<String> {
        self.note(&format!("{}.{path}", self.keda?.0), text)
    }

    pub(super) fn model(&self) -> &'a ModelSpec {
        &self.spec.model
    }

    /// Whether the model's files are neither fetched nor mounted.
    pub(super) fn storage_is_off(&self) -> bool {
        !self.spec.storage_initializer_enabled()
    }

    /// The scheme of the model's URI.
    pub(super) fn scheme(&self) -> Scheme {
        self.spec.model.uri.address().scheme()
    }

    pub(super) fn scheduler(&self) -> Option<&'a SchedulerSpec> {
        self.spec.scheduler()
    }

    /// Whether the pool is somebody else's, and the picker with it.
    pub(super) fn pool_is_external(&self) -> bool {
        self.scheduler().is_some_and(|scheduler| scheduler.external_pool().is_some())
    }

    /// The container of the model server, as far as the spec itself describes it.
    pub(super) fn main(&self) -> Option<&'a Container> {
        let pod: &PodSpec = self.workload.template.as_ref()?;
        pod.containers.iter().find(|container| container.name == MAIN_CONTAINER)
    }

    /// Whether the model server is a single pod whose command the spec sets: then only what the spec itself writes into the
    /// command line reaches it. A template may read any field.
    pub(super) fn starts_by_itself(&self) -> bool {
        let Some(main) = self.main().filter(|main| main.command.is_some()) else { return false };
        self.workload.worker.is_none()
            && !main.command.iter().chain(&main.args).flatten().any(|text| text.contains("{{"))
    }

    /// Whether the spec's own command line mentions any of `flags`, which then win over what the preset adds.
    pub(super) fn mentions(&self, flags: &[&str]) -> bool {
        let Some(main) = self.main() else { return false };
        let env = main.env.iter().flatten().filter(|env| Some(env.name.as_str()) == VLLM.arguments);
        let values = env.filter_map(|env| env.value.as_ref());
        let words = main.command.iter().chain(&main.args).flatten().chain(values);
        words.into_iter().any(|text| flags.iter().any(|flag| text.contains(flag)))
    }

    /// Whether a workload of one pod is all there is, in a spec that reads none of its own fields by template. The presets of the
    /// engines of runtimes also spread a model over the devices of one pod, or refuse the field.
    pub(super) fn is_one_pod(&self) -> bool {
        let renders = |pod: &PodSpec| serde_json::to_string(pod).is_ok_and(|text| text.contains("{{"));
        self.whole
            && self.spec.runtime().is_none()
            && self.workload.worker.is_none()
            && !self.workload.template.as_deref().is_some_and(renders)
    }
}
