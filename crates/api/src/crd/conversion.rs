//! Who converts objects between the versions of our kinds.

use serde_json::{Value, json};

/// Who converts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// A webhook behind a Service: what clusters need. Its CA is filled in by whoever runs the webhook.
    Webhook(WebhookService),
    /// The API server itself, by our own functions: what the embedded one does.
    InProcess,
}

/// The Service in front of a conversion webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookService {
    /// Name of the Service.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

// === impl WebhookService ===

impl Default for WebhookService {
    /// The names that the reference's manifests use.
    fn default() -> Self {
        Self { name: "llmisvc-webhook-server-service".to_owned(), namespace: "kserve".to_owned() }
    }
}

// === impl Conversion ===

impl Default for Conversion {
    /// What clusters need.
    fn default() -> Self {
        Self::Webhook(WebhookService::default())
    }
}

impl Conversion {
    /// The `conversion` stanza of a CRD; none where the API server needs none.
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
