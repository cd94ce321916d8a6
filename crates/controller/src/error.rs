//! Why the controller stops, and why a reconcile is tried again.

use longboat_key::Key;
use longboat_watch::{has_code, text_of};

/// Why the controller stops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task of the controller ended without a shutdown.
    #[error("a task of the controller stopped unexpectedly: {0}")]
    Task(String),
    /// A port cannot be opened.
    #[error("cannot listen on {address} for the {what}")]
    Listen {
        /// What is served on the port.
        what: &'static str,
        /// The address.
        address: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Flags contradict each other.
    #[error(transparent)]
    Settings(#[from] crate::webhook::settings::SettingsError),
    /// No leader could stay one.
    #[error(transparent)]
    Election(#[from] crate::election::ElectionError),
    /// Another replica may lead by now.
    #[error("lost the lease {lease}: {why}")]
    LeaseLost {
        /// Name of the lease.
        lease: &'static str,
        /// The reason.
        why: String,
    },
    /// The certificate of the webhooks cannot be used.
    #[error("cannot serve the webhooks")]
    Tls(#[from] longboat_tls::TlsError),
}

/// Why the reconcile of an object has to be tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// Somebody else changed an object at the same time. The watch reports its new state soon.
    #[error("another client changed {what}")]
    Conflict {
        /// The object.
        what: String,
    },
    /// A request failed.
    #[error("failed to {what}: {}", text_of(source))]
    Request {
        /// What was tried.
        what: String,
        source: kube::Error,
    },
    /// The status could not be written. An event says so.
    #[error("failed to update the status of {key}: {}", text_of(source))]
    Status {
        /// The object.
        key: Key,
        source: kube::Error,
    },
    /// No request failed, but the problem may disappear with time.
    #[error("{0}")]
    Unfinished(String),
}

impl From<longboat_plan::PlanError> for ReconcileError {
    fn from(error: longboat_plan::PlanError) -> Self {
        Self::Unfinished(error.to_string())
    }
}

impl ReconcileError {
    /// A failed request, as a conflict where the answer says so.
    pub(crate) fn request(what: impl Into<String>, source: kube::Error) -> Self {
        let what = what.into();
        if has_code(&source, 409) { Self::Conflict { what } } else { Self::Request { what, source } }
    }
}
