//! What this release cannot do yet (`longboat_api::fields::later`). A service that asks for it is told so, by the field
//! that asks.

use longboat_api::fields::later::{self, Part};

use crate::{
    context::Context,
    problem::{Phase, Problem},
};

/// Refuses workloads other than one Deployment of a plain model.
pub(crate) fn workload(context: &Context) -> Result<(), Problem> {
    refuse(context, Part::Workload, Phase::Workload, "MainWorkloadReady")
}

/// Refuses schedulers that need a tokenizer.
pub(crate) fn scheduler(context: &Context) -> Result<(), Problem> {
    match context.managed_scheduler() {
        Some(_) => refuse(context, Part::Scheduler, Phase::Router, "SchedulerWorkloadReady"),
        None => Ok(()),
    }
}

/// Refuses routes that share their traffic.
pub(crate) fn route(context: &Context) -> Result<(), Problem> {
    refuse(context, Part::Route, Phase::Router, "HTTPRoutesReady")
}

fn refuse(context: &Context, part: Part, phase: Phase, condition: &'static str) -> Result<(), Problem> {
    let metadata = &context.service.metadata;
    let mut asked =
        later::ALL.iter().filter(|later| later.part == part && later.is_asked(context.spec, metadata));
    asked.next().map_or(Ok(()), |later| Err(Problem::not_implemented(phase, condition, later.message())))
}
