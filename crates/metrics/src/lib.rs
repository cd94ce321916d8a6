//! Tables of metrics and of their labels. A line of [`metrics!`] is a field, its names in Prometheus and its help, so that none
//! of them can be forgotten or registered under the name of another.

use std::sync::atomic::AtomicU64;

pub use prometheus_client;
use prometheus_client::metrics::{
    family::{Family, MetricConstructor},
    gauge::Gauge,
    histogram::Histogram,
};

/// The media type of a page of metrics, as `prometheus_client` writes it.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A gauge of a number that is not whole.
pub type Decimal = Gauge<f64, AtomicU64>;

/// Histograms by their labels.
pub type Histograms<L> = Family<L, Histogram, Buckets>;

/// The bucket boundaries of a histogram.
#[derive(Debug, Clone, Copy)]
pub struct Buckets(pub &'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Declares a struct whose fields are metrics: `create` makes them, `add_to` adds them to a registry, and `register` does
/// both.
///
/// A metric may have several names, and a unit, which the encoder adds to its name. Fields in parentheses are no metrics, but
/// arguments.
///
/// ```
/// # use longboat_metrics::{Buckets, metrics, prometheus_client::metrics::{family::MetricConstructor as _, gauge::Gauge, histogram::Histogram}};
/// metrics! {
///     /// What a queue does.
///     struct QueueMetrics(limit: usize) {
///         length: Gauge => "queue_length" | "former_queue_length", "Waiting requests";
///         waits: Histogram = Buckets(&[0.1, 1.0]).new_metric() => "queue_wait" in Seconds, "Time in the queue";
///     }
/// }
/// ```
#[macro_export]
macro_rules! metrics {
    (@new $Metric:ty) => { <$Metric>::default() };
    (@new $Metric:ty, $new:expr) => { $new };
    (@register $registry:ident, $metric:expr, $help:expr, $name:literal) => {
        $registry.register($name, $help, $metric)
    };
    (@register $registry:ident, $metric:expr, $help:expr, $name:literal in $unit:ident) => {
        $registry.register_with_unit($name, $help, $crate::prometheus_client::registry::Unit::$unit, $metric)
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $Metrics:ident $(($($plain_visibility:vis $plain:ident: $Plain:ty),+))? {
            $(
                $(#[$field_attribute:meta])*
                $field_visibility:vis $field:ident: $Metric:ty $(= $new:expr)?
                    => $($name:literal $(in $unit:ident)?)|+, $help:expr;
            )+
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $Metrics {
            $($($plain_visibility $plain: $Plain,)+)?
            $($(#[$field_attribute])* $field_visibility $field: $Metric,)+
        }

        #[allow(dead_code, reason = "most tables are registered once, as they are made")]
        impl $Metrics {
            /// Makes the metrics, and adds them to a registry.
            $visibility fn register(
                registry: &mut $crate::prometheus_client::registry::Registry,
                $($($plain: $Plain,)+)?
            ) -> Self {
                let metrics = Self::create($($($plain),+)?);
                metrics.add_to(registry);
                metrics
            }

            /// Makes the metrics.
            $visibility fn create($($($plain: $Plain),+)?) -> Self {
                Self {
                    $($($plain,)+)?
                    $($field: $crate::metrics!(@new $Metric $(, $new)?),)+
                }
            }

            /// Adds the metrics to a registry.
            $visibility fn add_to(&self, registry: &mut $crate::prometheus_client::registry::Registry) {
                $($(
                    $crate::metrics!(@register registry, self.$field.clone(), $help, $name $(in $unit)?);
                )+)+
            }
        }
    };
}

/// Declares sets of labels, one a row: the name of a field is the name of the label.
///
/// ```
/// # use longboat_metrics::labels;
/// labels! {
///     struct QueueLabels { pool: String, priority: i64 }
/// }
/// ```
#[macro_export]
macro_rules! labels {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $Labels:ident { $($(#[$label_attribute:meta])* $label:ident: $Value:ty),+ $(,)? }
    )+) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, $crate::prometheus_client::encoding::EncodeLabelSet)]
        $visibility struct $Labels {
            $($(#[$label_attribute])* $visibility $label: $Value,)+
        }
    )+};
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    crate::metrics! {
        /// What a queue does.
        struct QueueMetrics(limit: i64) {
            length: Gauge => "queue_length" | "former_queue_length", "Waiting requests";
            waits: Histogram = Buckets(&[0.1]).new_metric() => "queue_wait" in Seconds, "Time in the queue";
        }
    }

    #[test]
    fn a_metric_is_on_the_page_under_each_of_its_names_with_its_unit() {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry, 3);
        metrics.length.set(metrics.limit);
        metrics.waits.observe(0.05);
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        assert_eq!(
            page,
            "# HELP queue_length Waiting requests.\n# TYPE queue_length gauge\nqueue_length 3\n\
             # HELP former_queue_length Waiting requests.\n# TYPE former_queue_length gauge\n\
             former_queue_length 3\n\
             # HELP queue_wait_seconds Time in the queue.\n# TYPE queue_wait_seconds histogram\n\
             # UNIT queue_wait_seconds seconds\nqueue_wait_seconds_sum 0.05\nqueue_wait_seconds_count 1\n\
             queue_wait_seconds_bucket{le=\"0.1\"} 1\nqueue_wait_seconds_bucket{le=\"+Inf\"} 1\n# EOF\n"
        );
    }
}
