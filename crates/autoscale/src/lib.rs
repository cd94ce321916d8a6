//! How many replicas metrics ask for: the formulas of HorizontalPodAutoscalers and of KEDA, and the part of Prometheus' query
//! language that their triggers use.
//!
//! Two programs share it: local mode scales pods by it, and `longboat simulate` scales endpoints by it in virtual time. There is no
//! clock here: callers pass times, which count from any moment that stays the same.
//!
//! Kubernetes: pkg/controller/podautoscaler; KEDA: pkg/scaling.

mod annotated;
mod keda;
mod query;
mod recommendation;
mod scale;
mod time_zone;
mod trigger_check;

pub use annotated::{METRIC_ANNOTATION_PREFIX, annotated_metrics};
pub use keda::{
    DEFAULT_MAX_REPLICAS, DEFAULT_MIN_REPLICAS, Demand, ScaledObjectState, Trigger, polling_interval,
};
pub use query::{History, Labels, Query, QueryError, Sample};
pub use recommendation::{MetricTarget, Recommendations};
pub use scale::Scale;
pub use trigger_check::{TriggerMistake, trigger_mistakes, trigger_types};

use longboat_api::names::WVA_DESIRED_REPLICAS;

/// The result of a query for a metric of the Workload Variant Autoscaler, if no series has it. The autoscaler does not run
/// here, so it wants what there is.
pub fn absent(query: &Query, target: MetricTarget, scale: Scale) -> Option<f64> {
    query.names().contains(&WVA_DESIRED_REPLICAS).then(|| target.neutral(scale))
}
