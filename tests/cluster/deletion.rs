//! Objects are deleted in any order, and afterwards nothing is left but what owner references would remove. The server has no
//! garbage collector, so the tests delete those objects themselves.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::{api::Api, cluster::ExclusiveCluster, snapshot::children, wait::until};

/// Longer than the controller needs to create missing children again.
const WHILE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Step {
    Service,
    Children,
    Config,
    Namespace,
}

const ORDERS: [(&str, &[Step]); 4] = [
    ("service-first", &[Step::Service, Step::Config, Step::Children]),
    ("children-first", &[Step::Children, Step::Service, Step::Config, Step::Children]),
    ("config-first", &[Step::Config, Step::Service, Step::Children]),
    ("namespace-first", &[Step::Namespace, Step::Children, Step::Config, Step::Service, Step::Children]),
];

fn config(namespace: &str) -> String {
    format!("/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceserviceconfigs")
}

fn service(namespace: &str) -> String {
    format!("/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceservices")
}

#[test]
fn services_go_whatever_is_deleted_first() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    for (namespace, _) in ORDERS {
        cluster.namespace(namespace);
        make(api, namespace);
    }
    for (namespace, steps) in ORDERS {
        until("the service has all its children", || complete(api, namespace));
        for step in steps {
            delete(api, namespace, *step);
        }
        let gone = |path: String| until("what was deleted is gone", || api.get(&path).status == 404);
        gone(format!("{}/llm", service(namespace)));
        gone(format!("{}/base", config(namespace)));
        thread::sleep(WHILE);
        assert_eq!(children(api, namespace), Vec::<String>::new(), "{namespace}: made again, or left");
    }
    // The namespace controller's last step.
    let done = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "namespace-first"}, "spec": {"finalizers": []}});
    api.put("/api/v1/namespaces/namespace-first/finalize", &done).ok();
    until("the namespace is gone", || api.get("/api/v1/namespaces/namespace-first").status == 404);
    assert!(!cluster.controller_log().contains("panicked"));
}

fn make(api: &Api, namespace: &str) {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        })
    };
    api.post(&config(namespace), &object("LLMInferenceServiceConfig", "base", json!({"replicas": 2}))).ok();
    let spec = json!({
        "model": {"uri": "hf://org/model"}, "baseRefs": [{"name": "base"}],
        "router": {"route": {}, "gateway": {}, "scheduler": {}},
    });
    api.post(&service(namespace), &object("LLMInferenceService", "llm", spec)).ok();
}

/// Whether the first and the last child exist, and also the ClusterRoleBinding, which no owner reference removes.
fn complete(api: &Api, namespace: &str) -> bool {
    let children = children(api, namespace);
    ["self-signed-certs", "-kserve-route", "-auth-rb", "inferencepools/"]
        .iter()
        .all(|part| children.iter().any(|child| child.contains(part)))
}

fn delete(api: &Api, namespace: &str, step: Step) {
    match step {
        Step::Service => drop(api.delete(&format!("{}/llm", service(namespace))).ok()),
        Step::Config => {
            let path = format!("{}/base", config(namespace));
            api.delete(&path).ok();
            let service_lives = api.get(&format!("{}/llm", service(namespace))).status == 200;
            if service_lives {
                // The finalizer keeps the config until the service is gone.
                thread::sleep(WHILE);
                let config = api.get(&path).ok();
                assert!(config["metadata"]["deletionTimestamp"].is_string(), "{namespace}: {config:#}");
            }
        }
        Step::Children => {
            // The controller may have deleted some children meanwhile.
            for child in children(api, namespace) {
                let answer = api.delete(&child);
                assert!(answer.status < 300 || answer.status == 404, "{child}: {:#}", answer.body);
            }
        }
        Step::Namespace => drop(api.delete(&format!("/api/v1/namespaces/{namespace}")).ok()),
    }
    if let Step::Service = step {
        until("the controller lets the service go", || {
            api.get(&format!("{}/llm", service(namespace))).status == 404
        });
    }
}
