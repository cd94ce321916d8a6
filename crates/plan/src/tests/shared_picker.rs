//! Services whose pools share a picker: each step of the way there and back.

use std::sync::Arc;

use longboat_api::{conditions::types, shared_picker::PICKER};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, world},
    reads, simulate,
};
use crate::types::Deployment;

const PICKERS: &str = "llm-kserve-router-scheduler";

/// A service with a picker, whose platform does not share pickers yet.
fn new_world() -> ClusterModel {
    world(&presets_as_layers(), false)
}

fn put_service(world: &mut ClusterModel) {
    world.put(plain(), NAMESPACE);
    world.settle();
}

fn share(world: &mut ClusterModel, shared: bool) {
    Arc::make_mut(&mut world.snapshot.platform).shared_picker = shared;
    world.settle();
}

/// Sets the annotation of the service.
fn ask_for(world: &mut ClusterModel, picker: &str) {
    let mut service = plain();
    service["metadata"]["annotations"]["longboat.dev/picker"] = json!(picker);
    world.put(service, NAMESPACE);
    world.settle();
}

fn picker(world: &ClusterModel) -> &Deployment {
    world.snapshot.deployments.get(Namespace(NAMESPACE), Name(PICKERS)).unwrap()
}

/// The replicas and the label of the picker's Deployment.
fn step(world: &ClusterModel) -> (Option<i32>, Option<&str>) {
    let picker = picker(world);
    let label = picker.metadata.labels.as_ref().and_then(|labels| labels.get(PICKER));
    (picker.spec.as_ref().unwrap().replicas, label.map(String::as_str))
}

/// Status, reason and message of the picker's condition.
fn picker_condition(world: &ClusterModel) -> (bool, String, String) {
    let status = world.services.values().next().unwrap().status.as_ref().unwrap();
    let found =
        status.conditions.iter().find(|found| found.type_ == types::SCHEDULER_WORKLOAD_READY).unwrap();
    (found.is_true(), found.reason.clone(), found.message.clone())
}

/// Makes the pods of the picker as many as its Deployment wants.
fn follow_replicas(world: &mut ClusterModel) {
    let mut deployment = picker(world).clone();
    let wanted = deployment.spec.as_ref().unwrap().replicas.unwrap_or(1);
    let available = if wanted > 0 { "True" } else { "False" };
    deployment.status = Some(
        serde_json::from_value(json!({
            "availableReplicas": wanted, "readyReplicas": wanted,
            "observedGeneration": deployment.metadata.generation,
            "conditions": [{"type": "Available", "status": available, "reason": "x", "message": "pods"}],
        }))
        .unwrap(),
    );
    world.snapshot.deployments.insert(Arc::new(deployment));
    world.settle();
}

/// Writes the slice of the shared picker.
fn say(world: &mut ClusterModel, ready: bool, annotations: &Value) {
    let endpoints = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]);
    let slice = json!({
        "metadata": {
            "name": format!("{PICKERS}-shared"), "namespace": NAMESPACE, "annotations": annotations,
            "labels": {"app.kubernetes.io/name": "llm", "app.kubernetes.io/part-of": "llminferenceservice"},
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "grpc", "port": 20000}],
    });
    world.snapshot.endpoint_slices.insert(Arc::new(serde_json::from_value(slice).unwrap()));
    world.settle();
}

fn forget_slice(world: &mut ClusterModel) {
    let name = format!("{PICKERS}-shared");
    world.snapshot.endpoint_slices.remove(Namespace(NAMESPACE), Name(&name));
    world.settle();
}

#[test]
fn a_running_service_keeps_its_picker_until_the_shared_one_picks_and_the_shared_one_until_its_own_does() {
    let mut world = new_world();
    put_service(&mut world);
    simulate::ready(&mut world, NAMESPACE, &json!({}));
    follow_replicas(&mut world);
    assert_eq!(step(&world).1, None);

    share(&mut world, true);
    assert_eq!(step(&world), (Some(1), Some("shared")));
    say(&mut world, false, &json!({}));
    assert_eq!(step(&world), (Some(1), Some("shared")));
    assert!(picker_condition(&world).0, "its own pods still pick");
    say(&mut world, true, &json!({}));
    assert_eq!(step(&world), (Some(0), Some("shared")));
    follow_replicas(&mut world);
    assert_eq!(picker_condition(&world), (true, String::new(), String::new()));
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());
    // A shared picker that is away for a while starts no pods.
    say(&mut world, false, &json!({}));
    assert_eq!(step(&world), (Some(0), Some("shared")));
    assert_eq!(
        (picker_condition(&world).0, picker_condition(&world).1),
        (false, "SharedPickerMissing".to_owned())
    );
    say(&mut world, true, &json!({}));

    share(&mut world, false);
    assert_eq!(step(&world), (Some(1), Some("shared")));
    assert!(picker_condition(&world).0, "the shared picker still picks");
    follow_replicas(&mut world);
    assert_eq!(step(&world), (Some(1), Some("own")));
    forget_slice(&mut world);
    assert_eq!((step(&world), picker_condition(&world).0), ((Some(1), Some("own")), true));
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());
}

#[test]
fn a_service_that_asks_for_its_own_picker_gets_it_back_and_may_share_again() {
    let mut world = new_world();
    share(&mut world, true);
    put_service(&mut world);
    simulate::ready(&mut world, NAMESPACE, &json!({}));
    follow_replicas(&mut world);
    say(&mut world, true, &json!({}));
    assert_eq!(step(&world), (Some(0), Some("shared")));

    ask_for(&mut world, "own");
    assert_eq!(step(&world), (Some(1), Some("shared")));
    assert!(picker_condition(&world).0, "the shared picker still picks");
    follow_replicas(&mut world);
    assert_eq!(step(&world), (Some(1), Some("own")));
    forget_slice(&mut world);
    assert_eq!(picker_condition(&world), (true, String::new(), String::new()));
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());

    ask_for(&mut world, "shared");
    assert_eq!(step(&world), (Some(1), Some("shared")));
    assert!(picker_condition(&world).0, "its own pods still pick");
    say(&mut world, true, &json!({}));
    assert_eq!(step(&world), (Some(0), Some("shared")));
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());
}

#[test]
fn a_new_service_that_asks_for_its_own_picker_starts_it_whatever_its_image() {
    for image in [json!([]), json!([{"name": "main", "image": "own:1"}])] {
        let mut world = new_world();
        share(&mut world, true);
        let mut service = plain();
        service["metadata"]["annotations"]["longboat.dev/picker"] = json!("own");
        service["spec"]["router"]["scheduler"] = json!({"template": {"containers": image}});
        world.put(service, NAMESPACE);
        world.settle();
        follow_replicas(&mut world);
        assert_eq!(step(&world), (Some(1), None), "{image}");
        // It has what it asks for, so there is nothing to explain.
        assert_eq!(picker_condition(&world), (true, String::new(), String::new()), "{image}");
    }
}

#[test]
fn a_platform_that_shares_no_picker_shares_none_with_a_service_that_asks() {
    let mut world = new_world();
    put_service(&mut world);
    ask_for(&mut world, "shared");
    assert_eq!(step(&world), (Some(1), None));
}

#[test]
fn the_status_of_former_pods_ends_no_shared_picker() {
    let mut world = new_world();
    put_service(&mut world);
    simulate::ready(&mut world, NAMESPACE, &json!({}));
    follow_replicas(&mut world);
    share(&mut world, true);
    say(&mut world, true, &json!({}));
    // Nothing has followed the number of replicas yet, and the pods are about to go.
    share(&mut world, false);
    assert_eq!(step(&world), (Some(1), Some("shared")));
}

#[test]
fn a_new_service_starts_no_picker_unless_it_needs_one() {
    let mut world = new_world();
    share(&mut world, true);
    put_service(&mut world);
    assert_eq!(step(&world), (Some(0), Some("shared")));
    assert_eq!(picker_condition(&world).1, "SharedPickerMissing");
    let need = json!({"longboat.dev/picker-needs-pod": "the file of its configuration"});
    say(&mut world, false, &need);
    assert_eq!(step(&world), (Some(1), Some("shared")));
    follow_replicas(&mut world);
    let message = "The service has a picker of its own, because it needs the file of its configuration";
    assert_eq!(picker_condition(&world), (true, "PickerNeedsPod".to_owned(), message.to_owned()));
    assert_eq!(step(&world), (Some(1), Some("shared")));
    // It needs nothing any more.
    say(&mut world, true, &json!({}));
    assert_eq!(step(&world), (Some(0), Some("shared")));
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());
}

#[test]
fn a_problem_of_the_shared_picker_reaches_the_service() {
    let mut world = new_world();
    share(&mut world, true);
    put_service(&mut world);
    let problem = json!({"longboat.dev/picker-problem": "broken"});
    say(&mut world, false, &problem);
    assert_eq!(picker_condition(&world), (false, "SharedPickerMissing".to_owned(), "broken".to_owned()));
    say(&mut world, true, &problem);
    let message = "The shared picker goes on with its former configuration: broken";
    assert_eq!(picker_condition(&world), (true, "SharedPickerFailed".to_owned(), message.to_owned()));
    say(
        &mut world,
        true,
        &json!({"longboat.dev/picker-limit": "8 open requests (flag --x of the shared picker)"}),
    );
    let message = "The shared picker has refused requests of this service, for which it takes at most 8 open \
        requests (flag --x of the shared picker): raise the limit, or give the service a picker of its own with the \
        annotation longboat.dev/picker: own";
    assert_eq!(picker_condition(&world), (true, "SharedPickerLimited".to_owned(), message.to_owned()));
    say(&mut world, true, &json!({}));
    assert_eq!(picker_condition(&world), (true, String::new(), String::new()));
}

#[test]
fn a_picker_that_has_to_leave_and_whose_pod_fails_says_why() {
    let mut world = new_world();
    share(&mut world, true);
    put_service(&mut world);
    say(&mut world, true, &json!({}));
    say(&mut world, true, &json!({"longboat.dev/picker-needs-pod": "a configuration that loads"}));
    assert_eq!(step(&world), (Some(1), Some("shared")));
    assert_eq!(picker_condition(&world), (true, String::new(), String::new()), "its pod starts");
    let mut labels = json!(picker(&world).spec.as_ref().unwrap().selector.match_labels);
    labels["app.kubernetes.io/name"] = json!("llm");
    labels["app.kubernetes.io/part-of"] = json!("llminferenceservice");
    let ended = json!({"reason": "Error", "exitCode": 1, "message": "unknown plugin"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended},
        }]},
    });
    world.put(pod, NAMESPACE);
    world.settle();
    let (holds, reason, message) = picker_condition(&world);
    assert!(holds && reason == "SharedPickerFailed", "{reason}");
    assert!(message.starts_with("The shared picker goes on with its former configuration: "), "{message}");
    assert!(message.contains("unknown plugin"), "{message}");
}

#[test]
fn a_picker_of_another_image_is_not_shared() {
    let mut world = new_world();
    share(&mut world, true);
    let mut service = plain();
    service["spec"]["router"]["scheduler"] =
        json!({"template": {"containers": [{"name": "main", "image": "own:1"}]}});
    world.put(service, NAMESPACE);
    world.settle();
    follow_replicas(&mut world);
    assert_eq!(step(&world), (Some(1), None));
    assert_eq!(picker_condition(&world).1, "PickerNeedsPod");
}
