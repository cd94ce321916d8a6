//! The endpoint picker: its account and rights, its Deployment and Service, and the pool from which it picks.

mod config;
mod config_text;
mod deployment;
mod loading;
mod network_policy;
mod plugin_list;
pub(crate) mod pool;
mod precise_prefix;
pub(crate) mod rbac;
pub(crate) mod service;
mod service_account;
pub(crate) mod sharing;
pub(crate) mod tokenizer;
mod transform;

pub use loading::{
    ConfigOrigin, PickerConfig, PickerRefusal, PickerWarnings, RefusedBy, refusal_of_spec, refusal_of_text,
};
pub use transform::TransformError;

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::{
    picker_plugins::PRECISE_SCORER, reasons::event::DEPRECATED_PLUGIN, v1alpha2::SchedulerSpec,
};
use longboat_compose::Warning;
pub use longboat_compose::version::VersionError;

use self::plugin_list::plugins;
use crate::{context::Context, draft::Draft, flags, problem::Problem, workload::pod_spec::main_args};

/// Plans the scheduler in the order in which it is written, if this controller runs the scheduler.
pub(crate) fn plan(context: &Context, draft: &mut Draft) -> Result<(), Problem> {
    let Some(scheduler) = context.managed_scheduler() else { return Ok(()) };
    // The storage credentials come from the managed account, or from the user's.
    let account = service_account::plan(context, scheduler, draft).map_err(Problem::scheduler)?;
    let account_name = account.metadata.name.clone().unwrap_or_default();
    if context.snapshot.capabilities.cluster_scope {
        draft.add(context, rbac::auth_binding(context, &account_name)).map_err(Problem::scheduler)?;
    }
    draft.add(context, rbac::role(context)).map_err(Problem::scheduler)?;
    draft.add(context, rbac::role_binding(context, &account_name)).map_err(Problem::scheduler)?;
    draft.events.extend(deprecated_plugin(context, scheduler));
    tokenizer::plan(context, scheduler, &account, draft).map_err(Problem::scheduler)?;
    deployment::plan(context, scheduler, &account, draft).map_err(Problem::scheduler)?;
    draft.add(context, service::plan(context, scheduler)).map_err(Problem::scheduler)?;
    network_policy::plan(context, scheduler, draft).map_err(Problem::scheduler)?;
    pool::plan(context, scheduler, draft).map_err(Problem::scheduler)
}

/// The number of prompt tokens from which the picker's configuration uses prefill pods, or 0 if the configuration has no
/// threshold.
pub(crate) fn prefill_threshold(picker: &Deployment) -> usize {
    let pod = picker.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let args = pod.and_then(main_args);
    let Some(text) = args.and_then(|args| Some(&args[flags::config_text_position(args)?])) else { return 0 };
    let config = config_text::parse(text);
    // The threshold is a parameter of the decider plugin, or of the handler in versions without deciders.
    let thresholds = ["nonCachedTokens", "promptTokens", "threshold"];
    let parameters = plugins(&config).iter().filter_map(|plugin| plugin.get("parameters"));
    let all = parameters.flat_map(|given| thresholds.iter().filter_map(|name| given.get(*name)?.as_u64()));
    all.max().map_or(0, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Returns a warning about the scorer that newer pickers lack. The controller rewrites it for them, but will not support that
/// for ever.
fn deprecated_plugin(context: &Context, scheduler: &SchedulerSpec) -> Option<Warning> {
    let scorer = PRECISE_SCORER;
    let is_inline = scheduler.config.as_ref().is_some_and(|config| config.inline.is_some());
    let place = if is_inline { "config.inline" } else { "--config-text" };
    config::lists(scheduler, scorer).then(|| Warning {
        reason: DEPRECATED_PLUGIN,
        message: format!(
            "LLMInferenceService \"{}\" uses {scorer} in {place}. Update {place} to use token-producer, \
             precise-prefix-cache-producer, and prefix-cache-scorer directly. This implicit migration will be removed in a \
             future release.",
            context.name
        ),
    })
}
