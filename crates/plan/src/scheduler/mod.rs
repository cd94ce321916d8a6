//! The endpoint picker: its account and rights, its Deployment and Service, the pool it picks from (contract/03 §9).

pub(crate) mod config;
mod deployment;
pub(crate) mod pool;
mod rbac;
pub(crate) mod service;
mod service_account;
mod transform;
mod version;

pub use transform::TransformError;
pub use version::VersionError;

use crate::{context::Context, draft::Draft, problem::Problem, scope};

/// Plans the scheduler in the order in which it is written, if the service has one that is ours to run.
pub(crate) fn plan(context: &Context, draft: &mut Draft) -> Result<(), Problem> {
    let Some(scheduler) = context.managed_scheduler() else { return Ok(()) };
    scope::scheduler(context)?;
    let account = service_account::plan(context, scheduler).map_err(|error| {
        Problem::scheduler(format!("failed to create expected scheduler service account: {error}"))
    })?;
    let account_name = account.name().to_owned();
    if let service_account::Account::Managed(account) = account {
        draft.add(context, *account).map_err(Problem::scheduler)?;
    }
    draft.add(context, rbac::auth_binding(context, &account_name)).map_err(Problem::scheduler)?;
    draft.add(context, rbac::role(context)).map_err(Problem::scheduler)?;
    draft.add(context, rbac::role_binding(context, &account_name)).map_err(Problem::scheduler)?;
    let deployment = deployment::plan(context, scheduler).map_err(|error| {
        Problem::scheduler(format!(
            "failed to build expected scheduler deployment: failed to apply scheduler migrations: {error}"
        ))
    })?;
    draft.add(context, deployment).map_err(Problem::scheduler)?;
    draft.add(context, service::plan(context, scheduler)).map_err(Problem::scheduler)?;
    pool::plan(context, scheduler, draft).map_err(Problem::scheduler)
}
