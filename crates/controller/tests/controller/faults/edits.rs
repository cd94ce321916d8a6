//! Changes a live service from each shape to each other.

use std::collections::BTreeMap;

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, PostParams},
};
use longboat_testkit::{Faults, TestCluster};
use serde_json::{Map, Value};

use super::{
    all,
    scene::{self, Picture, differences, make_ready, of_kind, settle, stage, started},
    topology::Topology,
};

const NAMESPACE: &str = "trial-edit";
/// What stays of the previous shape: a part of the difference, and the reason.
const KEPT: [(&str, &str); 3] = [
    (
        "llm-kserve-router-scheduler.spec.template.spec.containers[0].args[1]: ",
        "a picker keeps a configuration that is no default, and an event says so",
    ),
    ("inference-pool-migrated", "a route that has moved to the newer group of pools has done so for good"),
    ("backendRefs[0].group: \"inference.networking.k8s.io\"", "the same"),
];
/// By default, one in this many edits is made.
const EACH: usize = 6;

#[tokio::test(start_paused = true)]
async fn any_shape_becomes_any_other_without_a_break_and_leaves_nothing_behind() {
    let world = stage().await;
    let running = started(&world, Faults::default()).await;
    let topologies = Topology::all();
    world.namespace(NAMESPACE).await;
    // Objects to which a shape refers, such as other members of the group, exist all the time.
    for object in
        topologies.iter().flat_map(|topology| topology.objects(NAMESPACE)).filter(|object| !is_llm(object))
    {
        world.apply(object).await;
    }
    settle(&world, "what is referred to").await;
    while make_ready(&world, NAMESPACE).await {
        settle(&world, "what is referred to").await;
    }
    let others = others(&world).await;
    let mut wanted = BTreeMap::new();
    for topology in &topologies {
        edit(&world, topology, &topology.name).await.unwrap();
        wanted.insert(topology.name.as_str(), children(&world).await);
        delete(&world).await;
    }
    let walk = round_trip(topologies.len(), if all() { 1 } else { EACH });
    edit(&world, &topologies[walk[0]], "the first").await.unwrap();
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for step in walk.windows(2) {
        let (from, to) = (&topologies[step[0]], &topologies[step[1]]);
        let what = format!("{} becomes {}", from.name, to.name);
        match edit(&world, to, &what).await {
            Ok(problems) => wrong.extend(problems),
            // The walk continues from the refused shape.
            Err(reason) => {
                refused.push(format!("{what}: {reason}"));
                delete(&world).await;
                edit(&world, to, &what).await.unwrap();
            }
        }
        let mut differences = differences(&children(&world).await, &wanted[to.name.as_str()]);
        differences.retain(|difference| !is_kept(difference));
        if !differences.is_empty() {
            wrong.extend(differences.into_iter().map(|difference| format!("{what}: {difference}")));
            // Recreates the service, so that the error does not affect later edits.
            delete(&world).await;
            edit(&world, to, &what).await.unwrap();
        }
    }
    delete(&world).await;
    let left = children(&world).await;
    wrong.extend(left.into_keys().map(|name| format!("{name} is left behind")));
    wrong.extend(differences(&self::others(&world).await, &others));
    say(&format!("{} edits, {} refused:\n{}", walk.len() - 1, refused.len(), refused.join("\n")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Only the number of pods that work together is immutable.
    assert!(refused.iter().all(|refusal| refusal.contains("parallelism size is immutable")), "{refused:#?}");
    running.stop().await;
}

#[expect(clippy::print_stdout, reason = "which edits are possible is what this test is read for")]
fn say(line: &str) {
    println!("{line}");
}

async fn delete(world: &TestCluster) {
    api(world).delete("llm", &DeleteParams::default()).await.unwrap();
    settle(world, "deleted").await;
}

fn is_kept(difference: &str) -> bool {
    KEPT.iter().any(|(part, _)| difference.contains(part))
}

fn is_llm(object: &Value) -> bool {
    object["kind"] == "LLMInferenceService" && object["metadata"]["name"] == "llm"
}

/// Applies the service of a topology, and checks that the old workload serves until the new one does. Returns the errors.
/// Fails if the change is refused.
async fn edit(world: &TestCluster, topology: &Topology, what: &str) -> Result<Vec<String>, String> {
    let served = serving(world).await;
    put(world, topology).await.map_err(|error| error.to_string())?;
    settle(world, what).await;
    let mut wrong = Vec::new();
    if served && !topology.is_stopped() && !serving(world).await {
        wrong.push(format!("{what}: nothing serves"));
    }
    for _ in 0..6 {
        if !make_ready(world, NAMESPACE).await {
            return Ok(wrong);
        }
        settle(world, what).await;
    }
    panic!("{what}: readiness leads to ever more changes");
}

/// Replaces the complete service, like `kubectl edit`.
async fn put(world: &TestCluster, topology: &Topology) -> kube::Result<DynamicObject> {
    let api = api(world);
    let service = topology.objects(NAMESPACE).into_iter().find(is_llm).unwrap();
    let mut service: DynamicObject = serde_json::from_value(service).unwrap();
    match api.get_opt("llm").await? {
        None => api.create(&PostParams::default(), &service).await,
        Some(live) => {
            service.metadata.resource_version = live.metadata.resource_version;
            service.metadata.finalizers = live.metadata.finalizers;
            api.replace("llm", &PostParams::default(), &service).await
        }
    }
}

fn api(world: &TestCluster) -> Api<DynamicObject> {
    scene::api(world, "serving.kserve.io/v1alpha2", "LLMInferenceService", NAMESPACE)
}

/// Whether a model server for decode is available.
async fn serving(world: &TestCluster) -> bool {
    for (version, kind) in [("apps/v1", "Deployment"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")] {
        for object in of_kind(world, version, kind, NAMESPACE).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let available = conditions.iter().any(|c| c["type"] == "Available" && c["status"] == "True");
            if ["llm-kserve", "llm-kserve-mn"].contains(&name) && available {
                return true;
            }
        }
    }
    false
}

/// The service and its children. The number of replicas is left out if the service does not set it, because it then stays as
/// it was.
async fn children(world: &TestCluster) -> Picture {
    let mut picture = scene::picture(world, NAMESPACE).await;
    picture.retain(|name, object| is_of_llm(name, object));
    for object in picture.values_mut() {
        match object["kind"].as_str() {
            Some("Deployment" | "LeaderWorkerSet") => object["spec"]["replicas"] = Value::Null,
            Some("LLMInferenceService") => {
                for workload in
                    object["status"]["workloads"].as_object_mut().into_iter().flat_map(Map::values_mut)
                {
                    workload["readyReplicas"] = Value::Null;
                }
            }
            _ => {}
        }
    }
    picture
}

/// All other objects.
async fn others(world: &TestCluster) -> Picture {
    let mut picture = scene::picture(world, NAMESPACE).await;
    picture.retain(|name, object| !is_of_llm(name, object));
    picture
}

fn is_of_llm(name: &str, object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owned = owners.into_iter().flatten().any(|owner| owner["name"] == "llm");
    owned || name.ends_with(" llm") || name.starts_with("ClusterRoleBinding")
}

/// Returns a walk over `n` places that goes from each place to every `each`-th of the following ones once, and ends where it
/// began.
fn round_trip(n: usize, each: usize) -> Vec<usize> {
    let mut left: Vec<Vec<usize>> =
        (0..n).map(|from| (1..n).step_by(each).map(|far| (from + far) % n).collect()).collect();
    let (mut stack, mut walk) = (vec![0], Vec::new());
    while let Some(at) = stack.last().copied() {
        match left[at].pop() {
            Some(next) => stack.push(next),
            None => walk.extend(stack.pop()),
        }
    }
    walk.reverse();
    walk
}

#[test]
fn the_round_trip_makes_every_step_once() {
    let walk = round_trip(5, 1);
    let steps: std::collections::BTreeSet<_> = walk.windows(2).map(|step| (step[0], step[1])).collect();
    assert_eq!((walk.len(), steps.len()), (21, 20));
    assert_eq!(round_trip(19, 4).len(), 19 * 5 + 1);
}
