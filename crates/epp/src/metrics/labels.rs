//! The labels of the series.

use longboat_metrics::labels;
use prometheus_client::encoding::EncodeLabelSet;

use super::label_value::LabelValue;

labels! {
    /// The model that a client named, and the one that its request was sent to.
    pub(crate) struct Models { model_name: LabelValue, target_model_name: LabelValue }
    /// The labels of all series about requests.
    pub(crate) struct RequestLabels { #[prometheus(flatten)] models: Models, fairness_id: LabelValue, priority: i64 }
    pub(super) struct LegacyRequestLabels { #[prometheus(flatten)] models: Models, priority: i64 }
    pub(super) struct ErrorLabels { #[prometheus(flatten)] request: RequestLabels, error_code: String }
    pub(super) struct LegacyErrorLabels { #[prometheus(flatten)] models: Models, error_code: String }
    pub(super) struct ModelLabel { model_name: LabelValue }
    pub(super) struct PoolLabel { name: String }
    pub(super) struct EndpointLabels { #[prometheus(flatten)] pool: PoolLabel, model_server_endpoint: String }
    pub(super) struct PodLabels { #[prometheus(flatten)] pool: PoolLabel, model_server_pod: String }
    pub(super) struct AttemptLabels {
        status: &'static str, target_model_name: LabelValue, endpoint_name: String, namespace: String,
        port: String,
    }
    pub(super) struct SourceLabel { source_type: &'static str }
    pub(super) struct ExtractorLabels { source_type: &'static str, extractor_type: &'static str }
    pub(super) struct InfoLabels { commit: &'static str, build_ref: &'static str }
    pub(super) struct RewriteLabels { model_rewrite_name: LabelValue, model_name: LabelValue, target_model: LabelValue }
    pub(super) struct OutcomeLabel { outcome: &'static str }
    pub(super) struct StreamingLabels { #[prometheus(flatten)] request: RequestLabels, streaming: &'static str }
    pub(super) struct PodAttemptLabels {
        status: &'static str, target_model_name: LabelValue, pod_name: String, namespace: String, port: String,
    }
    pub(super) struct LoadLabels {
        endpoint_name: String, namespace: String, producer_name: String, fairness_id: String, priority: i64,
    }
}
