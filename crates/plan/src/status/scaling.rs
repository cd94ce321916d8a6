//! Reports whether the workload is scaled.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use longboat_api::{
    conditions::{Conditions, types},
    foreign::scaledobject::ScaledObject,
    reasons::condition::{HPA_PROGRESSING, SCALED_OBJECT_PROGRESSING},
};

use super::context::StatusContext;
use crate::{
    names,
    workload::{Half, scaling},
};

type Objection = (String, String);

/// Reports both halves. A half that is not scaled has no condition.
pub(super) fn report(reconciled: &StatusContext, conditions: &mut Conditions) {
    let spec = reconciled.context.spec;
    let halves =
        [(Some(Half::main(spec)), types::SCALING_READY), (Half::prefill(spec), types::PREFILL_SCALING_READY)];
    for (half, type_) in halves {
        let scaled = half.and_then(|half| Some((half, half.spec.scaling.as_ref()?)));
        let Some((half, scaling)) = scaled else {
            conditions.clear(type_);
            continue;
        };
        let name = reconciled.context.name;
        let verdict = if let Some(obstacle) = scaling::scaling_obstacle(&reconciled.context, &half) {
            Some((obstacle.reason.to_owned(), obstacle.message))
        } else if scaling.wva.as_ref().is_some_and(|wva| wva.hpa.is_some()) {
            let name = names::autoscaler(name, half.prefill);
            autoscaler(reconciled.applied.named(&name))
        } else {
            let name = names::scaled_object(name, half.prefill);
            scaled_object(reconciled.applied.named(&name))
        };
        conditions.mark(type_, verdict);
    }
}

/// Returns why the HorizontalPodAutoscaler does not scale. An unknown state is no reason.
fn autoscaler(live: Option<&HorizontalPodAutoscaler>) -> Option<Objection> {
    let waiting = |message: &str| Some((HPA_PROGRESSING.to_owned(), message.to_owned()));
    let Some(live) = live else { return waiting("HPA not yet visible in cache") };
    let conditions = live.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let decisive: Vec<_> = conditions
        .filter(|condition| ["AbleToScale", "ScalingActive"].contains(&condition.type_.as_str()))
        .collect();
    if decisive.is_empty() {
        return waiting("HPA conditions not yet available");
    }
    let bad = decisive.into_iter().find(|condition| condition.status == "False")?;
    Some((bad.reason.clone().unwrap_or_default(), bad.message.clone().unwrap_or_default()))
}

/// Returns why KEDA does not scale.
fn scaled_object(live: Option<&ScaledObject>) -> Option<Objection> {
    let waiting = |message: &str| Some((SCALED_OBJECT_PROGRESSING.to_owned(), message.to_owned()));
    let Some(live) = live else { return waiting("ScaledObject not yet visible in cache") };
    let conditions = live.status.iter().flat_map(|status| &status.conditions);
    let Some(ready) = conditions.into_iter().find(|condition| condition.type_ == "Ready") else {
        return waiting("ScaledObject conditions not yet available");
    };
    match ready.status.as_str() {
        "True" => None,
        "False" => Some((ready.reason.clone(), ready.message.clone())),
        _ => waiting("ScaledObject is not yet ready"),
    }
}
