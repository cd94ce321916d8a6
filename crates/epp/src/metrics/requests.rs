//! Metrics of a request, from its arrival to its end.

use std::time::Duration;

use longboat_scheduler::float;

use super::{
    InterChunkTimer, PickerMetrics, RenamedHistogram, RequestSummary,
    label_value::LabelValue,
    labels::{
        AttemptLabels, ErrorLabels, LegacyErrorLabels, LegacyRequestLabels, ModelLabel, Models, OutcomeLabel,
        PodAttemptLabels, RequestLabels, RewriteLabels, StreamingLabels,
    },
    page_space::SeriesGroup,
};
use crate::pool::Member;

/// The counters and gauges of a request, with those of its wait and of a few errors.
const COUNTERS: SeriesGroup = SeriesGroup("counters", 16);
/// Its histograms under their present names, with the times of its stream.
const PRESENT: SeriesGroup = SeriesGroup("present", 284);
/// Its histograms under their former names, which have no flow.
const FORMER: SeriesGroup = SeriesGroup("former", 164);

impl PickerMetrics {
    /// Marks a model as one that an endpoint serves or a rewrite names.
    pub(crate) fn serve(&self, model: &str) {
        self.models.serve(model);
    }

    /// Returns the labels of a request.
    pub(crate) fn labels(&self, model: &str, target: &str, fairness: &str, priority: i32) -> RequestLabels {
        let labels = RequestLabels {
            models: Models {
                model_name: self.models.label(model),
                target_model_name: self.models.label(target),
            },
            fairness_id: self.flows.label(fairness),
            priority: priority.into(),
        };
        self.counters.labels(&labels, COUNTERS)
    }

    /// Returns the labels of a request's histograms, under their present and their former names.
    fn of_histograms(&self, labels: &RequestLabels) -> (RequestLabels, Models) {
        let without_flow = RequestLabels { fairness_id: LabelValue::other(), priority: 0, ..labels.clone() };
        let former = self.histograms.of_served(&without_flow, FORMER);
        (self.histograms.of_served(labels, PRESENT), former.models)
    }

    pub(crate) fn started(&self, labels: &RequestLabels, bytes: usize) {
        self.series.requests.get_or_create(labels).inc();
        self.series
            .former_requests
            .get_or_create(&LegacyRequestLabels { models: labels.models.clone(), priority: labels.priority })
            .inc();
        self.request_bytes.observe(&self.of_histograms(labels), float(bytes as u64));
    }

    pub(crate) fn failed(&self, labels: &RequestLabels, code: &str) {
        self.series
            .errors
            .get_or_create(&ErrorLabels { request: labels.clone(), error_code: code.to_owned() })
            .inc();
        self.series
            .former_errors
            .get_or_create(&LegacyErrorLabels { models: labels.models.clone(), error_code: code.to_owned() })
            .inc();
    }

    pub(crate) fn scheduled(&self, took: Duration, target: &str, endpoint: Option<&Member>) {
        self.series.scheduling.observe(took.as_secs_f64());
        let endpoint = endpoint.map(|member| &member.endpoint);
        let labels = AttemptLabels {
            status: if endpoint.is_some() { "success" } else { "failure" },
            target_model_name: self.models.label(target),
            endpoint_name: endpoint.map(|endpoint| endpoint.name.clone()).unwrap_or_default(),
            namespace: endpoint.map(|endpoint| endpoint.namespace.clone()).unwrap_or_default(),
            port: endpoint.map(|endpoint| endpoint.address.port().to_string()).unwrap_or_default(),
        };
        // A pick that failed is of no endpoint, and its series stays.
        let of = endpoint.map_or_else(String::new, |endpoint| endpoint.full_name());
        self.series.attempts.count(&of, &labels);
        let former = PodAttemptLabels {
            status: labels.status,
            target_model_name: labels.target_model_name,
            pod_name: labels.endpoint_name,
            namespace: labels.namespace,
            port: labels.port,
        };
        self.series.former_attempts.count(&of, &former);
    }

    pub(crate) fn running(&self, labels: &RequestLabels, change: i64) {
        self.series.running.get_or_create(labels).inc_by(change);
        let model = ModelLabel { model_name: labels.models.model_name.clone() };
        self.series.former_running.get_or_create(&model).inc_by(change);
    }

    pub(crate) fn finished(&self, labels: &RequestLabels, end: RequestSummary) {
        let histograms = &self.of_histograms(labels);
        self.durations.observe(histograms, end.duration.as_secs_f64());
        self.response_bytes.observe(histograms, float(end.response_bytes as u64));
        if let Some(first) = end.first_byte {
            let streaming = if end.stream { "true" } else { "false" };
            let labels = StreamingLabels { request: histograms.0.clone(), streaming };
            self.series.first_byte.get_or_create(&labels).observe(first.as_secs_f64());
        }
        if let Some(usage) = end.usage {
            self.input_tokens.observe(histograms, float(usage.input));
            self.output_tokens.observe(histograms, float(usage.output));
            self.cached_tokens.observe(histograms, float(usage.cached));
            if usage.output > 0 {
                self.per_token.observe(histograms, end.duration.as_secs_f64() / float(usage.output));
            }
            if let Some(first) = end.first_byte.filter(|_| end.stream && usage.output > 1) {
                let rest = end.duration.saturating_sub(first).as_secs_f64();
                let streamed = self.series.streamed_per_token.get_or_create(&histograms.0);
                streamed.observe(rest / float(usage.output - 1));
            }
        }
    }

    /// Returns the histogram of the times between the chunks of a response.
    pub(crate) fn chunk_gaps(&self, labels: &RequestLabels) -> InterChunkTimer {
        self.stream.began(&self.of_histograms(labels).0)
    }

    pub(crate) fn rewritten(&self, rewrite: &str, model: &str, target: &str) {
        self.series
            .rewrites
            .get_or_create(&RewriteLabels {
                model_rewrite_name: self.models.label(rewrite),
                model_name: self.models.label(model),
                target_model: self.models.label(target),
            })
            .inc();
    }

    /// Counts a call to a tokenizer. The outcome is `answered`, `failed` or `late`.
    pub(crate) fn token_lookup(&self, outcome: &'static str) {
        self.series.token_lookups.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Measures the time from a request's arrival until it goes on to an endpoint.
    pub(crate) fn processed(&self, took: Duration) {
        self.series.processing.observe(took.as_secs_f64());
    }

    /// Measures a response. For a stream, this is the picker's own time; otherwise it is the time from the response's headers
    /// to its end.
    pub(crate) fn responded(&self, took: Duration) {
        self.series.responding.observe(took.as_secs_f64());
    }
}

impl RenamedHistogram {
    fn observe(&self, (present, former): &(RequestLabels, Models), value: f64) {
        self.present.get_or_create(present).observe(value);
        self.former.get_or_create(former).observe(value);
    }
}
