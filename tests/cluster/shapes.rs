//! Every shape of service (`tests/cases/topology`) gets the same children and the same status on the real API server and on the
//! embedded one: when created, when ready, while APIs are missing, when stopped and when deleted.
//!
//! All shapes exist at the same time, each in its own namespace, so that the tests wait only once for all of them.

use std::{
    collections::BTreeSet,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    api::Api,
    cluster::{ExclusiveCluster, files},
    definitions::{definition, install_api, remove_api},
    embedded::Embedded,
    ready::make_ready,
    rights::unused,
    snapshot::{Snapshot, children, differences, snapshot},
    tools,
    wait::{LIMIT, until},
};

/// Time between two snapshots.
const PERIOD: Duration = Duration::from_millis(700);
/// How many snapshots in a row must be equal: their time is longer than the delays of the controller's first retries.
const LOOKS: usize = 4;
/// How many rounds of reported readiness may change something: members of a group become ready one after another.
const ROUNDS: usize = 8;

/// Optional APIs, by the names of their CRDs.
const OPTIONAL: [&str; 5] = [
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "scaledobjects.keda.sh",
    "inferencepools.inference.networking.k8s.io",
    "inferencepools.inference.networking.x-k8s.io",
    "httproutes.gateway.networking.k8s.io",
];

/// The name of a shape, which is also its namespace, and its objects.
pub(crate) type Shape = (String, Vec<Value>);

#[test]
fn every_shape_of_service_becomes_the_same_on_both_servers() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let prometheus = json!({"prometheus": {"url": "https://prometheus.example.com:9090"}}).to_string();
    let settings = json!({"data": {"autoscaling-wva-controller-config": prometheus}});
    cluster.server.api.merge("/api/v1/namespaces/kserve/configmaps/inferenceservice-config", &settings).ok();
    let embedded = Embedded::start(&cluster);
    let servers = [&cluster.server.api, &embedded.api];
    let shapes = shapes();
    for server in servers {
        make_ready(server, &BTreeSet::from(["kserve"]));
        create(server, &shapes);
    }
    let compare = |moment: &str| settle(&servers, &shapes, moment, &embedded);
    compare("when nothing is ready");

    become_ready(&servers, &shapes);
    let ready = compare("when everything is ready");
    for (name, object) in ready.iter().filter(|(name, _)| name.contains(" LLMInferenceService ")) {
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let is_ready = conditions.iter().any(|found| found["type"] == "Ready" && found["status"] == "True");
        assert_eq!(is_ready, !name.starts_with("stopped "), "{name}: {conditions:#?}");
    }

    let definitions: Vec<Value> = OPTIONAL.iter().map(|name| definition(servers[0], name)).collect();
    for server in servers {
        for name in &OPTIONAL {
            remove_api(server, name);
        }
    }
    compare("without optional APIs");
    for server in servers {
        for definition in &definitions {
            install_api(server, definition);
        }
        create_referenced_objects(server, &shapes);
    }
    become_ready(&servers, &shapes);
    let again = differences(&compare("when those APIs are back"), &ready);
    assert!(again.is_empty(), "what APIs took along is not as it was:\n{}", again.join("\n"));

    for server in servers {
        change_children(server, &shapes);
    }
    let again = differences(&compare("when what others changed is undone"), &ready);
    assert!(again.is_empty(), "children are not as they were:\n{}", again.join("\n"));

    for server in servers {
        for (namespace, service) in services(&shapes) {
            let stop = json!({"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}});
            let path = format!(
                "/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceservices/{service}"
            );
            server.merge(&path, &stop).ok();
        }
    }
    compare("when all are stopped");

    for server in servers {
        for (namespace, service) in services(&shapes) {
            let path = format!(
                "/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceservices/{service}"
            );
            server.delete(&path).ok();
            until("a deleted service is gone", || server.get(&path).status == 404);
        }
    }
    compare("when all are deleted");
    assert_eq!(
        unused(&cluster.server),
        Vec::<String>::new(),
        "rights that deploy/rbac gives and nothing uses"
    );
}

/// Changes a label of one child of each kind. The controller updates the child.
fn change_children(server: &Api, shapes: &[Shape]) {
    let mut kinds = BTreeSet::new();
    for (namespace, _) in shapes {
        for path in children(server, namespace) {
            let (kind, _name) = path.rsplit_once('/').unwrap();
            // Claim templates have no labels.
            let is_labelled = !kind.ends_with("resourceclaimtemplates");
            if is_labelled && kinds.insert(kind.replace(&format!("/namespaces/{namespace}"), "")) {
                let change = json!({"metadata": {"labels": {"app.kubernetes.io/component": "changed"}}});
                server.merge(&path, &change).ok();
            }
        }
    }
}

/// Reads all shapes.
pub(crate) fn shapes() -> Vec<Shape> {
    let all: Vec<Shape> = files(&tools::root().join("tests/cases/topology"))
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            let name = Path::new(file).file_stem().unwrap().display().to_string();
            (name, serde_saphyr::from_multiple(&text).unwrap())
        })
        .collect();
    assert!(all.len() > 15, "only {} shapes were found", all.len());
    all
}

fn namespaces(shapes: &[Shape]) -> BTreeSet<&str> {
    shapes.iter().map(|(namespace, _)| namespace.as_str()).collect()
}

/// Returns the namespaces and names of the services.
fn services(shapes: &[Shape]) -> BTreeSet<(&str, &str)> {
    let of = |(namespace, objects)| {
        let objects: &Vec<Value> = objects;
        let services = objects.iter().filter(|object| object["kind"] == "LLMInferenceService");
        services.map(move |service| (namespace, service["metadata"]["name"].as_str().unwrap()))
    };
    shapes.iter().flat_map(|(namespace, objects)| of((namespace.as_str(), objects))).collect()
}

fn create(server: &Api, shapes: &[Shape]) {
    for (namespace, objects) in shapes {
        server.make_namespace(namespace);
        // The real API server has no controller that creates this account.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        server.post(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account);
        for object in objects {
            put(server, namespace, object);
        }
    }
}

/// Creates the objects again that were deleted together with their CRD.
fn create_referenced_objects(server: &Api, shapes: &[Shape]) {
    for (namespace, objects) in shapes {
        for object in objects.iter().filter(|object| object["kind"] != "LLMInferenceService") {
            put(server, namespace, object);
        }
    }
}

pub(crate) fn put(server: &Api, namespace: &str, object: &Value) {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { format!("apis/{version}") } else { format!("api/{version}") };
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let answer = server.post(&format!("/{root}/namespaces/{namespace}/{plural}"), object);
    assert!(answer.status < 300 || answer.status == 409, "{namespace}: {}: {:#}", answer.status, answer.body);
}

/// Waits until the snapshots of both servers are equal and stay the same. Returns the snapshot.
fn settle(servers: &[&Api; 2], shapes: &[Shape], moment: &str, embedded: &Embedded) -> Snapshot {
    let mut last = Vec::new();
    let settled = rest(servers, shapes, |[real, local]| {
        last = differences(real, local);
        last.is_empty()
    });
    let log = || embedded.controller_log();
    let [real, _] = settled.unwrap_or_else(|| {
        panic!("{moment}, real and embedded differ, or do not come to rest:\n{}\n{}", last.join("\n"), log())
    });
    real
}

/// Waits until the snapshots of both servers satisfy `is_wanted` and stay the same. Returns `None` at the time limit.
fn rest(
    servers: &[&Api; 2],
    shapes: &[Shape],
    mut is_wanted: impl FnMut(&[Snapshot; 2]) -> bool,
) -> Option<[Snapshot; 2]> {
    let deadline = Instant::now() + LIMIT;
    let mut before = [Snapshot::new(), Snapshot::new()];
    let mut same = 0;
    while Instant::now() < deadline {
        let now = servers.map(|server| snapshot(server, &namespaces(shapes)));
        same = if is_wanted(&now) && now == before { same + 1 } else { 0 };
        if same >= LOOKS {
            return Some(now);
        }
        before = now;
        thread::sleep(PERIOD);
    }
    None
}

/// Reports objects as ready, round after round, until nothing changes. The two servers may differ in between.
fn become_ready(servers: &[&Api; 2], shapes: &[Shape]) {
    for round in 0.. {
        assert!(round < ROUNDS, "readiness leads to ever more changes");
        let mut news = false;
        for server in servers {
            news |= make_ready(server, &namespaces(shapes));
        }
        if !news {
            return;
        }
        rest(servers, shapes, |_| true).expect("a world that comes to rest");
    }
}
