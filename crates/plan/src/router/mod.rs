//! How clients reach the model: references, scheduler, route (contract/03 §2).

pub(crate) mod acceptance;
pub(crate) mod gateway;
mod model_routing;
mod pool_migration;
mod references;
pub(crate) mod route;
pub(crate) mod url;

use crate::{context::Context, draft::Draft, problem::Problem, scheduler, scope};

/// Plans the router in the order in which it is written; what was planned before a problem stays planned.
pub(crate) fn plan(context: &Context, draft: &mut Draft) -> Result<(), Problem> {
    references::check(context)?;
    scheduler::plan(context, draft)?;
    scope::route(context)?;
    match route::plan(context) {
        Some(route) => draft.add(context, route).map_err(Problem::route),
        None => Ok(()),
    }
}
