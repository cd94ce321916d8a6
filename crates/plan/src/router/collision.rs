//! Detects two services that serve the same model name without sharing a group.

use longboat_api::reasons::event::MODEL_NAME_COLLISION;

use crate::{
    context::Context,
    event::{EventType, PlannedEvent},
    peer::{group_of, models_of_spec},
};

/// Returns an event about the first other service of the namespace, by name, that serves a model of the same name.
pub(super) fn event(context: &Context) -> Option<PlannedEvent> {
    let (namespace, name) = (context.namespace, context.name);
    let own = models_of_spec(context.spec, name);
    let group = group_of(context.spec);
    let (other, model) = context.snapshot.server_of(namespace, &own, |other, peer| {
        other != name && !peer.is_leaving && (group.is_none() || peer.group.as_deref() != group)
    })?;
    let message = format!(
        "model name {model:?} overlaps with {other} in namespace {namespace}; shared publisher paths and model-routing \
         headers cause the gateway to shadow one service. Reachable at its own address {namespace}/{name}; safe to ignore \
         if traffic splitting is planned"
    );
    Some(PlannedEvent { type_: EventType::Warning, reason: MODEL_NAME_COLLISION, message })
}
