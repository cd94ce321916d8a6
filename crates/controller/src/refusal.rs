//! Children that the API server would refuse are found before the first write, so that no service is half written.
//!
//! The rules of the embedded API server judge the planned children. They may be older or newer than those of the cluster, so
//! the cluster decides: a child that they refuse is sent as a dry run. A service that they accept costs no request.

use std::collections::BTreeSet;

use kube::api::PostParams;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_plan::{Child, Children, ObjectRef, Plan, Planned, Problem, Refusal, Snapshot, kinds, refusals};
use longboat_watch::{has_code, text_of};
use serde::Serialize;

use crate::{context::Context, watch::kinds::WatchedKind};

/// Returns the problem of the first planned child that the API server refuses.
pub(crate) async fn find(
    context: &Context,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    seen: &Snapshot,
    planned: &Plan,
) -> Option<Problem> {
    for refusal in refusals(planned, seen).iter().filter(|refusal| !refusal.of_operator) {
        let Some(answer) = ask(context, seen, &planned.children, refusal).await else { continue };
        // A copy records no lookups: plans that only search for the cause must not wake the service later.
        let origins = refusal.origins(service, spec, planned, &seen.clone());
        let fields: BTreeSet<String> = origins.into_iter().flatten().collect();
        let fields = Vec::from_iter(fields).join(", ");
        let from = if fields.is_empty() { fields } else { format!(" (set by {fields} of the service)") };
        return Some(refusal.problem(format!("{answer}{from}")));
    }
    None
}

/// Returns why the API server refuses a child, or `None` if it accepts the child or does not say.
async fn ask(
    context: &Context,
    seen: &Snapshot,
    children: &Children<Planned>,
    refusal: &Refusal,
) -> Option<String> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
            $(if let Some(child) = children.$field.iter().find(|child| child.reference() == refusal.child) {
                return Box::pin(dry_run_refusal(context, seen, child, refusal)).await;
            })*
            None
        }};
    }
    kinds!(children each)
}

async fn dry_run_refusal<K: Child + WatchedKind + Serialize>(
    context: &Context,
    seen: &Snapshot,
    child: &K,
    refusal: &Refusal,
) -> Option<String> {
    let reference: &ObjectRef = &refusal.child;
    let (namespace, name) = (reference.key.namespace.as_deref(), reference.key.name.as_deref());
    let api = K::api(&context.client, (!namespace.is_empty()).then_some(namespace));
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let (verb, answer) = match K::observed(seen).get(namespace, name) {
        None => ("create", api.create(&dry_run, child).await),
        // Its successor can only be created when it is gone, and then it is too late to ask.
        Some(live) if child.must_be_recreated(live) => {
            let causes = refusal.causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message));
            let causes: Vec<String> = causes.collect();
            return Some(format!("failed to create {reference}: {}", causes.join(", ")));
        }
        Some(live) => {
            let mut desired = child.clone();
            desired.carry_over(live);
            ("update", api.replace(&name, &dry_run, &desired).await)
        }
    };
    let error = answer.err().filter(|error| has_code(error, 422) || has_code(error, 400))?;
    Some(format!("failed to {verb} {reference}: {}", text_of(&error)))
}
