//! HorizontalPodAutoscalers. External metrics come from the pods of the service, or from an annotation. Nothing serves other
//! metrics, so an autoscaler that needs them says so, as on a cluster without a metrics server.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{
    ExternalMetricSource, ExternalMetricStatus, HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, MetricStatus, MetricValueStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, Time};
use kube::core::SelectorExt as _;
use kube::{Client, ResourceExt};
use longboat_api::reasons::condition::METRIC_ANNOTATION_ERROR;
use longboat_autoscale::{
    History, MetricTarget, Query, Recommendations, Sample, Scale, absent, annotated_metrics,
};
use longboat_key::Key;
use tokio::time::Instant;

use super::{QueueMetrics, Target, changes, metrics};
use crate::controllers::queue::{self, Again, Reconcile};
use crate::controllers::setup::{Caches, Setup};
use crate::controllers::writes::{merge_status, now};
use crate::events::{Recorder, Severity};

/// The time between two looks at the metrics.
const SYNC_INTERVAL: Duration = Duration::from_secs(15);

struct Autoscalers {
    client: Client,
    caches: Caches,
    queue: QueueMetrics,
    recorder: Recorder,
    /// Where the clock of the recommendations begins.
    begun: Instant,
    recommendations: HashMap<Key, Recommendations>,
}

pub(in crate::controllers) async fn run(
    Setup { client, caches, recorder, cancel }: Setup,
    queue: QueueMetrics,
) {
    let changes = changes(&caches, &caches.autoscalers, target);
    // Without the targets in the cache, every autoscaler would report that its target is missing.
    caches.deployments.ready().await;
    let objects = caches.autoscalers.clone();
    let autoscalers = Autoscalers {
        client,
        caches,
        queue,
        recorder,
        begun: Instant::now(),
        recommendations: HashMap::new(),
    };
    Box::pin(queue::run(autoscalers, objects, changes, cancel)).await;
}

fn target(object: &HorizontalPodAutoscaler) -> Target {
    let target = object.spec.as_ref().map(|spec| spec.scale_target_ref.clone()).unwrap_or_default();
    Target { namespace: object.namespace().unwrap_or_default(), kind: target.kind, name: target.name }
}

impl Reconcile<HorizontalPodAutoscaler> for Autoscalers {
    const NAME: &'static str = "horizontalpodautoscaler";

    async fn forget(&mut self, key: &Key) -> Again {
        self.recommendations.remove(key);
        Ok(None)
    }

    async fn reconcile(&mut self, key: &Key, object: &HorizontalPodAutoscaler) -> Again {
        let target = target(object);
        let spec = object.spec.clone().unwrap_or_default();
        let before = object.status.clone().unwrap_or_default();
        let scale = target.scale(&self.caches);
        let outcome = match scale {
            None => Outcome::NoTarget,
            Some(scale) if scale.desired == 0 && spec.min_replicas != Some(0) => Outcome::Disabled,
            Some(scale) => {
                let metrics = self.measure(object, &spec, &target, scale).await;
                let recommended = match decisive(&metrics).map(|metric| metric.replicas) {
                    // A metric that is missing could have asked for more.
                    Some(replicas) if replicas >= scale.desired || metrics.iter().all(Result::is_ok) => {
                        let recommendations = self.recommendations.entry(key.clone()).or_default();
                        recommendations.stabilize(
                            replicas,
                            scale.desired,
                            spec.behavior.as_ref(),
                            self.begun.elapsed(),
                        )
                    }
                    _ => scale.desired,
                };
                Outcome::Scaled { scale, recommended, wanted: within(&spec, recommended), metrics }
            }
        };
        if let Outcome::Scaled { scale, wanted, metrics, .. } = &outcome
            && *wanted != scale.desired
        {
            target.resize(&self.client, *wanted).await?;
            let reason = rescale_reason(&spec, scale.desired, *wanted, metrics);
            let message = format!("New size: {wanted}; reason: {reason}");
            self.recorder.publish(object, Severity::Normal, "SuccessfulRescale", message);
        }
        let after = status(object, &spec, &target, &outcome, scale, &before, &now());
        if after != before {
            merge_status(&self.client, object, after).await?;
        }
        Ok(matches!(outcome, Outcome::Scaled { .. }).then_some(SYNC_INTERVAL))
    }
}

impl Autoscalers {
    /// Measures each metric of the spec. An error has the reason and the message of Kubernetes.
    async fn measure(
        &self,
        object: &HorizontalPodAutoscaler,
        spec: &HorizontalPodAutoscalerSpec,
        target: &Target,
        scale: Scale,
    ) -> Vec<Result<Measurement, (&'static str, String)>> {
        let mut all = Vec::new();
        for metric in spec.metrics.iter().flatten() {
            all.push(if let Some(source) = &metric.external {
                self.external(object, source, target, scale).await
            } else {
                let (reason, api) = unserved(&metric.type_);
                Err((reason, format!("nothing serves {api} on this machine")))
            });
        }
        if all.is_empty() {
            all.push(Err((
                "FailedGetResourceMetric",
                "nothing serves metrics.k8s.io on this machine".into(),
            )));
        }
        all
    }

    /// Measures an external metric: the sum over the series of the service's pods.
    async fn external(
        &self,
        object: &HorizontalPodAutoscaler,
        source: &ExternalMetricSource,
        target: &Target,
        scale: Scale,
    ) -> Result<Measurement, (&'static str, String)> {
        let name = &source.metric.name;
        let failed =
            |why: String| ("FailedGetExternalMetric", format!("unable to get external metric {name}: {why}"));
        let number = |quantity: &Quantity| {
            longboat_quantity::Quantity::parse(&quantity.0).map(longboat_quantity::Quantity::as_f64)
        };
        let goal = match (&source.target.value, &source.target.average_value) {
            (Some(value), _) => number(value).map(MetricTarget::Value),
            (None, average) => average.as_ref().and_then(number).map(MetricTarget::Average),
        };
        let goal =
            goal.ok_or_else(|| failed("its target has neither a value nor an average value".into()))?;
        let labels = source.metric.selector.as_ref().and_then(|selector| selector.match_labels.clone());
        let query = Query::sum_of(name, labels.iter().flatten());
        let annotations = object.metadata.annotations.clone().unwrap_or_default();
        let given = annotated_metrics(&annotations).filter(|(given, _)| given == name);
        let given = given.map(|(_, sample)| {
            sample.map_err(|why| {
                (METRIC_ANNOTATION_ERROR, format!("unable to get external metric {name}: {why}"))
            })
        });
        let mut reading: Vec<Sample> = given.collect::<Result<_, _>>()?;
        if reading.is_empty() {
            reading = metrics::read(&self.caches, &self.queue, target, &[name]).await.map_err(failed)?;
        }
        let expressions =
            source.metric.selector.as_ref().and_then(|selector| selector.match_expressions.clone());
        select(&mut reading, expressions.unwrap_or_default()).map_err(failed)?;
        let mut history = History::default();
        history.add(Duration::ZERO, reading, Duration::ZERO);
        let value = query.evaluate(&history).map_err(|error| failed(error.to_string()))?;
        let value = value.or_else(|| absent(&query, goal, scale));
        let value = value.ok_or_else(|| {
            failed(format!(
                "no pod of the service has it; the annotation longboat.dev/metric.{name} can give it a value"
            ))
        })?;
        Ok(Measurement {
            replicas: goal.replicas(value, scale),
            words: format!("external metric {name}"),
            status: external_status(source, goal, value, scale),
        })
    }
}

/// Keeps the series that match. As in queries, a label that no series has is no condition.
fn select(reading: &mut Vec<Sample>, expressions: Vec<LabelSelectorRequirement>) -> Result<(), String> {
    let known = |key: &str| reading.iter().any(|sample| sample.labels.contains_key(key));
    let expressions = expressions.into_iter().filter(|expression| known(&expression.key)).collect();
    let selector = LabelSelector { match_expressions: Some(expressions), ..LabelSelector::default() };
    let selector = kube::core::Selector::try_from(selector).map_err(|error| error.to_string())?;
    reading.retain(|sample| selector.matches(&sample.labels));
    Ok(())
}

/// A metric that was measured.
struct Measurement {
    replicas: i32,
    /// The metric in the words of conditions.
    words: String,
    status: MetricStatus,
}

/// The result of reading the target and its metrics.
enum Outcome {
    /// The target does not exist.
    NoTarget,
    /// The target has no replicas, and the autoscaler may not set it to zero, so a person has: that disables scaling.
    Disabled,
    Scaled {
        scale: Scale,
        /// The replicas that the metrics ask for.
        recommended: i32,
        /// The same within the bounds.
        wanted: i32,
        metrics: Vec<Result<Measurement, (&'static str, String)>>,
    },
}

/// The first metric that asks for the most replicas.
fn decisive<'a>(metrics: &'a [Result<Measurement, (&'static str, String)>]) -> Option<&'a Measurement> {
    metrics.iter().flatten().rev().max_by_key(|metric| metric.replicas)
}

fn external_status(
    source: &ExternalMetricSource,
    goal: MetricTarget,
    value: f64,
    scale: Scale,
) -> MetricStatus {
    #[expect(clippy::cast_possible_truncation, reason = "a float is cast to the nearest integer")]
    let quantity = |value: f64| {
        let parsed = longboat_quantity::Quantity::parse(&format!("{}m", (value * 1000.0).round() as i64))?;
        Some(Quantity(parsed.to_string()))
    };
    let current = match goal {
        MetricTarget::Value(_) => {
            MetricValueStatus { value: quantity(value), ..MetricValueStatus::default() }
        }
        MetricTarget::Average(_) => MetricValueStatus {
            average_value: quantity(value / f64::from(scale.current.max(1))),
            ..MetricValueStatus::default()
        },
    };
    MetricStatus {
        type_: "External".into(),
        external: Some(ExternalMetricStatus { current, metric: source.metric.clone() }),
        ..MetricStatus::default()
    }
}

/// Returns the nearest allowed number of replicas.
fn within(spec: &HorizontalPodAutoscalerSpec, replicas: i32) -> i32 {
    let least = spec.min_replicas.unwrap_or(1);
    replicas.clamp(least, spec.max_replicas.max(least))
}

/// Returns Kubernetes' reason for another number of replicas. The bounds are the reason only if the current number is outside.
fn rescale_reason(
    spec: &HorizontalPodAutoscalerSpec,
    current: i32,
    wanted: i32,
    metrics: &[Result<Measurement, (&'static str, String)>],
) -> String {
    if current > spec.max_replicas {
        return "Current number of replicas above Spec.MaxReplicas".to_owned();
    }
    if current < spec.min_replicas.unwrap_or(1) {
        return "Current number of replicas below Spec.MinReplicas".to_owned();
    }
    match decisive(metrics) {
        Some(metric) if wanted > current => format!("{} above target", metric.words),
        _ => "All metrics below target".to_owned(),
    }
}

/// Returns the reason that Kubernetes gives for a missing metric of this kind, and the API that would provide the metric.
fn unserved(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "External" => ("FailedGetExternalMetric", "external.metrics.k8s.io"),
        "Object" => ("FailedGetObjectMetric", "custom.metrics.k8s.io"),
        "Pods" => ("FailedGetPodsMetric", "custom.metrics.k8s.io"),
        "ContainerResource" => ("FailedGetContainerResourceMetric", "metrics.k8s.io"),
        _ => ("FailedGetResourceMetric", "metrics.k8s.io"),
    }
}

fn status(
    object: &HorizontalPodAutoscaler,
    spec: &HorizontalPodAutoscalerSpec,
    target: &Target,
    outcome: &Outcome,
    scale: Option<Scale>,
    before: &HorizontalPodAutoscalerStatus,
    now: &Time,
) -> HorizontalPodAutoscalerStatus {
    let was = |type_: &str| before.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let condition = |type_: &str, holds: bool, reason: &str, message: String| {
        let status = if holds { "True" } else { "False" };
        let since =
            was(type_).filter(|was| was.status == status).and_then(|was| was.last_transition_time.clone());
        HorizontalPodAutoscalerCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        }
    };
    let able = || {
        let message = "the HPA controller was able to get the target's current scale";
        condition("AbleToScale", true, "SucceededGetScale", message.into())
    };
    let mut is_resized = false;
    let mut current_metrics = before.current_metrics.clone();
    let (conditions, desired) = match outcome {
        Outcome::NoTarget => {
            let message = format!(
                "the HPA controller was unable to get the target's current scale: there is no {} {}",
                target.kind, target.name
            );
            (vec![condition("AbleToScale", false, "FailedGetScale", message)], 0)
        }
        Outcome::Disabled => {
            let message = "scaling is disabled since the replica count of the target is zero";
            (vec![able(), condition("ScalingActive", false, "ScalingDisabled", message.into())], 0)
        }
        Outcome::Scaled { scale, recommended, wanted, metrics } => {
            is_resized = scale.desired != *wanted;
            let mut conditions = vec![able()];
            if let Some(decisive) = decisive(metrics) {
                let message = format!(
                    "the HPA was able to successfully calculate a replica count from {}",
                    decisive.words
                );
                conditions.push(condition("ScalingActive", true, "ValidMetricFound", message));
                let (limited, reason, message) = match recommended.cmp(wanted) {
                    Ordering::Less => (
                        true,
                        "TooFewReplicas",
                        "the desired replica count is less than the minimum replica count",
                    ),
                    Ordering::Equal => {
                        (false, "DesiredWithinRange", "the desired count is within the acceptable range")
                    }
                    Ordering::Greater => (
                        true,
                        "TooManyReplicas",
                        "the desired replica count is more than the maximum replica count",
                    ),
                };
                conditions.push(condition("ScalingLimited", limited, reason, message.into()));
                current_metrics =
                    Some(metrics.iter().flatten().map(|metric| metric.status.clone()).collect());
            } else if let Some(Err((reason, why))) = metrics.first() {
                let message = format!(
                    "the HPA was unable to compute the replica count: {why}, so the replicas stay between {} and {}",
                    spec.min_replicas.unwrap_or(1),
                    spec.max_replicas
                );
                conditions.push(condition("ScalingActive", false, reason, message));
            }
            (conditions, *wanted)
        }
    };
    HorizontalPodAutoscalerStatus {
        conditions: Some(conditions),
        current_metrics,
        current_replicas: scale.map(|scale| scale.current),
        desired_replicas: desired,
        last_scale_time: if is_resized { Some(now.clone()) } else { before.last_scale_time.clone() },
        observed_generation: object.metadata.generation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(least: Option<i32>, most: i32) -> HorizontalPodAutoscalerSpec {
        HorizontalPodAutoscalerSpec {
            min_replicas: least,
            max_replicas: most,
            ..HorizontalPodAutoscalerSpec::default()
        }
    }

    #[test]
    fn replicas_are_kept_within_bounds() {
        assert_eq!([1, 2, 3, 9].map(|now| within(&spec(Some(2), 3), now)), [2, 2, 3, 3]);
        assert_eq!(within(&spec(None, 3), 1), 1);
    }

    fn measured(replicas: i32, words: &str) -> Measurement {
        let status = MetricStatus::default();
        Measurement { replicas, words: words.to_owned(), status }
    }

    #[test]
    fn the_reason_of_a_new_size_is_the_metric_unless_the_current_number_is_outside_the_bounds() {
        let metrics = [measured(2, "a"), measured(9, "b"), measured(9, "c")].map(Ok);
        let reason = |current, wanted| rescale_reason(&spec(Some(2), 4), current, wanted, &metrics);
        assert_eq!(reason(2, 4), "b above target");
        assert_eq!(reason(4, 2), "All metrics below target");
        assert_eq!(reason(5, 4), "Current number of replicas above Spec.MaxReplicas");
        assert_eq!(reason(1, 2), "Current number of replicas below Spec.MinReplicas");
    }

    #[test]
    fn expressions_of_a_selector_choose_series() {
        let sample = |labels: &[(&str, &str)], value| Sample {
            name: "m".to_owned(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            value,
        };
        let selected = |key: &str, operator: &str, values: &[&str]| {
            let mut reading =
                vec![sample(&[("model", "a")], 1.0), sample(&[("model", "b")], 2.0), sample(&[], 4.0)];
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            let expression = LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values),
            };
            select(&mut reading, vec![expression])?;
            Ok::<f64, String>(reading.iter().map(|sample| sample.value).sum())
        };
        assert_eq!(selected("model", "In", &["a"]), Ok(1.0));
        assert_eq!(selected("model", "NotIn", &["a"]), Ok(6.0));
        assert_eq!(selected("model", "Exists", &[]), Ok(3.0));
        assert_eq!(selected("model", "DoesNotExist", &[]), Ok(4.0));
        assert_eq!(selected("job", "In", &["x"]), Ok(7.0));
        assert!(selected("model", "Like", &["x"]).is_err());
    }

    fn conditions(
        outcome: &Outcome,
        scale: Option<Scale>,
    ) -> (Vec<(String, String, String)>, HorizontalPodAutoscalerStatus) {
        let object = HorizontalPodAutoscaler::default();
        let target = Target { namespace: "ns".into(), kind: "Deployment".into(), name: "d".into() };
        let now = Time(jiff::Timestamp::UNIX_EPOCH);
        let before = HorizontalPodAutoscalerStatus::default();
        let status = status(&object, &spec(Some(2), 3), &target, outcome, scale, &before, &now);
        let all = status.conditions.iter().flatten();
        let all = all.map(|one| (one.type_.clone(), one.status.clone(), one.reason.clone().unwrap()));
        (all.collect(), status)
    }

    fn is(type_: &str, status: &str, reason: &str) -> (String, String, String) {
        (type_.to_owned(), status.to_owned(), reason.to_owned())
    }

    #[test]
    fn the_status_says_what_was_decided_and_why() {
        let scale = Scale { desired: 1, current: 1, ready: 1 };
        let source = ExternalMetricSource::default();
        let measured = || Measurement {
            replicas: 7,
            words: "external metric m".into(),
            status: external_status(&source, MetricTarget::Value(1.0), 7.25, scale),
        };
        let scaled = |metrics| Outcome::Scaled { scale, recommended: 7, wanted: 3, metrics };
        let (found, status) = conditions(&scaled(vec![Ok(measured())]), Some(scale));
        let able = is("AbleToScale", "True", "SucceededGetScale");
        let active = is("ScalingActive", "True", "ValidMetricFound");
        assert_eq!(found, [able.clone(), active, is("ScalingLimited", "True", "TooManyReplicas")]);
        assert_eq!((status.desired_replicas, status.current_replicas), (3, Some(1)));
        assert!(status.last_scale_time.is_some());
        let current = status.current_metrics.unwrap()[0].external.clone().unwrap().current.value.unwrap().0;
        assert_eq!(current, "7250m");

        let missing = vec![Err(("FailedGetResourceMetric", "nothing".to_owned()))];
        let failed = is("ScalingActive", "False", "FailedGetResourceMetric");
        assert_eq!(conditions(&scaled(missing), Some(scale)).0, [able.clone(), failed]);
        let disabled = is("ScalingActive", "False", "ScalingDisabled");
        assert_eq!(conditions(&Outcome::Disabled, Some(Scale { desired: 0, ..scale })).0, [able, disabled]);
        assert_eq!(conditions(&Outcome::NoTarget, None).0, [is("AbleToScale", "False", "FailedGetScale")]);
    }
}
