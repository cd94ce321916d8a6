//! Objects of others under the names of children.

use std::{collections::BTreeSet, time::Duration};

use kube::api::DeleteParams;
use longboat_testkit::Faults;
use serde_json::Value;

use super::{
    all,
    scene::{self, Trial, assert_same, normal, picture, settle, stage, started},
    topology::Topology,
};

/// Longer than the longest delay of the controller before a retry.
const LONGEST_WAIT: Duration = Duration::from_mins(6);

#[tokio::test(start_paused = true)]
async fn what_is_somebody_elses_is_named_and_left_alone_until_it_makes_way() {
    let world = stage().await;
    let mut running = started(&world, Faults::default()).await;
    let mut done = BTreeSet::new();
    for topology in &Topology::all() {
        let calm = Trial::new(&world, topology, "trial-0000", "calm").run(&mut running).await;
        let owned = calm.alive.iter().filter(|(_, object)| object["metadata"]["ownerReferences"].is_array());
        for (at, (name, object)) in owned.enumerate() {
            // The same code writes a kind of child in all shapes, so each kind is tested once.
            let kind = name.split(' ').next().unwrap().to_owned();
            if !done.insert(if all() { name.clone() } else { kind }) {
                continue;
            }
            let trial = Trial::new(&world, topology, format!("trial-{at:04}"), format!("{name} is taken"));
            let foreign = foreign(object, &trial.namespace);
            world.namespace(&trial.namespace).await;
            let before = serde_json::to_value(world.apply(foreign.clone()).await).unwrap();
            trial.create().await;
            trial.rest(&mut running).await;
            trial.become_ready(&mut running).await;

            let [kind, child] = ["kind", "name"].map(|field| {
                let value = if field == "kind" { &foreign["kind"] } else { &foreign["metadata"]["name"] };
                value.as_str().unwrap().to_owned()
            });
            let (version, within) = (foreign["apiVersion"].as_str().unwrap(), trial.namespace.as_str());
            let now = picture(&world, within).await;
            // In a group, the condition may be on the other member.
            let services = now.iter().filter(|(name, _)| name.starts_with("LLMInferenceService."));
            let conditions: Vec<&Value> = services
                .filter_map(|(_, service)| service["status"]["conditions"].as_array())
                .flatten()
                .collect();
            let told = conditions.iter().any(|condition| {
                let message = condition["message"].as_str().unwrap_or_default();
                condition["status"] == "False"
                    && message.contains(&child)
                    && message.contains("not controlled")
            });
            assert!(told, "{}: nobody says so: {conditions:#?}", trial.what);
            let stored = &now[name];
            assert!(stored["metadata"]["ownerReferences"].is_null(), "{}: it is seized", trial.what);
            assert_eq!(
                stored["spec"],
                normal(before, within)["spec"],
                "{}: {kind} is written to",
                trial.what
            );

            let api = scene::api(&world, version, &kind, within);
            api.delete(&child, &DeleteParams::default()).await.unwrap();
            // The controller does not watch objects that are not ours, so it notices the change at its next retry.
            tokio::time::sleep(LONGEST_WAIT).await;
            settle(&world, &trial.what).await;
            trial.become_ready(&mut running).await;
            assert_same(&trial.picture().await, &calm.alive, &format!("{}, and makes way", trial.what));
            trial.delete(&mut running).await;
            trial.forget().await;
        }
    }
    running.stop().await;
}

/// Returns the child as if somebody else had created it.
fn foreign(object: &Value, namespace: &str) -> Value {
    let mut object: Value = serde_json::from_str(&object.to_string().replace("NS", namespace)).unwrap();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["ownerReferences", "labels", "annotations", "finalizers"] {
        metadata.remove(field);
    }
    if object["kind"] == "Secret" {
        object["type"] = "Opaque".into();
        object.as_object_mut().unwrap().remove("data");
    }
    object
}
