//! Tests privilege escalation: a user with limited rights writes the same roles and bindings on both servers.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{api::Api, comparable};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/rights/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/rights/rolebindings";

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str) -> Value {
    json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": kind, "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
}

/// Creates the roles and bindings as the administrator.
fn set_up(api: &Api) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    api.make_namespace("rights");
    let writes = rule(&[GROUP], &["roles", "rolebindings"], &["create", "update", "patch", "get"]);
    let reads = rule(&[""], &["pods", "*/scale"], &["get", "list"]);
    let mut named = rule(&[""], &["configmaps"], &["*"]);
    named["resourceNames"] = json!(["a"]);
    let namespaces = rule(&[""], &["namespaces"], &["get"]);
    api.post(ROLES, &role("may", &[writes, reads, named, namespaces])).ok();
    api.post(BINDINGS, &binding("may", "Role", "may")).ok();
    api.post(ROLES, &role("big", &[rule(&[""], &["secrets"], &["*"])])).ok();
    let roles = format!("{RBAC}/clusterroles");
    api.post(&roles, &role("reads-secrets", &[rule(&[""], &["secrets"], &["get"])])).ok();
    api.post(&roles, &role("reads-pods", &[rule(&[""], &["pods"], &["get"])])).ok();
    api.post(&roles, &role("writes", &[rule(&[GROUP], &["clusterroles"], &["create", "update"])])).ok();
    api.post(&format!("{RBAC}/clusterrolebindings"), &binding("writes", "ClusterRole", "writes")).ok();
}

/// A request of the user: method, path, content type, body.
type Step = (Method, String, &'static str, Value);

fn steps() -> Vec<Step> {
    let json = "application/json";
    let merge = "application/merge-patch+json";
    let post = |path: &str, body: Value| (Method::POST, path.to_owned(), json, body);
    let patch = |name: &str, body: Value| (Method::PATCH, format!("{ROLES}/{name}"), merge, body);
    let pods = |verbs: &[&str]| rule(&[""], &["pods"], verbs);
    let secrets = rule(&[""], &["secrets", "pods/log"], &["get", "delete"]);
    let mut one = rule(&[""], &["configmaps"], &["get", "delete"]);
    one["resourceNames"] = json!(["a"]);
    let mut two = one.clone();
    two["resourceNames"] = json!(["a", "b"]);
    let gathers = json!({"metadata": {"name": "gathers"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let paths = json!([{"nonResourceURLs": ["/logs", "/x/*"], "verbs": ["get", "post"]}]);
    let namespace =
        |name: &str, method: Method| (method, format!("/api/v1/namespaces/{name}"), json, Value::Null);
    vec![
        namespace("rights", Method::GET),
        namespace("rights", Method::DELETE),
        namespace("default", Method::GET),
        post(ROLES, role("fine", &[pods(&["get"]), one])),
        post(ROLES, role("scale", &[rule(&[""], &["deployments/scale"], &["get"])])),
        post(ROLES, role("two", &[two])),
        post(ROLES, role("much", &[pods(&["get", "delete"]), secrets.clone()])),
        post(ROLES, role("all", &[pods(&["*"]), rule(&["*"], &["*"], &["get"])])),
        patch("fine", json!({"metadata": {"labels": {"a": "b"}}})),
        patch("fine", json!({"rules": [secrets]})),
        patch("big", json!({"metadata": {"labels": {"a": "b"}}})),
        patch("big", json!({"metadata": {"finalizers": ["a/b"]}})),
        patch("big", json!({"rules": []})),
        post(BINDINGS, binding("fine", "Role", "fine")),
        post(BINDINGS, binding("big", "Role", "may")),
        post(BINDINGS, binding("secrets", "ClusterRole", "reads-secrets")),
        post(BINDINGS, binding("pods", "ClusterRole", "reads-pods")),
        post(BINDINGS, binding("none", "Role", "none")),
        post(BINDINGS, binding("nothing", "ClusterRole", "none")),
        post(&format!("{RBAC}/clusterroles"), gathers),
        post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "paths"}, "rules": paths})),
        post(&format!("{RBAC}/clusterroles"), role("global", &[pods(&["get"])])),
    ]
}

/// Returns the differences between the answers as text.
pub(crate) fn differences(real: &Api, ours: &Api) -> Vec<String> {
    for api in [real, ours] {
        set_up(api);
    }
    let mut found = Vec::new();
    let mut compare = || {
        for (method, path, content_type, body) in steps() {
            let [expected, answer] = [real, ours].map(|api| {
                comparable(&api.as_user("u").send(method.clone(), &path, content_type, body.to_string()))
            });
            if expected != answer {
                found.push(format!("{method} {path} {body}\n  real {expected}\n  ours {answer}"));
            }
        }
    };
    compare();
    // the same steps again by a user who may escalate and bind
    let more = rule(&["rbac.authorization.k8s.io"], &["roles", "clusterroles"], &["escalate", "bind"]);
    for api in [real, ours] {
        api.post(ROLES, &role("more", std::slice::from_ref(&more))).ok();
        api.post(BINDINGS, &binding("more", "Role", "more")).ok();
    }
    compare();
    found
}
