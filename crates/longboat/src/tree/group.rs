//! Services that share the traffic of one model: their shared address, and the share of each. Pure functions.

use std::collections::BTreeMap;

use longboat_api::v1alpha2::{GroupStatus, LLMInferenceService};
use longboat_key::Key;

use super::TreeObjects;

/// A group whose members share an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// `namespace/name`.
    pub(crate) name: String,
    /// The address of the model, not of a member.
    pub(crate) url: String,
    /// A model name that all members accept.
    pub(crate) model: String,
    pub(crate) shares: String,
}

/// Returns the group in the status of a service.
pub(crate) fn of(service: &LLMInferenceService) -> Option<&GroupStatus> {
    service.status.as_ref()?.router.as_ref()?.group.as_ref()
}

/// Formats the shares: `stable 90, canary 10`.
pub(crate) fn shares(group: &GroupStatus) -> String {
    let members = group.members.iter().map(|member| {
        let stopped = if member.stopped { " (stopped)" } else { "" };
        format!("{} {}{stopped}", member.name, member.weight)
    });
    members.collect::<Vec<_>>().join(", ")
}

/// Returns the groups of these services. A group whose members serve different models has one entry per
/// model.
pub(crate) fn all(seen: &TreeObjects, names: &[Key]) -> Vec<Group> {
    let mut groups = BTreeMap::new();
    for service in &seen.services {
        let Key { namespace, name } = Key::of(service.as_ref());
        let known = names.iter().any(|known| known.namespace == namespace && known.name == name);
        let (Some(group), Some((url, model))) = (of(service).filter(|_| known), shared_address(service))
        else {
            continue;
        };
        let key = (namespace.clone(), group.name.clone(), url.clone());
        let group = Group { name: format!("{namespace}/{}", group.name), url, model, shares: shares(group) };
        groups.insert(key, group);
    }
    groups.into_values().collect()
}

/// Returns the address that all members share, and the model's short name. The path of that address is the model's full
/// name.
fn shared_address(service: &LLMInferenceService) -> Option<(String, String)> {
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let full_names_start = format!("publishers/{namespace}/models/");
    service.status.as_ref()?.addresses.iter().find_map(|address| {
        let url = address.url.as_deref()?.trim_end_matches('/');
        let is_full = |name: &str| name.starts_with(&full_names_start) && url.ends_with(&format!("/{name}"));
        let full = address.models.iter().find(|model| is_full(&model.name))?;
        Some((url.to_owned(), full.name[full_names_start.len()..].to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longboat_key::{Name, Namespace};
    use serde_json::json;

    use super::*;

    /// A member has the same name as the model, so its own address ends like the shared one.
    #[test]
    fn members_are_listed_once_under_the_address_of_their_model() {
        let member = |name: &str| {
            let full = "publishers/ns/models/a";
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": name, "namespace": "ns"},
                    "spec": {"model": {"uri": "hf://org/chat", "name": "a"}},
                    "status": {
                        "addresses": [
                            {"url": "http://gateway/", "models": [{"name": full}]},
                            {"url": format!("http://gateway/ns/{name}"), "models": [{"name": full}, {"name": "a"}]},
                            {"url": format!("http://gateway/{full}"), "models": [{"name": full}, {"name": "a"}]},
                        ],
                        "router": {"group": {"name": "g", "members": [
                            {"name": "a", "weight": 90}, {"name": "b", "weight": 10, "stopped": true},
                        ]}},
                    },
                }))
                .unwrap(),
            )
        };
        let seen = TreeObjects {
            services: vec![member("a"), member("b"), member("foreign")],
            ..TreeObjects::default()
        };
        let names = ["a", "b"].map(|name| Key::new(Namespace("ns"), Name(name)));
        let expected = Group {
            name: "ns/g".into(),
            url: "http://gateway/publishers/ns/models/a".into(),
            model: "a".into(),
            shares: "a 90, b 10 (stopped)".into(),
        };
        assert_eq!(all(&seen, &names), [expected]);
    }
}
