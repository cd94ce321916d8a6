//! ScaledObjects. This is the part of KEDA that local mode needs: Prometheus triggers, which are evaluated over the metrics
//! of the service's own pods, polling, cool-down and scaling to zero.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use longboat_api::foreign::scaledobject::{
    ScaledObject, ScaledObjectCondition, ScaledObjectSpec, ScaledObjectStatus,
};
use longboat_api::v1alpha2::KedaTrigger;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::query::{History, Query};
use super::recommendation::{MetricTarget, Recommendations};
use super::{QueueMetrics, Scale, Target, metrics};
use crate::controllers::queue::{self, Key, Reconcile};
use crate::controllers::{Caches, key_of, now, triggers};

/// KEDA's default bounds and times.
const DEFAULT_MIN_REPLICAS: i32 = 0;
const DEFAULT_MAX_REPLICAS: i32 = 100;
const POLLING_SECONDS: i32 = 30;
const COOLDOWN_SECONDS: i32 = 300;
/// With this annotation, KEDA does not scale.
const PAUSED: &str = "autoscaling.keda.sh/paused";

struct ScaledObjects {
    client: Client,
    caches: Caches,
    queue: QueueMetrics,
    states: HashMap<Key, State>,
}

/// The state of a ScaledObject between two polls.
#[derive(Default)]
struct State {
    history: History,
    recommendations: Recommendations,
    /// When the triggers were evaluated, for which generation, and the result.
    polled: Option<(Instant, Option<i64>, Result<Demand, String>)>,
    last_active: Option<Instant>,
}

/// The replicas that the triggers call for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Demand {
    /// Whether a trigger is active.
    is_active: bool,
    replicas: i32,
}

/// A trigger that can be evaluated.
struct Trigger {
    query: Query,
    goal: MetricTarget,
    /// The value above which the trigger is active.
    activation: f64,
}

pub(in crate::controllers) async fn run(
    client: Client,
    caches: Caches,
    queue: QueueMetrics,
    cancel: CancellationToken,
) {
    let own = triggers(&caches.scaled_objects, |object: &ScaledObject| [key_of(object)]);
    let deployments = {
        let all = caches.scaled_objects.clone();
        triggers(&caches.deployments, move |object: &Deployment| {
            scaling(&all.all(), "Deployment", &key_of(object))
        })
    };
    let sets = {
        let all = caches.scaled_objects.clone();
        triggers(&caches.leader_worker_sets, move |object: &LeaderWorkerSet| {
            scaling(&all.all(), "LeaderWorkerSet", &key_of(object))
        })
    };
    let objects = ScaledObjects { client, caches, queue, states: HashMap::new() };
    let changes = stream::select(own, stream::select(deployments, sets));
    Box::pin(queue::run(objects, changes, cancel)).await;
}

fn scaling(all: &[Arc<ScaledObject>], kind: &str, key: &Key) -> Vec<Key> {
    let wanted = Target { namespace: key.namespace.clone(), kind: kind.into(), name: key.name.clone() };
    all.iter().filter(|object| target(object) == wanted).map(|object| key_of(object.as_ref())).collect()
}

/// Returns the target. Like KEDA, this assumes a Deployment if no kind is given.
fn target(object: &ScaledObject) -> Target {
    let target = &object.spec.scale_target_ref;
    let kind = if target.kind.is_empty() { "Deployment" } else { &target.kind };
    Target { namespace: object.namespace().unwrap_or_default(), kind: kind.into(), name: target.name.clone() }
}

impl Reconcile for ScaledObjects {
    const NAME: &'static str = "scaledobject";

    fn all(&self) -> Vec<Key> {
        self.caches.scaled_objects.all().iter().map(|object| key_of(object.as_ref())).collect()
    }

    async fn reconcile(&mut self, key: &Key) -> Result<Option<Duration>, kube::Error> {
        let Some(object) = self.caches.scaled_objects.get(&key.namespace, &key.name) else {
            self.states.remove(key);
            return Ok(None);
        };
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let target = target(&object);
        let state = self.states.entry(key.clone()).or_default();
        let mut paused = false;
        if let Some(scale) = target.scale(&self.caches) {
            let demand = state.demand(&object, &target, scale, (&self.caches, &self.queue)).await;
            paused = object.annotations().get(PAUSED).is_some_and(|value| value == "true");
            let wanted = state.wanted(&object, scale, demand.as_ref().ok(), age(&object));
            if wanted != scale.wanted && !paused {
                target.resize(&self.client, wanted).await?;
            }
        }
        let demand = state.polled.as_ref().map(|(_, _, demand)| demand);
        let after = status(&object.spec, &target, demand, paused);
        if object.status.as_ref() != Some(&after) {
            let api: Api<ScaledObject> = Api::namespaced(self.client.clone(), &key.namespace);
            let patch =
                json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "status": after});
            match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let next = state.polled.as_ref().map(|(at, ..)| *at + polling(&object.spec));
        Ok(next.map(|at| at.saturating_duration_since(Instant::now())))
    }
}

// === impl State ===

impl State {
    /// Returns what the triggers ask for: the result of the last poll, or of a new one if it is due.
    async fn demand(
        &mut self,
        object: &ScaledObject,
        target: &Target,
        scale: Scale,
        sources: (&Caches, &QueueMetrics),
    ) -> Result<Demand, String> {
        let now = Instant::now();
        let generation = object.metadata.generation;
        if let Some((at, of, demand)) = &self.polled
            && now < *at + polling(&object.spec)
            && *of == generation
        {
            return demand.clone();
        }
        let demand = self.poll(object, target, scale, sources, now).await;
        if demand.as_ref().is_ok_and(|demand| demand.is_active) {
            self.last_active = Some(now);
        }
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
    ) -> Result<Demand, String> {
        let triggers: Vec<Trigger> = object
            .spec
            .triggers
            .iter()
            .enumerate()
            .map(|(index, trigger)| Trigger::parse(trigger).map_err(|why| format!("trigger {index}: {why}")))
            .collect::<Result<_, _>>()?;
        let names: Vec<&str> = triggers.iter().flat_map(|trigger| trigger.query.names()).collect();
        let mut reading: Vec<_> = metrics::given(object.annotations()).collect();
        reading.extend(metrics::read(sources.0, sources.1, target, &names).await?);
        let window = triggers.iter().map(|trigger| trigger.query.window()).max().unwrap_or_default();
        self.history.add(now, reading, window);
        let mut demand = Demand { is_active: false, replicas: 0 };
        for (index, Trigger { query, goal, activation }) in triggers.iter().enumerate() {
            let value = query.evaluate(&self.history).map_err(|error| format!("trigger {index}: {error}"))?;
            // Like KEDA, this takes an empty result for zero.
            let value = value.or_else(|| metrics::absent(query, *goal, scale)).unwrap_or(0.0);
            demand.is_active |= value > *activation;
            demand.replicas = demand.replicas.max(goal.replicas(value, scale));
        }
        Ok(demand)
    }

    /// Returns the replicas that the target should have. Without a demand, the present ones within the bounds, and never
    /// zero: nothing would scale up from there.
    fn wanted(&mut self, object: &ScaledObject, scale: Scale, demand: Option<&Demand>, age: Duration) -> i32 {
        let spec = &object.spec;
        let least = spec.min_replica_count.unwrap_or(DEFAULT_MIN_REPLICAS).max(0);
        // While something is active, at least one replica serves.
        let busy = least.max(1);
        let most = spec.max_replica_count.unwrap_or(DEFAULT_MAX_REPLICAS).max(busy);
        let Some(demand) = demand else {
            return if scale.wanted == 0 { 0 } else { scale.wanted.clamp(busy, most) };
        };
        let behavior =
            spec.advanced.as_ref().and_then(|advanced| advanced.horizontal_pod_autoscaler_config.as_ref());
        let behavior = behavior.and_then(|config| config.behavior.as_ref());
        let now = Instant::now();
        let by_metrics = self.recommendations.stabilize(demand.replicas, scale.wanted, behavior, now);
        let by_metrics = by_metrics.clamp(busy, most);
        let idle = spec.idle_replica_count.or((least == 0).then_some(0));
        match idle {
            _ if demand.is_active && scale.wanted < busy => busy,
            Some(idle) if !demand.is_active => {
                let seconds = |seconds: i32| Duration::from_secs(seconds.max(0).unsigned_abs().into());
                let has_cooled = match self.last_active {
                    Some(at) => now - at >= seconds(spec.cooldown_period.unwrap_or(COOLDOWN_SECONDS)),
                    None => age >= seconds(spec.initial_cooldown_period.unwrap_or(0)),
                };
                if has_cooled || scale.wanted == idle { idle } else { by_metrics }
            }
            _ => by_metrics,
        }
    }
}

// === impl Trigger ===

impl Trigger {
    fn parse(trigger: &KedaTrigger) -> Result<Self, String> {
        if trigger.type_ != "prometheus" {
            return Err(format!(
                "nothing on this machine evaluates triggers of type {}, only prometheus",
                trigger.type_
            ));
        }
        let metadata = trigger.metadata.clone().unwrap_or_default();
        let number = |key: &str| match metadata.get(key) {
            Some(text) => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(format!("{key} is {text:?}, but must be a number")),
            },
            None => Ok(None),
        };
        let threshold = number("threshold")?.ok_or("it has no threshold")?;
        let query = metadata.get("query").ok_or("it has no query")?;
        Ok(Self {
            query: Query::parse(query).map_err(|error| error.to_string())?,
            goal: match trigger.metric_type.as_str() {
                "" | "AverageValue" => MetricTarget::Average(threshold),
                "Value" => MetricTarget::Value(threshold),
                other => return Err(format!("metricType is {other}, but must be AverageValue or Value")),
            },
            activation: number("activationThreshold")?.unwrap_or(0.0),
        })
    }
}

fn polling(spec: &ScaledObjectSpec) -> Duration {
    Duration::from_secs(spec.polling_interval.unwrap_or(POLLING_SECONDS).max(1).unsigned_abs().into())
}

/// The time since the object was created.
fn age(object: &ScaledObject) -> Duration {
    let created = object.metadata.creation_timestamp.as_ref();
    created.and_then(|created| (now().0 - created.0).try_into().ok()).unwrap_or_default()
}

fn status(
    spec: &ScaledObjectSpec,
    target: &Target,
    demand: Option<&Result<Demand, String>>,
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
        Some(Err(why)) => {
            let message = format!(
                "Triggers defined in ScaledObject are not working correctly: {why}; the replicas stay between {} and {}",
                spec.min_replica_count.unwrap_or(DEFAULT_MIN_REPLICAS).max(1),
                spec.max_replica_count.unwrap_or(DEFAULT_MAX_REPLICAS)
            );
            [
                condition("Ready", false, "TriggerError", message),
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

    fn object(spec: &serde_json::Value) -> ScaledObject {
        let object = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "s"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn scale(replicas: i32) -> Scale {
        Scale { wanted: replicas, current: replicas, ready: replicas }
    }

    fn demand(is_active: bool, replicas: i32) -> Demand {
        Demand { is_active, replicas }
    }

    #[tokio::test(start_paused = true)]
    async fn without_active_triggers_a_workload_goes_to_zero_after_the_cool_down_and_returns_when_one_is_active()
     {
        let object = object(&json!({
            "scaleTargetRef": {"name": "d"}, "minReplicaCount": 0, "maxReplicaCount": 3, "cooldownPeriod": 60,
            "initialCooldownPeriod": 20, "triggers": [],
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}},
        }));
        let mut state = State::default();
        let wanted = |state: &mut State, now: i32, demand: &Demand, age| {
            if demand.is_active {
                state.last_active = Some(Instant::now());
            }
            state.wanted(&object, scale(now), Some(demand), Duration::from_secs(age))
        };
        let (idle, busy) = (demand(false, 0), demand(true, 5));
        assert_eq!(wanted(&mut state, 1, &idle, 10), 1, "new");
        assert_eq!(wanted(&mut state, 1, &idle, 20), 0, "never active");
        assert_eq!(wanted(&mut state, 0, &busy, 30), 1, "wakes up");
        assert_eq!(wanted(&mut state, 1, &busy, 31), 3, "and follows the metric");
        assert_eq!(wanted(&mut state, 3, &idle, 40), 1, "cools down");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(wanted(&mut state, 1, &idle, 99), 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(wanted(&mut state, 1, &idle, 100), 0);
        assert_eq!(wanted(&mut state, 0, &idle, 101), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn bounds_and_idle_replicas_hold() {
        let bounded = object(
            &json!({"scaleTargetRef": {"name": "d"}, "minReplicaCount": 2, "maxReplicaCount": 4, "triggers": []}),
        );
        let wanted = |object: &ScaledObject, now, demand: Option<Demand>| {
            State::default().wanted(object, scale(now), demand.as_ref(), Duration::ZERO)
        };
        assert_eq!(wanted(&bounded, 1, Some(demand(false, 0))), 2);
        assert_eq!(wanted(&bounded, 2, Some(demand(true, 9))), 4);
        assert_eq!([0, 1, 9].map(|now| wanted(&bounded, now, None)), [0, 2, 4], "without a demand");
        let idle = object(
            &json!({"scaleTargetRef": {"name": "d"}, "minReplicaCount": 2, "idleReplicaCount": 1, "triggers": []}),
        );
        assert_eq!(wanted(&idle, 2, Some(demand(false, 0))), 1);
        assert_eq!(wanted(&idle, 1, Some(demand(true, 1))), 2);
    }

    #[test]
    fn a_trigger_that_cannot_be_evaluated_is_named_with_the_reason() {
        let trigger = |value: serde_json::Value| {
            let trigger: KedaTrigger = serde_json::from_value(value).unwrap();
            Trigger::parse(&trigger).err()
        };
        let query = "sum(vllm:num_requests_waiting)";
        assert_eq!(
            trigger(json!({"type": "prometheus", "metadata": {"query": query, "threshold": "5"}})),
            None
        );
        for (value, wanted) in [
            (
                json!({"type": "cron"}),
                "nothing on this machine evaluates triggers of type cron, only prometheus",
            ),
            (json!({"type": "prometheus", "metadata": {"query": query}}), "it has no threshold"),
            (json!({"type": "prometheus", "metadata": {"threshold": "5"}}), "it has no query"),
            (
                json!({"type": "prometheus", "metadata": {"query": query, "threshold": "x"}}),
                "threshold is \"x\", but must be a number",
            ),
            (
                json!({"type": "prometheus", "metricType": "Utilization", "metadata": {"query": query, "threshold": "1"}}),
                "metricType is Utilization, but must be AverageValue or Value",
            ),
        ] {
            assert_eq!(trigger(value).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn the_status_has_the_four_conditions_that_the_reference_waits_for() {
        let target = Target { namespace: "ns".into(), kind: "Deployment".into(), name: "d".into() };
        let of = |demand: Option<Result<Demand, String>>| -> Vec<String> {
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
            of(Some(Err("x".into()))),
            with(["Ready=False TriggerError", "Active=False ScalerNotActive"])
        );
        assert_eq!(of(None), with(["Ready=False ScaledObjectCheckFailed", "Active=False ScalerNotActive"]));
    }
}
