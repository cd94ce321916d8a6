//! Policies of a cluster that stand in somebody's way.

use serde_json::json;

use crate::server::Server;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Has the server refuse, soon, that this is done with resources of a group for which an expression does not hold; as invalid, and
/// with this message.
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

/// Has it accept all of that again, soon.
pub(crate) fn accept(server: &Server) {
    server.api.delete(&format!("{GROUP}/validatingadmissionpolicybindings/refusing")).ok();
}
