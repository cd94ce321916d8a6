//! RBAC authorization: evaluates the rules of the roles that are bound to a user.
//!
//! The administrator, and everybody in `system:masters`, may do everything. Kubernetes: plugin/pkg/auth/authorizer/rbac.

pub(crate) mod escalation;

use http::Method;
use serde_json::{Value, json};

use crate::{
    request::User,
    status::ApiError,
    store::{Key, Store},
    verbs::Call,
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// An operation that needs authorization.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AccessRequest<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) name: &'a str,
    /// `None` for all namespaces, and for cluster-scoped objects.
    pub(crate) namespace: Option<&'a str>,
}

/// Refuses a request that its user is not authorized to make.
pub(crate) fn check(call: &Call<'_>) -> Result<(), ApiError> {
    let user = &call.request.user;
    let resource = &call.resource;
    // Everybody may ask for their own rights.
    if user.is_master() || resource.plural.starts_with("selfsubject") {
        return Ok(());
    }
    let name = call.path.name.as_deref().unwrap_or_default();
    let watches = call.request.query.flag("watch") && call.request.query.get("watch").is_some();
    let verb = match (&call.request.method, name.is_empty()) {
        (&Method::GET | &Method::HEAD, false) => "get",
        (&Method::GET | &Method::HEAD, true) if watches => "watch",
        (&Method::GET | &Method::HEAD, true) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, false) => "delete",
        (&Method::DELETE, true) => "deletecollection",
        _ => "unknown",
    };
    let wish = AccessRequest {
        verb,
        group: &resource.group,
        resource: &resource.plural,
        subresource: call.path.subresource().unwrap_or_default(),
        name,
        // A Role of a namespace may also grant rights on the object of that namespace.
        namespace: call.review_namespace(name),
    };
    check_access(&call.state.store, user, &wish)
}

/// Refuses an operation that the user is not authorized for.
pub(crate) fn check_access(store: &Store, user: &User, wish: &AccessRequest<'_>) -> Result<(), ApiError> {
    if allows(store, user, wish) { Ok(()) } else { Err(forbidden(user, wish)) }
}

/// Whether a user may perform this operation.
pub(crate) fn allows(store: &Store, user: &User, wish: &AccessRequest<'_>) -> bool {
    user.is_master() || rules(store, user, wish.namespace).iter().any(|rule| grants(rule, wish))
}

/// Whether a user may access a non-resource path.
pub(crate) fn allows_path(store: &Store, user: &User, verb: &str, path: &str) -> bool {
    let lists = |rule: &Value, field: &str, fits: &dyn Fn(&str) -> bool| {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).any(fits)
    };
    user.is_master()
        || rules(store, user, None).iter().any(|rule| {
            lists(rule, "verbs", &|listed| listed == "*" || listed == verb) && grants_path(rule, path)
        })
}

/// Whether a rule covers a non-resource path.
fn grants_path(rule: &Value, path: &str) -> bool {
    let mut paths = rule["nonResourceURLs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    paths.any(|listed| match listed.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => listed == path,
    })
}

/// Returns every rule that applies to a user in a namespace, or in all namespaces.
pub(crate) fn rules(store: &Store, user: &User, namespace: Option<&str>) -> Vec<Value> {
    let mut rules = Vec::new();
    let mut add = |role: Option<Value>| {
        rules.extend(role.iter().filter_map(|role| role["rules"].as_array()).flatten().cloned());
    };
    let role = |kind: &Value, namespace: &str, name: &Value| {
        let (table, namespace) =
            if kind == "ClusterRole" { ("clusterroles", "") } else { ("roles", namespace) };
        let key = Key::new(namespace, name.as_str()?);
        Some(store.get(&format!("{GROUP}/{table}"), &key)?.value["rules"].clone())
            .map(|rules| json!({"rules": rules}))
    };
    for (_, binding) in store.list(&format!("{GROUP}/clusterrolebindings"), None).objects {
        if is_bound(&binding.value["subjects"], user, "") {
            add(role(&json!("ClusterRole"), "", &binding.value["roleRef"]["name"]));
        }
    }
    if let Some(namespace) = namespace {
        for (_, binding) in store.list(&format!("{GROUP}/rolebindings"), Some(namespace)).objects {
            if is_bound(&binding.value["subjects"], user, namespace) {
                let reference = &binding.value["roleRef"];
                add(role(&reference["kind"], namespace, &reference["name"]));
            }
        }
    }
    rules
}

fn is_bound(subjects: &Value, user: &User, namespace: &str) -> bool {
    subjects.as_array().into_iter().flatten().any(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            Some("User") => name == user.name,
            Some("Group") => user.groups.iter().any(|group| group == name),
            Some("ServiceAccount") => {
                let namespace = subject["namespace"].as_str().unwrap_or(namespace);
                user.name == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    })
}

fn grants(rule: &Value, wish: &AccessRequest<'_>) -> bool {
    let lists = |field: &str, fits: &dyn Fn(&str) -> bool| {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).any(fits)
    };
    let AccessRequest { verb, group, resource, subresource, name, .. } = *wish;
    let full = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    let names = rule["resourceNames"].as_array().is_some_and(|names| !names.is_empty());
    lists("verbs", &|listed| listed == "*" || listed == verb)
        && lists("apiGroups", &|listed| listed == "*" || listed == group)
        && lists("resources", &|listed| {
            listed == "*"
                || listed == full
                || (!subresource.is_empty() && listed.strip_prefix("*/") == Some(subresource))
        })
        && (!names || lists("resourceNames", &|listed| listed == name))
}

fn forbidden(user: &User, wish: &AccessRequest<'_>) -> ApiError {
    let AccessRequest { verb, group, resource, subresource, name, namespace } = *wish;
    let full = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    let kind = if group.is_empty() { full.clone() } else { format!("{full}.{group}") };
    let about = if name.is_empty() { kind } else { format!("{kind} \"{name}\"") };
    let place = namespace.map_or_else(
        || "at the cluster scope".to_owned(),
        |namespace| format!("in the namespace \"{namespace}\""),
    );
    let mut error = ApiError::new(
        403,
        "Forbidden",
        format!(
            "{about} is forbidden: User \"{}\" cannot {verb} resource \"{full}\" in API group \"{group}\" {place}",
            user.name
        ),
    );
    let mut details = json!({"kind": resource});
    for (key, value) in [("name", name), ("group", group)] {
        if !value.is_empty() {
            details[key] = value.into();
        }
    }
    error.details = details.as_object().cloned();
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_grants_what_it_lists_and_nothing_else() {
        let rule = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log", "*/scale"]});
        let wish = |verb, resource, subresource| AccessRequest {
            verb,
            resource,
            subresource,
            ..AccessRequest::default()
        };
        assert!(grants(&rule, &wish("get", "pods", "")));
        assert!(grants(&rule, &wish("get", "pods", "log")));
        assert!(grants(&rule, &wish("get", "deployments", "scale")));
        assert!(!grants(&rule, &wish("get", "pods", "exec")));
        assert!(!grants(&rule, &wish("delete", "pods", "")));
        assert!(!grants(&rule, &wish("get", "secrets", "")));
        assert!(!grants(&rule, &AccessRequest { group: "apps", ..wish("get", "pods", "") }));
        let named = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]});
        assert!(grants(&named, &AccessRequest { name: "a", ..wish("get", "secrets", "") }));
        assert!(!grants(&named, &wish("list", "secrets", "")));
    }
}
