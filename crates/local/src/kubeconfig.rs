//! The kubeconfig that points kubectl at a local cluster.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// A kubeconfig with one cluster, user and context, all named `longboat`.
pub(crate) fn kubeconfig(url: &str, ca_pem: &str, token: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "longboat",
            "cluster": {"server": url, "certificate-authority-data": ByteString(ca_pem.as_bytes().to_vec())},
        }],
        "users": [{"name": "longboat", "user": {"token": token}}],
        "contexts": [{
            "name": "longboat",
            "context": {"cluster": "longboat", "user": "longboat", "namespace": namespace},
        }],
        "current-context": "longboat",
    })
}
