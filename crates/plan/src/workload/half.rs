//! The two halves of a workload. The main half decodes, or does everything; the other half only prefills.

use longboat_api::{
    conditions::types,
    labels::{KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, ROLE, component, role},
    v1alpha2::{LLMInferenceServiceSpec, WorkloadSpec},
};
use longboat_key::Name;

use crate::{
    labels::{self, Map},
    names,
};

/// One half of a workload.
#[derive(Clone, Copy)]
pub(crate) struct Half<'a> {
    pub(crate) spec: &'a WorkloadSpec,
    pub(crate) prefill: bool,
    /// The role of its pods, for the picker.
    pub(crate) role: &'static str,
}

// === impl Half ===

impl<'a> Half<'a> {
    /// The half that every service has.
    pub(crate) fn main(spec: &'a LLMInferenceServiceSpec) -> Self {
        let role = if spec.prefill.is_some() { role::DECODE } else { role::BOTH };
        Self { spec: &spec.workload, prefill: false, role }
    }

    /// The half that only prefills, where the service has one.
    pub(crate) fn prefill(spec: &'a LLMInferenceServiceSpec) -> Option<Self> {
        spec.prefill.as_ref().map(|spec| Self { spec, prefill: true, role: role::PREFILL })
    }

    /// All halves of the service.
    pub(crate) fn all(spec: &'a LLMInferenceServiceSpec) -> impl Iterator<Item = Self> {
        std::iter::once(Self::main(spec)).chain(Self::prefill(spec))
    }

    /// Whether each replica is a group of pods.
    pub(crate) fn is_group(&self) -> bool {
        self.spec.worker.is_some()
    }

    /// The name of its LeaderWorkerSet, and of the account that is managed for it.
    pub(crate) fn group_name(&self, service: Name<&str>) -> String {
        if self.prefill { names::prefill_group(service) } else { names::workload_group(service) }
    }

    /// The condition that reports whether the half serves.
    pub(crate) fn condition(&self) -> &'static str {
        match (self.prefill, self.is_group()) {
            (false, false) => types::MAIN_WORKLOAD_READY,
            (false, true) => types::WORKER_WORKLOAD_READY,
            (true, false) => types::PREFILL_WORKLOAD_READY,
            (true, true) => types::PREFILL_WORKER_WORKLOAD_READY,
        }
    }

    /// The field that describes the half.
    pub(crate) fn field(&self) -> &'static str {
        if self.prefill { "spec.prefill" } else { "spec" }
    }

    /// The name of the half in messages.
    pub(crate) fn label(&self) -> &'static str {
        if self.prefill { "prefill" } else { "main" }
    }

    /// The name of its Deployment.
    pub(crate) fn deployment_name(&self, service: Name<&str>) -> String {
        if self.prefill { names::prefill(service) } else { names::workload(service) }
    }

    /// The labels of the half's Deployment: [`Self::identity`], and the role of its pods.
    pub(crate) fn deployment_labels(&self, service: Name<&str>) -> Map {
        let mut labels = self.identity(service);
        labels.insert(ROLE.into(), self.role.into());
        labels
    }

    /// The labels that identify the pods of the half's Deployment for their lifetime. The role is not among them: it changes
    /// when prefill is added or removed, and a selector is immutable.
    pub(crate) fn identity(&self, service: Name<&str>) -> Map {
        let name = if self.prefill { component::WORKLOAD_PREFILL } else { component::WORKLOAD };
        let mut labels = labels::of(name, service);
        labels.insert(KSERVE_COMPONENT.into(), KSERVE_COMPONENT_WORKLOAD.into());
        labels
    }

    /// The name of the half in traces.
    pub(crate) fn traced_as(&self) -> &'static str {
        if self.prefill { "inference-server-prefill" } else { "inference-server-decode" }
    }
}
