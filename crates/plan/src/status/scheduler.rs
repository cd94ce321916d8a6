//! Reports whether the picker and the tokenizer work.

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::{
    annotations::PICKER,
    conditions::{Conditions, types},
    reasons::condition::{
        PICKER_NEEDS_POD, PROGRESS_DEADLINE_EXCEEDED, PROGRESSING, SHARED_PICKER_FAILED,
        SHARED_PICKER_LIMITED, SHARED_PICKER_MISSING,
    },
    shared_picker::OWN,
};
use longboat_key::Name;

use super::{context::StatusContext, workload::first_cause};
use crate::{
    context::Context,
    names,
    scheduler::{
        sharing::{Sharing, sharing},
        tokenizer,
    },
};

/// The message while the shared picker says nothing about a service.
const MISSING: &str = "The shared picker does not pick for this service yet";

/// The Deployments that the service wants, by their conditions.
fn deployments(context: &Context) -> [(&'static str, Option<String>); 2] {
    let tokenizer = tokenizer::is_wanted(context).then(|| names::tokenizer(context.name));
    let picker = context.managed_scheduler().map(|_| names::scheduler(context.name));
    [(types::TOKENIZER_READY, tokenizer), (types::SCHEDULER_WORKLOAD_READY, picker)]
}

/// One available picker is enough, and one available tokenizer.
pub(super) fn report(reconciled: &StatusContext, conditions: &mut Conditions) {
    let context = &reconciled.context;
    for (type_, name) in deployments(context) {
        let Some(name) = name else {
            conditions.clear(type_);
            continue;
        };
        match reconciled.applied.deployment(&name) {
            Some(deployment) => judge(type_, context, deployment, conditions),
            None => conditions.mark_false(type_, PROGRESSING, "Deployment rollout in progress"),
        }
    }
}

/// Reports the running scheduler although a problem elsewhere kept it from being planned, because the condition of an earlier
/// reconcile may be out of date.
pub(super) fn keep_condition(reconciled: &StatusContext, conditions: &mut Conditions) {
    let context = &reconciled.context;
    for (type_, name) in deployments(context) {
        let live = |name: &String| {
            let applied = reconciled.applied.deployment(name);
            applied.or_else(|| context.snapshot.deployments.get(context.namespace, Name(name)))
        };
        match name.as_ref().and_then(live) {
            Some(deployment) => judge(type_, context, deployment, conditions),
            None => conditions.clear(type_),
        }
    }
}

fn judge(type_: &str, context: &Context, deployment: &Deployment, conditions: &mut Conditions) {
    let sharing = (type_ == types::SCHEDULER_WORKLOAD_READY).then(|| sharing(context, deployment)).flatten();
    match sharing {
        Some(Sharing::Shared { problem: None, limit: None }) => return conditions.mark_true(type_),
        Some(Sharing::Shared { problem: None, limit: Some(limit) }) => {
            let message = format!(
                "The shared picker has refused requests of this service, for which it takes at most {limit}: \
                 raise the limit, or give the service a picker of its own with the annotation {PICKER}: {OWN}"
            );
            return conditions.mark_true_with_reason(type_, SHARED_PICKER_LIMITED, &message);
        }
        Some(Sharing::Shared { problem: Some(problem), .. }) => {
            return report_former_config(type_, &problem, conditions);
        }
        // Pods that only start are not worth a word.
        Some(Sharing::Leaving) => {
            return match first_cause(context, deployment) {
                Some(cause) => report_former_config(type_, &cause, conditions),
                None => conditions.mark_true(type_),
            };
        }
        Some(Sharing::Missing { problem }) => {
            let message = problem.unwrap_or_else(|| MISSING.to_owned());
            return conditions.mark_false(type_, SHARED_PICKER_MISSING, &message);
        }
        Some(Sharing::Own { need }) if objection(deployment).is_none() => {
            let message = format!("The service has a picker of its own, because it needs {need}");
            return conditions.mark_true_with_reason(type_, PICKER_NEEDS_POD, &message);
        }
        // The pods say whether they pick, and what keeps them from it.
        Some(Sharing::Own { .. }) | None => {}
    }
    let verdict = objection(deployment)
        .map(|(reason, message)| (reason, first_cause(context, deployment).unwrap_or(message)));
    conditions.mark(type_, verdict);
}

/// Reports that the shared picker picks with a former configuration, because of this.
fn report_former_config(type_: &str, cause: &str, conditions: &mut Conditions) {
    let message = format!("The shared picker goes on with its former configuration: {cause}");
    conditions.mark_true_with_reason(type_, SHARED_PICKER_FAILED, &message);
}

fn objection(deployment: &Deployment) -> Option<(String, String)> {
    let status = deployment.status.as_ref();
    if status.and_then(|status| status.available_replicas).is_some_and(|available| available > 0) {
        return None;
    }
    let conditions = || status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    // That a rollout is overdue says more than that nothing is available.
    let overdue = conditions().find(|condition| {
        condition.type_ == "Progressing"
            && condition.status == "False"
            && condition.reason.as_deref() == Some(PROGRESS_DEADLINE_EXCEEDED)
    });
    let decisive = overdue.or_else(|| conditions().find(|condition| condition.type_ == "Available"));
    match decisive {
        Some(condition) if condition.type_ == "Available" && condition.status == "True" => None,
        Some(condition) => Some((
            condition.reason.clone().unwrap_or_default(),
            condition.message.clone().unwrap_or_default(),
        )),
        None => Some((PROGRESSING.into(), "Deployment rollout in progress".into())),
    }
}
