//! The loop that aggregates cluster roles: it copies the rules of the roles that an `aggregationRule` selects.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    edit::edit_stored,
    state::State,
    store::{StoredObject, WriteError},
    strategy,
};

/// The table of cluster roles.
const ROLES: &str = "rbac.authorization.k8s.io/clusterroles";

/// Runs until `shutdown`.
pub(super) async fn run(state: &Arc<State>, shutdown: &CancellationToken) {
    let mut changes = state.store.subscribe(ROLES);
    loop {
        changes.borrow_and_update();
        let roles = state.store.list(ROLES, None).objects;
        let all: Vec<&Value> = roles.iter().map(|(_, stored)| &*stored.value).collect();
        for (key, stored) in &roles {
            if let Err(error) = aggregate(state, stored, &all) {
                tracing::debug!(%error, name = %key.name, "Cannot aggregate the rules of a cluster role.");
            }
        }
        let Some(Ok(())) = shutdown.run_until_cancelled(changes.changed()).await else { return };
    }
}

/// Sets the rules of a role if it is aggregated.
fn aggregate(state: &State, stored: &Arc<StoredObject>, all: &[&Value]) -> Result<(), WriteError> {
    edit_stored(state, ROLES, stored, |role| {
        // Decided anew in each attempt: a role that is no longer aggregated keeps the rules that its user has given it.
        if let Some(gathered) = aggregated_rules(role, all) {
            role["rules"] = gathered;
        }
    })
    .map(drop)
}

/// Returns the rules of the roles that `role` selects, without duplicates, ordered by role name. Returns `None` if `role`
/// has no `aggregationRule`.
fn aggregated_rules(role: &Value, all: &[&Value]) -> Option<Value> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let mut found: Vec<&&Value> = all
        .iter()
        .filter(|other| other["metadata"]["name"] != role["metadata"]["name"])
        .filter(|other| selectors.iter().any(|s| strategy::selects(s, &other["metadata"]["labels"])))
        .collect();
    found.sort_by_key(|other| other["metadata"]["name"].as_str());
    let mut rules: Vec<&Value> = Vec::new();
    for rule in found.iter().flat_map(|other| other["rules"].as_array().into_iter().flatten()) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Some(if rules.is_empty() { Value::Null } else { rules.into_iter().cloned().collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ApiServer, Options, store::Key};

    #[test]
    fn a_role_that_is_no_longer_aggregated_keeps_its_rules() {
        let server = ApiServer::new(Options::default()).unwrap();
        let (store, key) = (&server.state.store, Key::new("", "a"));
        let aggregated = json!({"metadata": {"name": "a", "uid": "1"}, "rules": null,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
        let seen = store.create(ROLES, key.clone(), aggregated, &[]).unwrap();
        let source =
            json!({"metadata": {"name": "b", "labels": {"a": "b"}}, "rules": [{"resources": ["pods"]}]});
        aggregate(&server.state, &seen, &[&source]).unwrap();
        let gathered = store.get(ROLES, &key).unwrap();
        assert_eq!(gathered.value["rules"], source["rules"]);
        let own = json!({"metadata": {"name": "a", "uid": "1"}, "rules": [{"resources": ["nodes"]}]});
        store.update(ROLES, key.clone(), gathered.revision, own.clone()).unwrap();
        aggregate(&server.state, &gathered, &[&source]).unwrap();
        assert_eq!(store.get(ROLES, &key).unwrap().value["rules"], own["rules"]);
    }

    #[test]
    fn a_role_gathers_the_rules_of_those_that_it_selects_each_once() {
        let role = |name: &str, labels: Value, rules: Value| json!({"metadata": {"name": name, "labels": labels}, "rules": rules});
        let (pods, nodes) = (json!({"resources": ["pods"]}), json!({"resources": ["nodes"]}));
        let selectors = json!([{"matchLabels": {"a": "b"}}, {"matchLabels": {"c": "d"}}]);
        let mut view = role("view", json!({"a": "b"}), json!([{"resources": ["own"]}]));
        view["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        let roles = [
            role("z", json!({"a": "b"}), json!([pods])),
            role("y", json!({"c": "d"}), json!([nodes, pods])),
            role("x", json!({"a": "other"}), json!([{"resources": ["secrets"]}])),
        ];
        let mut all: Vec<&Value> = roles.iter().collect();
        all.push(&view);
        assert_eq!(aggregated_rules(&view, &all), Some(json!([nodes, pods])));
        assert_eq!(aggregated_rules(&view, &[&view]), Some(Value::Null));
        assert_eq!(aggregated_rules(&roles[0], &all), None);
    }
}
