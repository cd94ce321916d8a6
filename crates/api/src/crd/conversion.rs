//! The converters between the versions of Longboat's kinds.

use serde_json::{Value, json};

/// The converter in a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// A webhook behind a Service, which clusters need. The process that serves the webhook fills in its CA.
    Webhook(WebhookService),
    /// The API server itself, with in-process functions, as in the embedded API server.
    InProcess,
}

/// The Service in front of a conversion webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookService {
    /// Name of the Service.
    pub name: String,
    /// Namespace of the Service.
    pub namespace: String,
}

// === impl WebhookService ===

impl Default for WebhookService {
    /// The names in KServe's manifests.
    fn default() -> Self {
        Self { name: "llmisvc-webhook-server-service".to_owned(), namespace: "kserve".to_owned() }
    }
}

// === impl Conversion ===

impl Default for Conversion {
    /// The converter for clusters.
    fn default() -> Self {
        Self::Webhook(WebhookService::default())
    }
}

impl Conversion {
    /// Returns the `conversion` stanza of a CRD, or `None` if the API server needs none.
    pub(super) fn stanza(&self) -> Option<Value> {
        let Self::Webhook(service) = self else { return None };
        Some(json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {
                    "name": service.name, "namespace": service.namespace, "path": "/convert", "port": 443,
                }},
                "conversionReviewVersions": ["v1", "v1beta1"],
            },
        }))
    }
}
