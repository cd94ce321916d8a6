//! What a composition means for a service: condition, applied configs, and when to try again.

use longboat_api::{
    reasons::condition,
    v1alpha2::{AppliedConfig, ConfigSource},
};

use crate::error::{ComposeError, Retry};

/// Why an API server would refuse a service with the effective spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejection {
    /// Field and message of each cause.
    pub causes: Vec<(String, String)>,
    /// The whole error, for where there are no causes.
    pub message: String,
}

/// The `PresetsCombined` condition and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason; empty with `True`.
    pub reason: &'static str,
    /// The message; empty with `True`.
    pub message: String,
    /// What `status.appliedConfigs` becomes.
    pub applied: AppliedConfigs,
    /// Whether reconciling ends here, and what starts it again; none: it goes on.
    pub stop: Option<Retry>,
    /// Whether to go on with the service's own spec instead of the effective one.
    pub use_own_spec: bool,
}

/// What becomes of `status.appliedConfigs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppliedConfigs {
    /// They stay as they were.
    Keep,
    /// There are none.
    Clear,
    /// These.
    Set(Vec<AppliedConfig>),
}

impl Outcome {
    /// Composing failed. A stopped service goes on with its own spec, so that nothing hinders its removal.
    pub fn of_error(error: &ComposeError, stopped: bool) -> Self {
        if stopped {
            return Self::stopped(&error.to_string());
        }
        Self {
            status: "False",
            reason: error.reason(),
            message: error.to_string(),
            applied: AppliedConfigs::Clear,
            stop: Some(error.retry()),
            use_own_spec: false,
        }
    }

    /// Composing succeeded, and an API server would refuse the result, or accept it.
    pub fn of_merged(applied: &[AppliedConfig], rejection: Option<&Rejection>, stopped: bool) -> Self {
        let Some(rejection) = rejection else {
            return Self {
                status: "True",
                reason: "",
                message: String::new(),
                applied: AppliedConfigs::Set(applied.to_vec()),
                stop: None,
                use_own_spec: false,
            };
        };
        let message = rejection_message(applied, rejection);
        if stopped {
            return Self::stopped(&message);
        }
        Self {
            status: "False",
            reason: condition::INVALID_RENDERED_CONFIG,
            message,
            applied: AppliedConfigs::Set(applied.to_vec()),
            stop: Some(Retry::OnChange),
            use_own_spec: false,
        }
    }

    fn stopped(warning: &str) -> Self {
        Self {
            status: "False",
            reason: condition::STOPPED,
            message: format!("Service is stopped with warning: {warning}"),
            applied: AppliedConfigs::Keep,
            stop: None,
            use_own_spec: true,
        }
    }
}

/// In the words of the reference, which asks the API server by a dry-run.
fn rejection_message(applied: &[AppliedConfig], rejection: &Rejection) -> String {
    let configs: Vec<String> = applied
        .iter()
        .map(|config| {
            let source = match config.source {
                ConfigSource::Preset => "Preset",
                ConfigSource::UserRef => "UserRef",
            };
            format!("{source}:{}/{}", config.namespace, config.name)
        })
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
