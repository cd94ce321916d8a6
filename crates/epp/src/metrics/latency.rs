//! Metrics of predicted latency: measured times, predicted times, and the responses that are too late.

use std::time::Duration;

use longboat_api::picker_plugins::LATENCY_PRODUCER;
use longboat_metrics::{Buckets, Decimal, Histograms, labels, metrics};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{
    buckets::{LATENCY, PREDICTING, TOKEN},
    labels::{Models, RequestLabels},
    page_space::{PageSpace, SeriesGroup},
};

labels! {
    struct PluginLabels { plugin_name: String, plugin_type: &'static str, #[prometheus(flatten)] models: Models }
    struct ModelTypeLabels { #[prometheus(flatten)] models: Models, r#type: &'static str }
    struct PluginTypeLabels { #[prometheus(flatten)] plugin: PluginLabels, r#type: &'static str }
    struct CallLabels { call: &'static str, outcome: &'static str }
}

/// A histogram of times, under the present name and the former one.
#[derive(Debug, Clone)]
struct Times {
    present: Option<Histograms<PluginLabels>>,
    former: Histograms<Models>,
}

metrics! {
    /// The series of predicted latency. Clones share the same series.
    #[derive(Debug, Clone)]
    pub(crate) struct LatencyMetrics(
        histograms: PageSpace,
        ttft: Times,
        tpot: Times,
        predicted_ttft: Times,
        predicted_tpot: Times,
        predicting: [Times; 2]
    ) {
        violations: Family<PluginTypeLabels, Counter>
            => "llm_d_epp_request_slo_violation", "Responses that took longer than the limit of their request";
        former_violations: Family<ModelTypeLabels, Counter>
            => "inference_objective_request_slo_violation",
            "Responses that took longer than the limit of their request";
        last: Family<PluginTypeLabels, Decimal>
            => "llm_d_epp_inference_request_metric",
            "Latest value of each number about predicted latency, in seconds";
        former_last: Family<ModelTypeLabels, Decimal>
            => "inference_objective_inference_request_metric",
            "Latest value of each number about predicted latency, in seconds";
        calls: Family<CallLabels, Counter>
            => "llm_d_epp_latency_predictor_calls",
            "Requests for predictions and for training to a latency predictor";
    }
}

/// All series of a request.
const SERIES: SeriesGroup = SeriesGroup("latency", 316);

/// One of the two times of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// Until the first token.
    First,
    /// For each further token.
    Further,
}

impl LatencyMetrics {
    /// Registers the series.
    pub(super) fn new(registry: &mut Registry, histograms: PageSpace) -> Self {
        let mut times = |present: bool, name: &str, help: &str, edges: &'static [f64]| {
            let times = Times {
                present: present.then(|| Family::new_with_constructor(Buckets(edges))),
                former: Family::new_with_constructor(Buckets(edges)),
            };
            if let Some(family) = &times.present {
                registry.register(format!("llm_d_epp_request_{name}"), help, family.clone());
            }
            registry.register(format!("inference_objective_request_{name}"), help, times.former.clone());
            times
        };
        let help = "Time until the first token, as reported to the predictor";
        // The present name of the measured time is among the series of all requests.
        let ttft = times(false, "ttft_seconds", help, LATENCY);
        let tpot =
            times(false, "tpot_seconds", "Time for each further token, as reported to the predictor", TOKEN);
        let predicted_ttft =
            times(true, "predicted_ttft_seconds", "Predicted time until the first token", LATENCY);
        let predicted_tpot =
            times(true, "predicted_tpot_seconds", "Predicted time for each further token", TOKEN);
        let help = "Time to get predictions for a request";
        let predicting = ["ttft_prediction_duration_seconds", "tpot_prediction_duration_seconds"]
            .map(|name| times(true, name, help, PREDICTING));
        Self::register(registry, histograms, ttft, tpot, predicted_ttft, predicted_tpot, predicting)
    }

    /// Counts a request for predictions. The outcome is `answered`, `failed` or `late`.
    pub(crate) fn asked(&self, outcome: &'static str) {
        self.calls.get_or_create(&CallLabels { call: "predict", outcome }).inc();
    }

    /// Counts a call to the training server. The outcome is `answered` or `failed`.
    pub(crate) fn count_training(&self, outcome: &'static str) {
        self.calls.get_or_create(&CallLabels { call: "train", outcome }).inc();
    }

    /// Measures how long predictions took.
    pub(crate) fn predicted_within(&self, plugin: &str, labels: &RequestLabels, took: Duration) {
        let labels = &self.histograms.of_served(labels, SERIES);
        let took = took.as_secs_f64();
        let names = ["ttft_prediction_duration", "tpot_prediction_duration"];
        for (times, name) in self.predicting.iter().zip(names) {
            self.observe(times, plugin, labels, name, took);
        }
    }

    /// Records a measured time with its prediction and its objective, in seconds. A missing prediction or objective is 0.
    pub(crate) fn measured(
        &self,
        plugin: &str,
        labels: &RequestLabels,
        time: Time,
        (actual, predicted, wanted): (f64, f64, f64),
    ) {
        let labels = &self.histograms.of_served(labels, SERIES);
        let (measured, foreseen, names) = match time {
            Time::First => {
                (&self.ttft, &self.predicted_ttft, ["ttft", "predicted_ttft", "ttft_slo_violation"])
            }
            Time::Further => {
                (&self.tpot, &self.predicted_tpot, ["tpot", "predicted_tpot", "tpot_slo_violation"])
            }
        };
        self.observe(measured, plugin, labels, names[0], actual);
        self.observe(foreseen, plugin, labels, names[1], predicted);
        if wanted > 0.0 {
            let late = actual > wanted;
            self.set(plugin, labels, names[2], if late { 1.0 } else { 0.0 });
            if late {
                self.violations.get_or_create(&type_labels(plugin, labels, names[0])).inc();
                self.former_violations.get_or_create(&former_labels(labels, names[0])).inc();
            }
        }
    }

    fn observe(&self, times: &Times, plugin: &str, labels: &RequestLabels, name: &'static str, seconds: f64) {
        times.former.get_or_create(&labels.models).observe(seconds);
        if let Some(present) = &times.present {
            present.get_or_create(&plugin_labels(plugin, labels)).observe(seconds);
        }
        self.set(plugin, labels, name, seconds);
    }

    fn set(&self, plugin: &str, labels: &RequestLabels, name: &'static str, value: f64) {
        self.last.get_or_create(&type_labels(plugin, labels, name)).set(value);
        self.former_last.get_or_create(&former_labels(labels, name)).set(value);
    }
}

fn plugin_labels(plugin: &str, labels: &RequestLabels) -> PluginLabels {
    PluginLabels {
        plugin_name: plugin.to_owned(),
        plugin_type: LATENCY_PRODUCER,
        models: labels.models.clone(),
    }
}

fn type_labels(plugin: &str, labels: &RequestLabels, name: &'static str) -> PluginTypeLabels {
    PluginTypeLabels { plugin: plugin_labels(plugin, labels), r#type: name }
}

fn former_labels(labels: &RequestLabels, name: &'static str) -> ModelTypeLabels {
    ModelTypeLabels { models: labels.models.clone(), r#type: name }
}
