//! Counts the stages of requests: whether the answering endpoint computes the prompt, or another endpoint does so first.

use longboat_api::picker_plugins::PD_HANDLER;
use longboat_metrics::labels;
use longboat_scheduler::{Disaggregation, Handler};
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

labels! {
    struct Labels {
        plugin_name: String, plugin_type: String, model_name: String, decision_type: &'static str,
    }
    struct FormerLabels { model_name: String, decision_type: &'static str }
}

#[derive(Debug, Default)]
struct Decisions {
    present: Family<Labels, Counter>,
    former: Family<FormerLabels, Counter>,
}

/// The series of disaggregation.
#[derive(Debug, Default)]
pub(crate) struct DisaggMetrics {
    all: Decisions,
    /// Counts the decisions of the handler of earlier routers.
    pairs: Decisions,
}

impl DisaggMetrics {
    /// Registers the series.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for (name, decisions) in [("disagg_decision", &metrics.all), ("pd_decision", &metrics.pairs)] {
            let help = "Requests by the stages that they go through";
            registry.register(format!("llm_d_epp_{name}"), help, decisions.present.clone());
            registry.register(format!("llm_d_inference_scheduler_{name}"), help, decisions.former.clone());
        }
        metrics
    }

    /// Counts the decision of a handler about a request for this model.
    pub(crate) fn decided(&self, handler: &Handler, model: &str, stages: Disaggregation) {
        let decisions = if handler.plugin_type == PD_HANDLER { &self.pairs } else { &self.all };
        let decision_type = match (stages.encode, stages.prefill) {
            (false, false) => "decode-only",
            (false, true) => "prefill-decode",
            (true, false) => "encode-decode",
            (true, true) => "encode-prefill-decode",
        };
        let labels = Labels {
            plugin_name: handler.name.clone(),
            plugin_type: handler.plugin_type.clone(),
            model_name: model.to_owned(),
            decision_type,
        };
        decisions.former.get_or_create(&FormerLabels { model_name: model.to_owned(), decision_type }).inc();
        decisions.present.get_or_create(&labels).inc();
    }
}
