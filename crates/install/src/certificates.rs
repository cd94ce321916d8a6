//! The objects for cert-manager, if it issues the certificate of the webhooks.

use longboat_api::names::WEBHOOK_SERVICE;
use serde_json::{Value, json};

use crate::{
    metadata::metadata,
    names::{CERTIFICATE, CERTIFICATE_SECRET, INJECT_CA, ISSUER},
};

/// Returns a self-signing issuer, and the certificate.
pub(crate) fn objects(namespace: &str) -> [Value; 2] {
    let host = format!("{WEBHOOK_SERVICE}.{namespace}.svc");
    [
        json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": metadata(ISSUER, namespace),
            "spec": {"selfSigned": {}},
        }),
        json!({
            "apiVersion": "cert-manager.io/v1",
            "kind": "Certificate",
            "metadata": metadata(CERTIFICATE, namespace),
            "spec": {
                "commonName": host,
                "dnsNames": [host],
                "issuerRef": {"kind": "Issuer", "name": ISSUER},
                "secretName": CERTIFICATE_SECRET,
            },
        }),
    ]
}

/// Makes cert-manager write its CA into a webhook configuration or CRD.
pub(crate) fn inject(object: &mut Value, namespace: &str) {
    object["metadata"]["annotations"][INJECT_CA] = format!("{namespace}/{CERTIFICATE}").into();
}
