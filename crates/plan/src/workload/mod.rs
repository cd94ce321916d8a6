//! The model server: its certificate, its Deployment, its Service.

mod certificate;
mod deployment;
mod metadata;
mod service;
mod service_account;
mod storage;
mod tls_secret;

pub use storage::StorageError;
pub use tls_secret::CertificateRequest;

use crate::{context::Context, draft::Draft, problem::Problem, scope};

/// Plans the workload in the order in which it is written; what was planned before a problem stays planned.
pub(crate) fn plan(context: &Context, draft: &mut Draft) -> Result<(), Problem> {
    scope::workload(context)?;
    if let Some(bundle) = storage::ca_bundle_copy(context).map_err(Problem::certificates)? {
        draft.children.config_maps.push(bundle);
    }
    let (secret, request) = tls_secret::plan(context);
    draft.add(context, secret).map_err(Problem::certificates)?;
    draft.certificates.extend(request);
    let (deployment, events) = deployment::plan(context).map_err(Problem::single_node)?;
    draft.events.extend(events);
    draft.add(context, deployment).map_err(Problem::single_node)?;
    draft.add(context, service::plan(context)).map_err(Problem::workload_service)
}
