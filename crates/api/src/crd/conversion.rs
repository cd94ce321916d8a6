//! How an API server converts between the versions of Longboat's kinds.

use longboat_key::Namespace;
use serde_json::{Value, json};

use crate::names::{CONVERSION_WEBHOOK_PATH, DEFAULT_SYSTEM_NAMESPACE, WEBHOOK_SERVICE};

/// The address at which an API server calls the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookTarget {
    /// Behind the Service [`WEBHOOK_SERVICE`] of a namespace.
    Service {
        /// The namespace.
        namespace: Namespace,
    },
    /// At a URL, for a controller outside of the cluster.
    Url {
        /// `https://HOST:PORT`
        base: String,
    },
}

// === impl WebhookTarget ===

impl Default for WebhookTarget {
    /// That of KServe's manifests.
    fn default() -> Self {
        Self::Service { namespace: Namespace(DEFAULT_SYSTEM_NAMESPACE).to_shared() }
    }
}

impl WebhookTarget {
    /// Returns the `conversion` stanza of a CRD. The process that serves the webhook fills in its CA.
    pub(super) fn conversion(&self) -> Value {
        let client = match self {
            Self::Service { namespace } => json!({"service": {
                "name": WEBHOOK_SERVICE, "namespace": **namespace, "path": CONVERSION_WEBHOOK_PATH, "port": 443,
            }}),
            Self::Url { base } => json!({"url": format!("{base}{CONVERSION_WEBHOOK_PATH}")}),
        };
        json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"]},
        })
    }
}
