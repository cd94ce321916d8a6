//! No silent field: what becomes of every field that users can write.
//!
//! The tables below have one row for each own leaf of the spec. A row says what the field does, or who refuses it, or
//! when nothing comes of it; in the last case a function gives the warning that `kubectl apply` prints. A test walks
//! the CRD and fails on a leaf without a row. What this release does not do yet is in [`later`], from which both the
//! warnings and the controller's conditions come.

pub mod later;

mod older;
mod plugins;

pub use older::v1alpha1_warnings;

use later::Later;

use crate::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig, LLMInferenceServiceSpec};

/// What the writer of a service should know: fields that do nothing, alone or beside the others.
pub fn warnings(service: &LLMInferenceService) -> Vec<String> {
    unfinished(&service.spec, service).iter().map(|later| later.message()).collect()
}

/// What the writer of a config should know. A config is only a part, so nothing is said about what it lacks.
pub fn config_warnings(config: &LLMInferenceServiceConfig) -> Vec<String> {
    let service = LLMInferenceService { spec: config.spec.clone(), ..LLMInferenceService::default() };
    unfinished(&service.spec, &service).iter().map(|later| later.message()).collect()
}

/// What a spec asks for although this release does not do it.
fn unfinished(spec: &LLMInferenceServiceSpec, service: &LLMInferenceService) -> Vec<&'static Later> {
    later::ALL.iter().filter(|later| later.is_asked(spec, &service.metadata)).collect()
}
