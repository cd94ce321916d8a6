//! The rights of the controller's account.

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};
use longboat_controller::reader;
use longboat_key::Namespace;
use serde_json::Value;

use super::limits::MAX_CONCURRENT_REQUESTS;
use crate::{check, facts::Facts};

/// The rights that the controller needs, as shipped: for the whole cluster, or for each namespace to which it is limited.
const ROLE: &str = include_str!("../../../../deploy/rbac/role.yaml");
const SECRETS_ROLE: &str = include_str!("../../../../deploy/rbac/secrets.yaml");
const WATCHED_ROLE: &str = include_str!("../../../../deploy/rbac-namespaced/watched/role.yaml");

/// Finds out which rights of the shipped role the controller's account lacks.
pub(super) async fn denied(client: &Client, facts: &mut Facts) {
    let user = format!(
        "system:serviceaccount:{}:{}",
        facts.snapshot.system_namespace,
        check::rights::account(facts)
    );
    let watched = check::controller::watched(facts.controller.as_ref());
    let needed = if watched.is_empty() {
        let open = check::controller::secret_namespaces(facts.controller.as_ref());
        let mut all = needed(ROLE, None);
        if open.is_empty() {
            all.extend(needed(SECRETS_ROLE, None));
        }
        all.extend(open.iter().flat_map(|namespace| needed(SECRETS_ROLE, Some(namespace))));
        all
    } else {
        watched.iter().flat_map(|namespace| needed(WATCHED_ROLE, Some(namespace))).collect()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let asked = stream::iter(needed)
        .map(|attributes| {
            let (reviews, user) = (reviews.clone(), user.clone());
            async move {
                let spec = SubjectAccessReviewSpec {
                    user: Some(user),
                    resource_attributes: Some(attributes.clone()),
                    ..SubjectAccessReviewSpec::default()
                };
                let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
                let answer = reviews.create(&PostParams::default(), &review).await;
                (attributes, answer.map(|review| review.status.is_some_and(|status| status.allowed)))
            }
        })
        .buffered(MAX_CONCURRENT_REQUESTS);
    let mut asked = std::pin::pin!(asked);
    while let Some((attributes, answer)) = asked.next().await {
        match answer {
            Ok(true) => {}
            Ok(false) => facts.denied.push(attributes_text(&attributes)),
            // Who may not ask for one right may ask for none.
            Err(error) => {
                facts.hidden.push(format!("the rights of {user}: {}", reader::sentence(&error)));
                return;
            }
        }
    }
}

fn attributes_text(attributes: &ResourceAttributes) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let (resource, group) = (part(&attributes.resource), part(&attributes.group));
    let resource = match &attributes.subresource {
        Some(below) => format!("{resource}/{below}"),
        None => resource,
    };
    let group = if group.is_empty() { group } else { format!(".{group}") };
    let place = attributes.namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    format!("{} {resource}{group}{place}", part(&attributes.verb))
}

/// Returns one access review for each verb on each resource of a shipped role.
fn needed(role: &str, namespace: Option<&Namespace>) -> Vec<ResourceAttributes> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(role).unwrap_or_default();
    let rules =
        documents.into_iter().filter_map(|mut role| serde_json::from_value(role["rules"].take()).ok());
    let mut all = Vec::new();
    for rule in rules.flat_map(|rules: Vec<PolicyRule>| rules) {
        for (group, resource) in rule
            .api_groups
            .iter()
            .flatten()
            .flat_map(|group| rule.resources.iter().flatten().map(move |resource| (group, resource)))
        {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, below)) => (resource, Some(below.to_owned())),
                None => (resource.as_str(), None),
            };
            let names: Vec<Option<String>> = match &rule.resource_names {
                Some(names) if !names.is_empty() => names.iter().cloned().map(Some).collect(),
                _ => vec![None],
            };
            for (verb, name) in rule.verbs.iter().flat_map(|verb| names.iter().map(move |name| (verb, name)))
            {
                all.push(ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.clone(),
                    verb: Some(verb.clone()),
                    name: name.clone(),
                    namespace: namespace.map(|one| one.as_deref().into()),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_of_the_shipped_roles_is_asked_for() {
        let cluster = needed(ROLE, None);
        let words: Vec<String> = cluster.iter().map(attributes_text).collect();
        for right in [
            "create deployments.apps",
            "patch llminferenceservices/status.serving.kserve.io",
            "bind clusterroles.rbac.authorization.k8s.io",
        ] {
            assert!(words.iter().any(|word| word == right), "{right}: {words:#?}");
        }
        let namespace = Namespace("ns").to_shared();
        let within = needed(WATCHED_ROLE, Some(&namespace));
        assert!(within.len() > 50 && within.len() < cluster.len(), "{}", within.len());
        assert!(within.iter().any(|right| attributes_text(right) == "create deployments.apps in ns"));
    }
}
