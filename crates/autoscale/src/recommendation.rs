//! How many replicas a metric asks for, as the HorizontalPodAutoscaler of Kubernetes computes it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::scale::Scale;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;

/// A metric this close to its target changes nothing.
const TOLERANCE: f64 = 0.1;
/// How long a lower recommendation must hold before it is followed.
const SCALE_DOWN_WINDOW: Duration = Duration::from_mins(5);
/// The most recommendations that are remembered: one each second in the longest window that Kubernetes allows, an hour.
const MAX_RECOMMENDATIONS: usize = 3601;

/// What a metric should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricTarget {
    /// The value of the metric.
    Value(f64),
    /// The value divided by the number of replicas.
    Average(f64),
}

// === impl MetricTarget ===

impl MetricTarget {
    /// Returns the replicas for which a metric with this value would be as wanted.
    pub fn replicas(self, value: f64, scale: Scale) -> i32 {
        let (now, ratio, desired) = match self {
            // There is nothing to multiply, so the ratio itself is the number.
            Self::Value(target) if scale.desired == 0 => (0, f64::INFINITY, value / target),
            // As in Kubernetes, only ready pods are multiplied: the value comes from them.
            Self::Value(target) => (scale.desired, value / target, value / target * f64::from(scale.ready)),
            Self::Average(target) => {
                (scale.current, value / (target * f64::from(scale.current)), value / target)
            }
        };
        if (ratio - 1.0).abs() <= TOLERANCE {
            return now;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a float is cast to the nearest integer")]
        let desired = desired.ceil() as i32;
        desired.max(0)
    }

    /// The value at which nothing would change.
    pub fn neutral(self, scale: Scale) -> f64 {
        match self {
            Self::Value(target) => target,
            Self::Average(target) => target * f64::from(scale.desired),
        }
    }
}

/// The recommendations of the last minutes.
#[derive(Debug, Default)]
pub struct Recommendations(VecDeque<(Duration, i32)>);

// === impl Recommendations ===

impl Recommendations {
    /// Adds a recommendation. Returns the one to follow: within the window for scaling up the lowest, within the window for
    /// scaling down the highest. What there is at the first call counts as recommended, as in Kubernetes. `now` counts from any moment
    /// that stays the same.
    pub fn stabilize(
        &mut self,
        recommended: i32,
        current: i32,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        now: Duration,
    ) -> i32 {
        let rules = |up: bool| {
            let behavior = behavior?;
            if up { behavior.scale_up.as_ref() } else { behavior.scale_down.as_ref() }
        };
        let window = |up: bool| {
            let seconds = rules(up).and_then(|rules| rules.stabilization_window_seconds);
            let default = if up { Duration::ZERO } else { SCALE_DOWN_WINDOW };
            seconds.map_or(default, |seconds| Duration::from_secs(seconds.max(0).unsigned_abs().into()))
        };
        let is_disabled =
            |up: bool| rules(up).is_some_and(|rules| rules.select_policy.as_deref() == Some("Disabled"));
        let (up, down) = (window(true), window(false));
        let since = |at: Duration| now.saturating_sub(at);
        // Otherwise an autoscaler that has just started would scale down at once, by what it sees while pods start.
        if self.0.is_empty() {
            self.0.push_back((now, current));
        }
        self.0.push_back((now, recommended));
        while self.0.len() > MAX_RECOMMENDATIONS
            || self.0.front().is_some_and(|(at, _)| since(*at) > up.max(down))
        {
            self.0.pop_front();
        }
        let within = |window| {
            let remembered = self.0.iter().filter(move |(at, _)| since(*at) < window);
            remembered.map(|(_, replicas)| *replicas).chain([recommended])
        };
        let least = within(up).min().unwrap_or(recommended);
        let most = within(down).max().unwrap_or(recommended);
        let mut desired = current;
        if desired < least && !is_disabled(true) {
            desired = least;
        }
        if desired > most && !is_disabled(false) {
            desired = most;
        }
        desired
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::autoscaling::v2::HPAScalingRules;

    use super::*;

    fn scale(replicas: i32) -> Scale {
        Scale { desired: replicas, current: replicas, ready: replicas }
    }

    #[test]
    fn replicas_follow_a_value_in_proportion_and_an_average_by_division() {
        assert_eq!(MetricTarget::Value(5.0).replicas(20.0, scale(2)), 8);
        let starting = Scale { desired: 2, current: 2, ready: 0 };
        assert_eq!(MetricTarget::Value(5.0).replicas(5.4, starting), 2, "within the tolerance");
        assert_eq!(MetricTarget::Average(5.0).replicas(11.0, scale(1)), 3);
        assert_eq!(MetricTarget::Average(5.0).replicas(0.0, scale(3)), 0);
        assert_eq!(MetricTarget::Average(5.0).replicas(6.0, scale(0)), 2, "from zero");
        assert_eq!(MetricTarget::Value(5.0).replicas(6.0, scale(0)), 2, "from zero");
        assert_eq!(
            MetricTarget::Value(5.0).replicas(5.0, scale(0)),
            1,
            "the tolerance is for replicas that there are"
        );
        assert_eq!(MetricTarget::Value(5.0).replicas(0.0, scale(0)), 0);
        for goal in [MetricTarget::Value(3.0), MetricTarget::Average(3.0)] {
            assert_eq!(goal.replicas(goal.neutral(scale(4)), scale(4)), 4);
        }
    }

    #[test]
    fn scaling_up_is_immediate_and_scaling_down_waits_for_its_window() {
        let at = Duration::from_secs;
        let mut recommendations = Recommendations::default();
        assert_eq!(recommendations.stabilize(3, 1, None, at(0)), 3);
        assert_eq!(recommendations.stabilize(1, 3, None, at(10)), 3);
        assert_eq!(recommendations.stabilize(2, 3, None, at(309)), 2);

        let mut recommendations = Recommendations::default();
        let desired = [0, 299, 300].map(|seconds| recommendations.stabilize(1, 3, None, at(seconds)));
        assert_eq!(desired, [3, 3, 1], "an autoscaler that starts does not scale down at once");

        let rules = |seconds, policy: Option<&str>| HPAScalingRules {
            stabilization_window_seconds: Some(seconds),
            select_policy: policy.map(str::to_owned),
            ..HPAScalingRules::default()
        };
        let hour = HorizontalPodAutoscalerBehavior { scale_up: None, scale_down: Some(rules(3600, None)) };
        let mut recommendations = Recommendations::default();
        let mut desired = |seconds| recommendations.stabilize(1, 9, Some(&hour), at(seconds));
        assert!((0..3600).all(|second| desired(second) == 9), "the first one holds for the whole window");
        assert_eq!(desired(3600), 1);

        let behavior = HorizontalPodAutoscalerBehavior {
            scale_up: Some(rules(60, None)),
            scale_down: Some(rules(0, Some("Disabled"))),
        };
        let mut recommendations = Recommendations::default();
        assert_eq!(recommendations.stabilize(1, 1, Some(&behavior), at(0)), 1);
        assert_eq!(recommendations.stabilize(4, 1, Some(&behavior), at(30)), 1);
        assert_eq!(recommendations.stabilize(4, 1, Some(&behavior), at(61)), 4);
        assert_eq!(recommendations.stabilize(1, 4, Some(&behavior), at(200)), 4, "never down");
    }
}
