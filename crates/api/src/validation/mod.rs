//! What the validating webhook refuses: every rule a function, one file for each subject.
//!
//! All rules run and all errors are collected. Schema and CEL have run before; rules that repeat them are for callers
//! that validate without an API server.

mod causes;
mod confidential;
mod config;
mod dra;
mod immutability;
mod kv_cache;
mod lora;
mod name;
mod pairing;
mod parallelism;
mod proof;
mod rollout;
mod router;
mod scaling;
mod scheduler;
mod traffic;

pub use causes::{Cause, CauseKind, Report};
pub use config::{validate_config, validate_config_deletion, validate_config_update};

use crate::v1alpha2::{LLMInferenceService, WorkloadSpec};

/// By which version's rules an object is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// `v1alpha1`: routes and Gateways exclude each other even where they agree, and nothing warns.
    V1Alpha1,
    /// `v1alpha2`.
    V1Alpha2,
}

/// Checks a new service.
pub fn validate_create(service: &LLMInferenceService, rules: Rules) -> Report {
    let mut report = Report::default();
    name::check(service, &mut report);
    validate_spec(service, rules, &mut report);
    report
}

/// Checks a changed service against what it was. Everything passes while it is being deleted, so that finalizers can
/// go from objects that are invalid by now.
pub fn validate_update(old: &LLMInferenceService, new: &LLMInferenceService, rules: Rules) -> Report {
    let mut report = Report::default();
    if new.metadata.deletion_timestamp.is_none() {
        validate_spec(new, rules, &mut report);
        immutability::check(&old.spec, &new.spec, &mut report);
    }
    report
}

fn validate_spec(service: &LLMInferenceService, rules: Rules, report: &mut Report) {
    let spec = &service.spec;
    if let Some(router) = &spec.router {
        router::check(router, rules, report);
        traffic::check(router, report);
    }
    for (path, workload) in workloads(service) {
        parallelism::check(&path, workload, report);
    }
    if let Some(scheduler) = spec.router.as_ref().and_then(|r| r.scheduler.as_ref()) {
        scheduler::check(scheduler, report);
    }
    for (path, workload) in workloads(service) {
        scaling::check(&path, workload, report);
    }
    scaling::check_consistency(spec, report);
    lora::check(service, report);
    for (path, workload) in workloads(service) {
        kv_cache::check(&path, workload, report);
    }
    for (path, workload) in workloads(service) {
        rollout::check(&path, workload, report);
    }
    dra::check(service, report);
    pairing::check(service, report);
    proof::check(service, report);
    confidential::check(&spec.model, report);
}

/// The workloads of a service, and where they are.
fn workloads(service: &LLMInferenceService) -> impl Iterator<Item = (String, &WorkloadSpec)> {
    let spec = &service.spec;
    std::iter::once(("spec".to_owned(), &spec.workload))
        .chain(spec.prefill.as_deref().map(|prefill| ("spec.prefill".to_owned(), prefill)))
}
