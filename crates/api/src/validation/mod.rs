//! The rules of the validating webhook: one function per rule, one file per subject.
//!
//! All rules run, and all errors are collected. The schema and the CEL rules were checked before. Rules that repeat them
//! serve callers that validate without an API server.

mod causes;
mod confidential;
mod config;
mod disaggregated_set;
mod dra;
mod immutability;
mod kv_cache;
mod lora;
mod lora_routing;
mod name;
mod parallelism;
mod rollout;
mod router;
mod runtime;
mod scaling;
mod scheduler;
mod traffic;
mod words;

pub use causes::{Cause, CauseKind, Report};
pub use config::{validate_config, validate_config_deletion, validate_config_update};

use crate::{conversion::Version, v1alpha2::LLMInferenceService};

/// Checks a new service, which was written in this version.
pub fn validate_create(service: &LLMInferenceService, version: Version) -> Report {
    let mut report = Report::default();
    name::check(service, &mut report);
    validate_spec(service, version, &mut report);
    report
}

/// Checks an updated service against its previous state. A service that is being deleted is always accepted, so that
/// finalizers can be removed from objects that have become invalid.
pub fn validate_update(old: &LLMInferenceService, new: &LLMInferenceService, version: Version) -> Report {
    let mut report = Report::default();
    if new.metadata.deletion_timestamp.is_none() {
        validate_spec(new, version, &mut report);
        immutability::check(&old.spec, &new.spec, &mut report);
    }
    report
}

fn validate_spec(service: &LLMInferenceService, version: Version, report: &mut Report) {
    let spec = &service.spec;
    if let Some(router) = &spec.router {
        router::check(router, version, report);
        traffic::check(router, report);
    }
    for (path, workload) in spec.workloads() {
        parallelism::check(path, workload, report);
    }
    if let Some(scheduler) = spec.scheduler() {
        scheduler::check(scheduler, report);
    }
    for (path, workload) in spec.workloads() {
        scaling::check(path, workload, report);
    }
    scaling::check_consistency(spec, report);
    lora::check(service, report);
    runtime::check(spec, report);
    for (path, workload) in spec.workloads() {
        kv_cache::check(path, workload, report);
    }
    for (path, workload) in spec.workloads() {
        rollout::check(path, workload, report);
    }
    lora_routing::check(service, report);
    dra::check(service, report);
    disaggregated_set::check(service, report);
    words::check(service, report);
    confidential::check(&spec.model, report);
}
