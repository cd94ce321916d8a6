//! The consequences of a composition: the condition, the applied configs, and when to retry.

use longboat_api::{reasons::condition, v1alpha2::AppliedConfig};

use crate::error::{ComposeError, Retry};

/// Why an API server would refuse a service with the composed spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejection {
    /// The field and the message of each cause.
    pub causes: Vec<(String, String)>,
    /// The complete error, used if there are no causes.
    pub message: String,
}

/// The `PresetsCombined` condition and further consequences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The reason why the condition is `False`; empty if it is `True`.
    pub reason: &'static str,
    /// The message; empty with `True`.
    pub message: String,
    /// The change of `status.appliedConfigs`.
    pub applied: AppliedConfigs,
    /// If the reconcile stops here, what starts it again. `None` if the reconcile goes on.
    pub stop: Option<Retry>,
    /// Whether the reconcile goes on with the service's own spec instead of the composed one.
    pub use_own_spec: bool,
}

/// The change of `status.appliedConfigs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AppliedConfigs {
    /// Keeps the list.
    #[default]
    Keep,
    /// Clears the list.
    Clear,
    /// Sets the list.
    Set(Vec<AppliedConfig>),
}

impl Outcome {
    /// The outcome of a failed composition. A stopped service goes on with its own spec, so that nothing blocks its removal.
    pub fn of_error(error: &ComposeError, stopped: bool) -> Self {
        if stopped {
            return Self::stopped(&error.to_string());
        }
        Self {
            reason: error.reason(),
            message: error.to_string(),
            applied: AppliedConfigs::Clear,
            stop: Some(error.retry()),
            use_own_spec: false,
        }
    }

    /// The outcome of a successful composition. `rejection` is set if an API server would refuse the result.
    pub fn of_merged(applied: &[AppliedConfig], rejection: Option<&Rejection>, stopped: bool) -> Self {
        let Some(rejection) = rejection else {
            return Self { applied: AppliedConfigs::Set(applied.to_vec()), ..Self::default() };
        };
        let message = rejection_message(applied, rejection);
        if stopped {
            return Self::stopped(&message);
        }
        Self {
            reason: condition::INVALID_RENDERED_CONFIG,
            message,
            applied: AppliedConfigs::Set(applied.to_vec()),
            stop: Some(Retry::OnChange),
            use_own_spec: false,
        }
    }

    fn stopped(warning: &str) -> Self {
        Self {
            reason: condition::STOPPED,
            message: format!("Service is stopped with warning: {warning}"),
            use_own_spec: true,
            ..Self::default()
        }
    }
}

/// The message of the reference, which asks the API server by a dry-run.
fn rejection_message(applied: &[AppliedConfig], rejection: &Rejection) -> String {
    let configs: Vec<String> = applied
        .iter()
        .map(|config| format!("{}:{}/{}", config.source.as_str(), config.namespace, config.name))
        .collect();
    let causes: Vec<String> = rejection
        .causes
        .iter()
        .map(
            |(field, message)| if field.is_empty() { message.clone() } else { format!("{field}: {message}") },
        )
        .collect();
    let detail = if causes.is_empty() { rejection.message.clone() } else { causes.join("; ") };
    format!("dry-run validation failed after merging configs [{}]: {detail}", configs.join(", "))
}
