//! Admission policies that refuse requests.

use serde_json::json;

use crate::server::Server;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Creates a ValidatingAdmissionPolicy: the server refuses, as invalid and with `message`, each `operation` on these resources
/// for which `expression` does not hold. The policy takes effect a little later.
pub(crate) fn refuse(
    server: &Server,
    operation: &str,
    (group, resources): (&str, &[&str]),
    expression: &str,
    message: &str,
) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "refusing"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [group], "apiVersions": ["*"], "resources": resources, "operations": [operation],
            }]},
            "validations": [{"expression": expression, "message": message}],
        },
    });
    server.api.post(&format!("{GROUP}/validatingadmissionpolicies"), &policy).ok();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "refusing"},
        "spec": {"policyName": "refusing", "validationActions": ["Deny"]},
    });
    server.api.post(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).ok();
}

/// Removes the policy. The removal takes effect a little later.
pub(crate) fn accept(server: &Server) {
    server.api.delete(&format!("{GROUP}/validatingadmissionpolicybindings/refusing")).ok();
}
