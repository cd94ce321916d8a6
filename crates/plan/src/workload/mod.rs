//! The model server: its certificate, its Deployments or LeaderWorkerSets, its Service.

pub(crate) mod account;
mod certificate;
mod deployment;
mod devices;
mod disruption;
mod group;
pub(crate) mod half;
mod kv_cache;
mod lora;
mod metadata;
mod pod;
pub(crate) mod pod_spec;
pub(crate) mod predecessor;
pub(crate) mod revision;
pub(crate) mod runtime_adapters;
pub(crate) mod scaling;
pub(crate) mod security;
mod service;
pub(crate) mod storage;
pub(crate) mod tls_secret;

pub(crate) use half::Half;
pub use scaling::missing_prometheus;
pub(crate) use service::PORT;
pub use storage::{StorageError, has_credentials, model_volume, secret_command};

use crate::{context::Context, draft::Draft, problem::Problem};

/// Plans the workload in the order in which it is written. Children that were planned before a problem stay planned.
pub(crate) fn plan(context: &Context, draft: &mut Draft) -> Result<(), Problem> {
    if let Some(bundle) = storage::ca_bundle_copy(context).map_err(Problem::certificates)? {
        // Not by `add`: all services of the namespace share the copy, so it has no owner to check.
        draft.children.config_maps.push(bundle);
    }
    let (secret, request) = tls_secret::plan(context);
    draft.add(context, secret).map_err(Problem::certificates)?;
    draft.certificates.extend(request);
    if let Some(claims) = devices::plan(context).map_err(Problem::single_node)? {
        draft.add(context, claims).map_err(Problem::single_node)?;
    }
    if let Some(list) = runtime_adapters::config_map(context).map_err(Problem::single_node)? {
        draft.add(context, list).map_err(Problem::single_node)?;
    }
    let mut problem = None;
    for half in Half::all(context.spec) {
        let planned = if half.is_group() {
            group::plan(context, &half, draft).map_err(|error| Problem::multi_node(half.condition(), error))
        } else {
            deployment::plan(context, &half, draft).map_err(Problem::single_node)
        };
        match planned {
            // If prefill cannot be planned, the main half still serves everything.
            Err(error) if half.prefill => problem = Some(error),
            planned => planned?,
        }
    }
    let service = draft.add(context, service::plan(context)).map_err(Problem::workload_service);
    problem = problem.or(service.err());
    for half in Half::all(context.spec) {
        let planned = scaling::plan(context, &half, draft).map_err(Problem::scaling);
        problem = problem.or(planned.err());
        let planned = disruption::plan(context, &half, draft).map_err(Problem::single_node);
        problem = problem.or(planned.err());
    }
    problem.map_or(Ok(()), Err)
}
