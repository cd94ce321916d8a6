//! The labels of the series.

use prometheus_client::encoding::EncodeLabelSet;

/// The labels of all series about requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) model_name: String,
    pub(crate) target_model_name: String,
    pub(crate) fairness_id: String,
    pub(crate) priority: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LegacyLabels {
    pub(super) model_name: String,
    pub(super) target_model_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LegacyRequestLabels {
    pub(super) model_name: String,
    pub(super) target_model_name: String,
    pub(super) priority: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ErrorLabels {
    pub(super) model_name: String,
    pub(super) target_model_name: String,
    pub(super) fairness_id: String,
    pub(super) priority: i64,
    pub(super) error_code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LegacyErrorLabels {
    pub(super) model_name: String,
    pub(super) target_model_name: String,
    pub(super) error_code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelLabel {
    pub(super) model_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PoolLabel {
    pub(super) name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct EndpointLabels {
    pub(super) name: String,
    pub(super) model_server_endpoint: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PodLabels {
    pub(super) name: String,
    pub(super) model_server_pod: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AttemptLabels {
    pub(super) status: &'static str,
    pub(super) target_model_name: String,
    pub(super) endpoint_name: String,
    pub(super) namespace: String,
    pub(super) port: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SourceLabel {
    pub(super) source_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExtractorLabels {
    pub(super) source_type: &'static str,
    pub(super) extractor_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct InfoLabels {
    pub(super) commit: &'static str,
    pub(super) build_ref: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RewriteLabels {
    pub(super) model_rewrite_name: String,
    pub(super) model_name: String,
    pub(super) target_model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabel {
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StreamingLabels {
    pub(super) model_name: String,
    pub(super) target_model_name: String,
    pub(super) fairness_id: String,
    pub(super) priority: i64,
    pub(super) streaming: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PodAttemptLabels {
    pub(super) status: &'static str,
    pub(super) target_model_name: String,
    pub(super) pod_name: String,
    pub(super) namespace: String,
    pub(super) port: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LoadLabels {
    pub(super) endpoint_name: String,
    pub(super) namespace: String,
    pub(super) producer_name: String,
    pub(super) fairness_id: String,
    pub(super) priority: i64,
}
