//! Two services that clients reach by the same model name, though they do not share a group (contract/03 §5).

use longboat_api::reasons::event::MODEL_NAME_COLLISION;

use super::group::{models_of, models_of_spec, name_of};
use crate::{
    context::Context,
    event::{EventType, PlannedEvent},
};

/// Tells of the first other service of the namespace, by name, that serves a model of the same name.
pub(super) fn event(context: &Context) -> Option<PlannedEvent> {
    let (namespace, name) = (context.namespace, context.name);
    let own = models_of_spec(context.spec, name);
    let group = name_of(context.spec);
    let mut others = context.snapshot.inference_services.in_namespace(namespace).filter(|other| {
        other.metadata.name.as_deref() != Some(name)
            && other.metadata.deletion_timestamp.is_none()
            && (group.is_none() || name_of(&other.spec) != group)
    });
    // By name: the first ends the search.
    let (other, model) = others.find_map(|other| {
        let theirs = models_of(other, namespace);
        Some((other.metadata.name.as_deref()?, *own.intersection(&theirs).next()?))
    })?;
    let message = format!(
        "model name {model:?} overlaps with {other} in namespace {namespace}; shared publisher paths and model-routing \
         headers cause the gateway to shadow one service. Reachable at its own address {namespace}/{name}; safe to ignore \
         if traffic splitting is planned"
    );
    Some(PlannedEvent { type_: EventType::Warning, reason: MODEL_NAME_COLLISION, message })
}
