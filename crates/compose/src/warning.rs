//! Warnings about a composition that succeeded.

use longboat_api::reasons::event;

/// A warning about a composition that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message.
    pub message: String,
}

impl Warning {
    pub(crate) fn latency_predictor_config_ref() -> Self {
        let message = "predicted-latency-producer plugin is deprecated, should be removed to avoid disruptions in the future";
        Self { reason: event::LATENCY_PREDICTOR_CONFIG_REF, message: message.to_owned() }
    }
}
