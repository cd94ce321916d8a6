//! Which rights of the controller were used.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::server::Server;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Rights that no request of the shared cluster uses, by verb and resource (`*` is any), and why the controller has them.
const UNUSED: [(&str, &str, &str); 20] = [
    ("get", "*", "reads an object again whose write met a conflict"),
    ("*", "inferenceobjectives", "gives it to pickers, and only who has a right can give it"),
    ("*", "inferencemodels", "gives it to pickers"),
    ("*", "inferencemodelrewrites", "gives it to pickers"),
    ("*", "inferencepoolimports", "gives it to pickers"),
    ("*", "endpointslices", "gives it to pickers"),
    ("*", "leases", "gives it to pickers"),
    ("bind", "clusterroles", "is checked when a binding is written, without a request"),
    ("update", "llminferenceservices/finalizers", "is checked by an admission plugin, without a request"),
    ("patch", "llminferenceserviceconfigs/status", "a config whose status is as it was is not written"),
    (
        "patch",
        "customresourcedefinitions/status",
        "removes old stored versions, which a new cluster does not have",
    ),
    ("*", "configmaps", "copies the platform's CA bundle, which the shared cluster does not have"),
    ("*", "networkpolicies", "the platform of the shared cluster names no clients of pickers"),
    ("*", "poddisruptionbudgets", "the platform of the shared cluster asks for none"),
    ("update", "resourceclaimtemplates", "its spec is fixed, and nothing changes its labels"),
    ("*", "localmodelcaches", "the platform of the shared cluster has no local models"),
    ("list", "localmodelnodegroups", "the platform of the shared cluster has no local models"),
    ("*", "localmodelnamespacecaches", "the platform of the shared cluster has no local models"),
    ("create", "tokenreviews", "checks clients of the metrics, which are off in the shared cluster"),
    ("create", "subjectaccessreviews", "checks clients of the metrics, which are off in the shared cluster"),
];

/// A verb, a group and a resource.
type Right = (String, String, String);

/// Returns the rights of the controller that no request has used so far, except those that [`UNUSED`] explains.
pub(crate) fn unused(server: &Server) -> Vec<String> {
    let used = used(server);
    let mut unused = Vec::new();
    for role in ["kserve-llmisvc-manager-role", "llmisvc-secrets-role"] {
        let role = server.api.get(&format!("{ROLES}/{role}")).ok();
        for (verb, group, resource) in role["rules"].as_array().unwrap().iter().flat_map(granted) {
            let matches = |pattern: &str, text: &str| pattern == "*" || pattern == text;
            let is_explained = UNUSED
                .iter()
                .any(|(verbs, resources, _)| matches(verbs, &verb) && matches(resources, &resource));
            let text = format!("{verb} {resource}.{group}");
            if !is_explained && !used.contains(&(verb, group, resource)) {
                unused.push(text);
            }
        }
    }
    unused
}

fn granted(rule: &Value) -> Vec<Right> {
    let texts = |key: &str| -> Vec<&str> {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let mut all = Vec::new();
    for verb in texts("verbs") {
        for group in texts("apiGroups") {
            all.extend(
                texts("resources").iter().map(|resource| (verb.into(), group.into(), (*resource).into())),
            );
        }
    }
    all
}

fn used(server: &Server) -> BTreeSet<Right> {
    let log = std::fs::read_to_string(server.folder.join("audit.log")).unwrap_or_default();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events
        .map(|event| {
            let object = &event["objectRef"];
            let below = object["subresource"].as_str().map(|below| format!("/{below}")).unwrap_or_default();
            (text(&event["verb"]), text(&object["apiGroup"]), text(&object["resource"]) + &below)
        })
        .collect()
}
