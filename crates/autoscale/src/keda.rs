//! KEDA's part: Prometheus triggers, cool-down and scaling to zero.

use std::time::Duration;

use longboat_api::foreign::scaledobject::ScaledObjectSpec;
use longboat_api::v1alpha2::KedaTrigger;

use crate::absent;
use crate::query::{History, Query, Sample};
use crate::recommendation::{MetricTarget, Recommendations};
use crate::scale::Scale;

/// KEDA's default of `minReplicaCount`.
pub const DEFAULT_MIN_REPLICAS: i32 = 0;
/// KEDA's default of `maxReplicaCount`.
pub const DEFAULT_MAX_REPLICAS: i32 = 100;
const POLLING_SECONDS: i32 = 30;
const COOLDOWN_SECONDS: i32 = 300;

/// The replicas that the triggers call for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Whether a trigger is active.
    pub is_active: bool,
    /// The greatest number that a trigger asks for.
    pub replicas: i32,
}

/// A trigger that can be evaluated.
#[derive(Debug, Clone)]
pub struct Trigger {
    query: Query,
    goal: MetricTarget,
    /// The value above which the trigger is active.
    activation: f64,
}

/// What is remembered of a ScaledObject between two polls.
#[derive(Debug, Default)]
pub struct ScaledObjectState {
    history: History,
    recommendations: Recommendations,
    last_active: Option<Duration>,
}

// === impl ScaledObjectState ===

impl ScaledObjectState {
    /// Evaluates the triggers over a reading of the metrics and those before it.
    ///
    /// # Errors
    /// If a query has no single number.
    pub fn poll(
        &mut self,
        triggers: &[Trigger],
        reading: Vec<Sample>,
        scale: Scale,
        now: Duration,
    ) -> Result<Demand, String> {
        let window = triggers.iter().map(|trigger| trigger.query.window()).max().unwrap_or_default();
        self.history.add(now, reading, window);
        let mut demand = Demand { is_active: false, replicas: 0 };
        for (index, Trigger { query, goal, activation }) in triggers.iter().enumerate() {
            let value = query.evaluate(&self.history).map_err(|error| format!("trigger {index}: {error}"))?;
            // Like KEDA, this takes an empty result for zero.
            let value = value.or_else(|| absent(query, *goal, scale)).unwrap_or(0.0);
            demand.is_active |= value > *activation;
            demand.replicas = demand.replicas.max(goal.replicas(value, scale));
        }
        if demand.is_active {
            self.last_active = Some(now);
        }
        Ok(demand)
    }

    /// Returns the replicas that the target should have. Without a demand, the present ones within the bounds, and never
    /// zero: nothing would scale up from there.
    /// `age` is that of the object.
    pub fn replicas(
        &mut self,
        spec: &ScaledObjectSpec,
        scale: Scale,
        demand: Option<&Demand>,
        age: Duration,
        now: Duration,
    ) -> i32 {
        let least = spec.min_replica_count.unwrap_or(DEFAULT_MIN_REPLICAS).max(0);
        // While something is active, at least one replica serves.
        let busy = least.max(1);
        let most = spec.max_replica_count.unwrap_or(DEFAULT_MAX_REPLICAS).max(busy);
        let Some(demand) = demand else {
            return if scale.desired == 0 { 0 } else { scale.desired.clamp(busy, most) };
        };
        let behavior =
            spec.advanced.as_ref().and_then(|advanced| advanced.horizontal_pod_autoscaler_config.as_ref());
        let behavior = behavior.and_then(|config| config.behavior.as_ref());
        let by_metrics = self.recommendations.stabilize(demand.replicas, scale.desired, behavior, now);
        let by_metrics = by_metrics.clamp(busy, most);
        let idle = spec.idle_replica_count.or((least == 0).then_some(0));
        match idle {
            // KEDA itself starts the first replicas: a HorizontalPodAutoscaler does nothing while there is none.
            _ if demand.is_active && scale.desired < busy => busy,
            Some(idle) if !demand.is_active => {
                let seconds = |seconds: i32| Duration::from_secs(seconds.max(0).unsigned_abs().into());
                let has_cooled = match self.last_active {
                    Some(at) => {
                        now.saturating_sub(at) >= seconds(spec.cooldown_period.unwrap_or(COOLDOWN_SECONDS))
                    }
                    None => age >= seconds(spec.initial_cooldown_period.unwrap_or(0)),
                };
                // What is idle stays idle until a trigger is active, however short ago it was scaled.
                if has_cooled || scale.desired == idle { idle } else { by_metrics }
            }
            _ => by_metrics,
        }
    }
}

// === impl Trigger ===

impl Trigger {
    /// Parses the triggers of a ScaledObject.
    ///
    /// # Errors
    /// Which trigger cannot be evaluated, and why.
    pub fn all(spec: &ScaledObjectSpec) -> Result<Vec<Self>, String> {
        let each = spec.triggers.iter().enumerate();
        each.map(|(index, trigger)| Self::parse(trigger).map_err(|why| format!("trigger {index}: {why}")))
            .collect()
    }

    /// The names of the metrics that the trigger reads.
    pub fn names(&self) -> Vec<&str> {
        self.query.names()
    }

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

/// The time between two polls.
pub fn polling_interval(spec: &ScaledObjectSpec) -> Duration {
    Duration::from_secs(spec.polling_interval.unwrap_or(POLLING_SECONDS).max(1).unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(spec: &serde_json::Value) -> ScaledObjectSpec {
        serde_json::from_value(spec.clone()).unwrap()
    }

    fn scale(replicas: i32) -> Scale {
        Scale { desired: replicas, current: replicas, ready: replicas }
    }

    fn demand(is_active: bool, replicas: i32) -> Demand {
        Demand { is_active, replicas }
    }

    #[test]
    fn without_active_triggers_a_workload_goes_to_zero_after_the_cool_down_and_returns_when_one_is_active() {
        let object = spec(&json!({
            "scaleTargetRef": {"name": "d"}, "minReplicaCount": 0, "maxReplicaCount": 3, "cooldownPeriod": 60,
            "initialCooldownPeriod": 20, "triggers": [],
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}},
        }));
        let mut state = ScaledObjectState::default();
        // The object is as old as the clock.
        let desired = |state: &mut ScaledObjectState, replicas: i32, demand: &Demand, seconds| {
            let now = Duration::from_secs(seconds);
            if demand.is_active {
                state.last_active = Some(now);
            }
            state.replicas(&object, scale(replicas), Some(demand), now, now)
        };
        let (idle, busy) = (demand(false, 0), demand(true, 5));
        assert_eq!(desired(&mut state, 1, &idle, 10), 1, "new");
        assert_eq!(desired(&mut state, 1, &idle, 20), 0, "never active");
        assert_eq!(desired(&mut state, 0, &busy, 30), 1, "wakes up");
        assert_eq!(desired(&mut state, 1, &busy, 31), 3, "and follows the metric");
        assert_eq!(desired(&mut state, 3, &idle, 40), 1, "cools down");
        assert_eq!(desired(&mut state, 1, &idle, 90), 1);
        assert_eq!(desired(&mut state, 1, &idle, 91), 0);
        assert_eq!(desired(&mut state, 0, &idle, 92), 0);
    }

    #[test]
    fn bounds_and_idle_replicas_hold() {
        let bounded = spec(
            &json!({"scaleTargetRef": {"name": "d"}, "minReplicaCount": 2, "maxReplicaCount": 4, "triggers": []}),
        );
        let desired = |object: &ScaledObjectSpec, now, demand: Option<Demand>| {
            let (age, now_at) = (Duration::ZERO, Duration::ZERO);
            ScaledObjectState::default().replicas(object, scale(now), demand.as_ref(), age, now_at)
        };
        assert_eq!(desired(&bounded, 1, Some(demand(false, 0))), 2);
        assert_eq!(desired(&bounded, 2, Some(demand(true, 9))), 4);
        assert_eq!([0, 1, 9].map(|now| desired(&bounded, now, None)), [0, 2, 4], "without a demand");
        let idle = spec(
            &json!({"scaleTargetRef": {"name": "d"}, "minReplicaCount": 2, "idleReplicaCount": 1, "triggers": []}),
        );
        assert_eq!(desired(&idle, 2, Some(demand(false, 0))), 1);
        assert_eq!(desired(&idle, 1, Some(demand(true, 1))), 2);
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
        for (value, desired) in [
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
            assert_eq!(trigger(value).as_deref(), Some(desired));
        }
    }
}
