//! Every shape of service (`tests/cases/topology`) on the real API server and on the embedded one: the same children and the same
//! status, from the first object over readiness, missing APIs and a stop to the end.
//!
//! All shapes live at once, each in a namespace of its own, so that waiting is waited once.

use std::{
    collections::BTreeSet,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    api::Api,
    cluster::{Turn, files},
    definitions::{definition, install_api, remove_api},
    embedded::Embedded,
    picture::{Picture, differences, picture},
    ready::make_ready,
    tools,
    wait::{LIMIT, until},
};

/// Between two looks at whether anything changes.
const PERIOD: Duration = Duration::from_millis(700);
/// Looks in a row that must be the same: longer than the controller waits between its first tries.
const LOOKS: usize = 4;
/// Rounds in which everything is made ready; a member of a group becomes ready after another one.
const ROUNDS: usize = 8;

/// APIs that a cluster may lack, by the names of their CRDs.
const OPTIONAL: [&str; 5] = [
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "scaledobjects.keda.sh",
    "inferencepools.inference.networking.k8s.io",
    "inferencepools.inference.networking.x-k8s.io",
    "httproutes.gateway.networking.k8s.io",
];

/// A shape: its name, which is its namespace, too, and its objects.
pub(crate) type Shape = (String, Vec<Value>);

#[test]
fn every_shape_of_service_becomes_the_same_on_both_servers() {
    let Some(cluster) = Turn::take() else { return };
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
            until("a deleted service is gone", || (server.get(&path).status == 404).then_some(()));
        }
    }
    compare("when all are deleted");
}

/// All shapes.
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

/// Namespaces and names of the services.
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
        // The real one has nobody who makes it.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        server.post(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account);
        for object in objects {
            put(server, namespace, object);
        }
    }
}

/// Creates again what went with its API.
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

/// What is in all namespaces, once it is the same on both servers and does not change any more.
fn settle(servers: &[&Api; 2], shapes: &[Shape], moment: &str, embedded: &Embedded) -> Picture {
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

/// What is in all namespaces of both servers, once that has been as it should be for a while. None if it never is.
fn rest(
    servers: &[&Api; 2],
    shapes: &[Shape],
    mut is_wanted: impl FnMut(&[Picture; 2]) -> bool,
) -> Option<[Picture; 2]> {
    let deadline = Instant::now() + LIMIT;
    let mut before = [Picture::new(), Picture::new()];
    let mut same = 0;
    while Instant::now() < deadline {
        let now = servers.map(|server| picture(server, &namespaces(shapes)));
        same = if is_wanted(&now) && now == before { same + 1 } else { 0 };
        if same >= LOOKS {
            return Some(now);
        }
        before = now;
        thread::sleep(PERIOD);
    }
    None
}

/// Makes everything ready, round after round. The servers may take different ways there.
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
