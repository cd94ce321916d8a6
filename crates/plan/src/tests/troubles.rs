//! What conditions say about pods that do not start.

use longboat_api::{
    conditions::{Condition, types},
    labels,
};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, settled},
    reads, simulate,
};

const UNAVAILABLE: &str = "Deployment does not have minimum availability.";

fn found(world: &ClusterModel, type_: &str) -> Condition {
    let status = world.services.values().next().unwrap().status.as_ref().unwrap();
    status.conditions.iter().find(|found| found.type_ == type_).unwrap().clone()
}

/// A crashed pod of the workload, as the controller's cache keeps it.
fn pod(world: &ClusterModel, labels: &Value) -> Value {
    let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
    let mut own = json!(deployment.spec.as_ref().unwrap().selector.match_labels);
    own.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "llm-kserve-1", "namespace": NAMESPACE, "labels": own},
        "status": {"containerStatuses": [{
            "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "bad dtype"}},
        }]},
    })
}

#[test]
fn the_first_cause_of_the_pods_is_the_message_of_ready() {
    let mut world = settled(plain());
    let available = json!(["False", "MinimumReplicasUnavailable", UNAVAILABLE]);
    simulate::ready(&mut world, NAMESPACE, &json!({"deploy": {"Available": available}}));
    world.settle();
    assert_eq!(found(&world, types::READY).message, UNAVAILABLE);

    // A pod that no service labelled enqueues none, so it does not decide.
    world.put(pod(&world, &json!({labels::PART_OF: "other"})), NAMESPACE);
    world.settle();
    assert_eq!(found(&world, types::READY).message, UNAVAILABLE);

    let ours = json!({labels::PART_OF: labels::PART_OF_VALUE, labels::NAME: "llm"});
    world.put(pod(&world, &ours), NAMESPACE);
    world.settle();
    let cause = "pod llm-kserve-1: container main ended with exit code 1 (3 restarts): bad dtype";
    for type_ in [types::READY, types::WORKLOADS_READY, types::MAIN_WORKLOAD_READY] {
        let condition = found(&world, type_);
        let said = (condition.reason.as_str(), condition.message.as_str());
        assert_eq!(said, ("MinimumReplicasUnavailable", cause), "{type_}");
    }
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());
    simulate::ready(&mut world, NAMESPACE, &json!({}));
    world.settle();
    assert!(found(&world, types::MAIN_WORKLOAD_READY).is_true());
}

#[test]
fn a_workload_that_serves_says_how_many_of_its_pods_end() {
    let mut world = settled(plain());
    simulate::ready(&mut world, NAMESPACE, &json!({}));
    world.settle();
    let said = |world: &ClusterModel| {
        let condition = found(world, types::MAIN_WORKLOAD_READY);
        assert!(condition.is_true() && found(world, types::READY).is_true());
        (condition.reason, condition.message)
    };
    assert_eq!(said(&world), (String::new(), String::new()));
    let ours = json!({labels::PART_OF: labels::PART_OF_VALUE, labels::NAME: "llm"});
    let mut ending = pod(&world, &ours);
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.put(ending, NAMESPACE);
    world.settle();
    let message = "1 pod ends: no new requests, running ones may finish until the grace period is over";
    assert_eq!(said(&world), ("PodsDrain".to_owned(), message.to_owned()));
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());
}
