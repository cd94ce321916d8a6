//! ScaledObjects. This is the part of KEDA that local mode needs: Prometheus triggers, which are evaluated over the metrics
//! of the service's own pods, polling, cool-down and scaling to zero.

use std::collections::HashMap;
use std::time::Duration;

use kube::{Client, ResourceExt};
use longboat_api::foreign::scaledobject::{
    PAUSED, ScaledObject, ScaledObjectCondition, ScaledObjectSpec, ScaledObjectStatus,
};
use longboat_api::reasons::condition::METRIC_ANNOTATION_ERROR;
use longboat_autoscale::{
    DEFAULT_MAX_REPLICAS, DEFAULT_MIN_REPLICAS, Demand, Scale, ScaledObjectState, Trigger, annotated_metrics,
    polling_interval,
};
use longboat_key::Key;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{QueueMetrics, Target, changes, metrics};
use crate::controllers::queue::{self, Again, Reconcile};
use crate::controllers::setup::Caches;
use crate::controllers::writes::{merge_status, now};

struct ScaledObjects {
    client: Client,
    caches: Caches,
    queue: QueueMetrics,
    states: HashMap<Key, State>,
}

/// Why triggers cannot be evaluated: the reason of the condition, and a sentence.
type Failure = (&'static str, String);

/// The state of a ScaledObject between two polls.
struct State {
    /// Where its clock begins.
    begun: Instant,
    scaled_object: ScaledObjectState,
    /// When the triggers were evaluated, for which generation, and the result.
    polled: Option<(Instant, Option<i64>, Result<Demand, Failure>)>,
}

pub(in crate::controllers) async fn run(
    client: Client,
    caches: Caches,
    queue: QueueMetrics,
    cancel: CancellationToken,
) {
    let changes = changes(&caches, &caches.scaled_objects, target);
    let objects = caches.scaled_objects.clone();
    let controller = ScaledObjects { client, caches, queue, states: HashMap::new() };
    Box::pin(queue::run(controller, objects, changes, cancel)).await;
}

/// Returns the target. Like KEDA, this assumes a Deployment if no kind is given.
fn target(object: &ScaledObject) -> Target {
    let target = &object.spec.scale_target_ref;
    let kind = if target.kind.is_empty() { "Deployment" } else { &target.kind };
    Target { namespace: object.namespace().unwrap_or_default(), kind: kind.into(), name: target.name.clone() }
}

impl Reconcile<ScaledObject> for ScaledObjects {
    const NAME: &'static str = "scaledobject";

    async fn forget(&mut self, key: &Key) -> Again {
        self.states.remove(key);
        Ok(None)
    }

    async fn reconcile(&mut self, key: &Key, object: &ScaledObject) -> Again {
        let target = target(object);
        let state = self.states.entry(key.clone()).or_default();
        let mut paused = false;
        if let Some(scale) = target.scale(&self.caches) {
            let demand = state.demand(object, &target, scale, (&self.caches, &self.queue)).await;
            paused = object.annotations().get(PAUSED).is_some_and(|value| value == "true");
            let now = state.begun.elapsed();
            let wanted =
                state.scaled_object.replicas(&object.spec, scale, demand.as_ref().ok(), age(object), now);
            if wanted != scale.desired && !paused {
                target.resize(&self.client, wanted).await?;
            }
        }
        let demand = state.polled.as_ref().map(|(_, _, demand)| demand);
        let after = status(&object.spec, &target, demand, paused);
        if object.status.as_ref() != Some(&after) {
            merge_status(&self.client, object, after).await?;
        }
        let next = state.polled.as_ref().map(|(at, ..)| *at + polling_interval(&object.spec));
        Ok(next.map(|at| at.saturating_duration_since(Instant::now())))
    }
}

// === impl State ===

impl Default for State {
    fn default() -> Self {
        Self { begun: Instant::now(), scaled_object: ScaledObjectState::default(), polled: None }
    }
}

impl State {
    /// Returns what the triggers ask for: the result of the last poll, or of a new one if it is due.
    async fn demand(
        &mut self,
        object: &ScaledObject,
        target: &Target,
        scale: Scale,
        sources: (&Caches, &QueueMetrics),
    ) -> Result<Demand, Failure> {
        let now = Instant::now();
        let generation = object.metadata.generation;
        if let Some((at, of, demand)) = &self.polled
            && now < *at + polling_interval(&object.spec)
            && *of == generation
        {
            return demand.clone();
        }
        let demand = self.poll(object, target, scale, sources, now).await;
        self.polled = Some((now, generation, demand.clone()));
        demand
    }

    async fn poll(
        &mut self,
        object: &ScaledObject,
        target: &Target,
        scale: Scale,
        sources: (&Caches, &QueueMetrics),
        now: Instant,
    ) -> Result<Demand, Failure> {
        let failed = |why| ("TriggerError", why);
        let triggers = Trigger::all(&object.spec).map_err(failed)?;
        let names: Vec<&str> = triggers.iter().flat_map(Trigger::names).collect();
        let given = annotated_metrics(object.annotations())
            .map(|(_, sample)| sample.map_err(|why| (METRIC_ANNOTATION_ERROR, why)));
        let mut reading = given.collect::<Result<Vec<_>, _>>()?;
        reading.extend(metrics::read(sources.0, sources.1, target, &names).await.map_err(failed)?);
        self.scaled_object.poll(&triggers, reading, scale, now - self.begun).map_err(failed)
    }
}

/// The time since the object was created.
fn age(object: &ScaledObject) -> Duration {
    let created = object.metadata.creation_timestamp.as_ref();
    created.and_then(|created| (now().0 - created.0).try_into().ok()).unwrap_or_default()
}

fn status(
    spec: &ScaledObjectSpec,
    target: &Target,
    demand: Option<&Result<Demand, Failure>>,
    paused: bool,
) -> ScaledObjectStatus {
    let condition = |type_: &str, holds: bool, reason: &str, message: String| ScaledObjectCondition {
        type_: type_.into(),
        status: if holds { "True" } else { "False" }.into(),
        reason: reason.into(),
        message,
    };
    let inactive = "Scaling is not performed because triggers are not active";
    let [ready, active] = match demand {
        None => {
            let message = format!("there is no {} {} to scale", target.kind, target.name);
            [
                condition("Ready", false, "ScaledObjectCheckFailed", message),
                condition("Active", false, "ScalerNotActive", inactive.into()),
            ]
        }
        Some(Err((reason, why))) => {
            let message = format!(
                "Triggers defined in ScaledObject are not working correctly: {why}; the replicas stay between {} and {}",
                spec.min_replica_count.unwrap_or(DEFAULT_MIN_REPLICAS).max(1),
                spec.max_replica_count.unwrap_or(DEFAULT_MAX_REPLICAS)
            );
            [
                condition("Ready", false, reason, message),
                condition("Active", false, "ScalerNotActive", inactive.into()),
            ]
        }
        Some(Ok(demand)) => {
            let message = "ScaledObject is defined correctly and is ready for scaling";
            let active = if demand.is_active {
                let message = "Scaling is performed because triggers are active";
                condition("Active", true, "ScalerActive", message.into())
            } else {
                condition("Active", false, "ScalerNotActive", inactive.into())
            };
            [condition("Ready", true, "ScaledObjectReady", message.into()), active]
        }
    };
    let fallback = condition(
        "Fallback",
        false,
        "NoFallbackFound",
        "No fallbacks are active on this scaled object".into(),
    );
    let pause = if paused {
        condition("Paused", true, "ScaledObjectPaused", "ScaledObject is paused".into())
    } else {
        condition("Paused", false, "ScaledObjectUnpaused", "ScaledObject is not paused".into())
    };
    ScaledObjectStatus { conditions: vec![ready, active, fallback, pause] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(is_active: bool, replicas: i32) -> Demand {
        Demand { is_active, replicas }
    }

    #[test]
    fn the_status_has_the_four_conditions_that_the_reference_waits_for() {
        let target = Target { namespace: "ns".into(), kind: "Deployment".into(), name: "d".into() };
        let of = |demand: Option<Result<Demand, Failure>>| -> Vec<String> {
            let status = status(&ScaledObjectSpec::default(), &target, demand.as_ref(), false);
            status
                .conditions
                .iter()
                .map(|one| format!("{}={} {}", one.type_, one.status, one.reason))
                .collect()
        };
        let rest = ["Fallback=False NoFallbackFound", "Paused=False ScaledObjectUnpaused"];
        let with = |first: [&str; 2]| first.into_iter().chain(rest).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            of(Some(Ok(demand(true, 1)))),
            with(["Ready=True ScaledObjectReady", "Active=True ScalerActive"])
        );
        assert_eq!(
            of(Some(Err(("TriggerError", "x".into())))),
            with(["Ready=False TriggerError", "Active=False ScalerNotActive"])
        );
        assert_eq!(of(None), with(["Ready=False ScaledObjectCheckFailed", "Active=False ScalerNotActive"]));
    }
}
