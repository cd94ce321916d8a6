//! The objects that a service owns, by their owner references. Names do not tell: `qwen-pd-kserve` may belong to `qwen-pd`
//! or to `qwen`.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Pod, Service},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::ListParams, core::DynamicObject, discovery::ApiResource};
use longboat_api::{
    foreign::{
        httproute::HTTPRoute, inferencepool::InferencePool, leaderworkerset::LeaderWorkerSet,
        scaledobject::ScaledObject,
    },
    labels::{NAME, PART_OF, PART_OF_VALUE},
    v1alpha2::LLMInferenceService,
};
use longboat_controller::reader;
use longboat_key::Key;

/// The most objects of a kind, and events of a namespace, to read.
pub(crate) const MAX_READ: u32 = 1000;

/// Returns the kinds of objects that services own and that events are about, with the label selector of those of a service.
/// An owner comes before the objects that it owns.
fn kinds(service: &Key) -> Vec<(ApiResource, String)> {
    let labelled = format!("{PART_OF}={PART_OF_VALUE},{NAME}={}", service.name);
    let of = |kind| (kind, labelled.clone());
    vec![
        of(ApiResource::erase::<Deployment>(&())),
        of(ApiResource::erase::<LeaderWorkerSet>(&())),
        of(ApiResource::erase::<HorizontalPodAutoscaler>(&())),
        of(ApiResource::erase::<ScaledObject>(&())),
        of(ApiResource::erase::<PodDisruptionBudget>(&())),
        of(ApiResource::erase::<NetworkPolicy>(&())),
        of(ApiResource::erase::<Service>(&())),
        of(ApiResource::erase::<HTTPRoute>(&())),
        of(ApiResource::erase::<InferencePool>(&())),
        of(ApiResource::erase::<ReplicaSet>(&())),
        // A LeaderWorkerSet does not give its own labels to its StatefulSets.
        (ApiResource::erase::<StatefulSet>(&()), String::new()),
        of(ApiResource::erase::<Pod>(&())),
    ]
}

/// Returns the uid of a service, and of all objects that it owns, directly or through others. Kinds that the cluster does not
/// serve, or that the user may not list, have none.
pub(crate) async fn uids(client: &Client, service: &Key) -> Result<BTreeSet<String>, kube::Error> {
    let services = Api::<LLMInferenceService>::namespaced(client.clone(), &service.namespace);
    let root = services.get_metadata(&service.name).await?.metadata.uid.unwrap_or_default();
    let listed = kinds(service).into_iter().map(|(kind, selector)| async move {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), &service.namespace, &kind);
        match api.list_metadata(&ListParams::default().labels(&selector).limit(MAX_READ)).await {
            Ok(listed) => {
                Ok(listed.items.into_iter().map(|object| object.metadata).collect::<Vec<ObjectMeta>>())
            }
            Err(error) if reader::is_missing(&error) => Ok(Vec::new()),
            // Who may not list a kind sees the events of the others.
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    });
    let objects = try_join_all(listed).await?.concat();
    Ok(descendants(root, &objects))
}

/// Returns the root, and every object that it owns. Objects may own others of their kind, such as the leader of a group its
/// workers, so this repeats until nothing is added.
fn descendants(root: String, objects: &[ObjectMeta]) -> BTreeSet<String> {
    let mut owned = BTreeSet::from([root]);
    loop {
        let is_owned = |object: &&ObjectMeta| {
            object.owner_references.iter().flatten().any(|owner| owned.contains(&owner.uid))
        };
        let uids = objects.iter().filter(is_owned).filter_map(|object| object.uid.clone());
        let added: Vec<String> = uids.filter(|uid| !owned.contains(uid)).collect();
        if added.is_empty() {
            return owned;
        }
        owned.extend(added);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_decide_and_not_names() {
        let object = |name: &str, uid: &str, owner: &str| -> ObjectMeta {
            let owner = json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": owner}]);
            serde_json::from_value(json!({"name": name, "uid": uid, "ownerReferences": owner})).unwrap()
        };
        let objects = [
            object("worker", "5", "4"),
            object("leader", "4", "3"),
            object("group", "3", "root"),
            // The service `qwen-pd` owns these.
            object("qwen-pd-kserve", "6", "other"),
            object("qwen-pd-kserve-1", "7", "6"),
            ObjectMeta { uid: Some("8".into()), ..ObjectMeta::default() },
        ];
        let expected = ["3", "4", "5", "root"].map(str::to_owned);
        assert_eq!(descendants("root".into(), &objects), BTreeSet::from(expected));
    }
}
