//! How clients reach the model: references, scheduler, route.

pub(crate) mod acceptance;
pub(crate) mod collision;
pub(crate) mod gateway;
pub(crate) mod group;
pub(crate) mod leaving;
mod model_routing;
mod pool_migration;
pub(crate) mod references;
pub(crate) mod route;
pub(crate) mod url;

use longboat_api::reasons::event::MEMBER_DIVERGENCE;

use longboat_compose::Warning;

use crate::{context::Context, draft::Draft, problem::Problem, scheduler};

/// Plans the router in the order in which it is written. Children that were planned before a problem stay planned.
pub(crate) fn plan(context: &Context, draft: &mut Draft) -> Result<(), Problem> {
    references::check(context)?;
    scheduler::plan(context, draft)?;
    draft.events.extend(divergence(context));
    match route::plan(context)? {
        Some(route) => {
            draft.events.extend(collision::event(context));
            draft.add(context, route).map_err(Problem::route)
        }
        None => Ok(()),
    }
}

/// Returns an event about members that serve other models than this service, and therefore share no traffic with it.
fn divergence(context: &Context) -> Option<Warning> {
    let message = group::split(context)?.divergence()?;
    Some(Warning { reason: MEMBER_DIVERGENCE, message })
}
