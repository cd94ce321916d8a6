//! Objects that an old installation stored, in a cluster of their own: what is stored in an old version is rewritten by the leader,
//! once.

use serde_json::{Value, json};

use crate::{
    definitions::CRDS,
    installation::{credentials, install, prepared},
    replica::Replica,
    server::Server,
    wait::until,
};

const KINDS: [&str; 2] = ["llminferenceservices", "llminferenceserviceconfigs"];
const OLD: &str = "/apis/serving.kserve.io/v1alpha1/namespaces/old";

fn crd(resource: &str) -> String {
    format!("{CRDS}/{resource}.serving.kserve.io")
}

/// Has new writes stored in a version.
fn store_as(server: &Server, resource: &str, version: &str) {
    let found = server.api.get(&crd(resource)).ok();
    let versions = found["spec"]["versions"].as_array().unwrap().iter().enumerate();
    let patches = versions.map(|(at, found)| {
        json!({"op": "replace", "path": format!("/spec/versions/{at}/storage"), "value": found["name"] == version})
    });
    server.api.patch(&crd(resource), &patches.collect()).ok();
}

fn stored_versions(server: &Server, resource: &str) -> Value {
    server.api.get(&crd(resource)).ok()["status"]["storedVersions"].clone()
}

/// The version in which an object lies in etcd.
fn stored_as(server: &Server, resource: &str, name: &str) -> Value {
    let stored = server.stored(&format!("serving.kserve.io/{resource}/old/{name}"));
    stored.map(|object| object["apiVersion"].clone()).unwrap_or_default()
}

/// Makes an object in the old version, and has the server store it so: it follows the CRD through a watch of its own.
fn make_old(server: &Server, resource: &str, kind: &str, name: &str) {
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": {"model": {"uri": "hf://org/model"}},
    });
    let path = format!("{OLD}/{resource}");
    until("the object is stored in the old version", || {
        server.api.post(&path, &object).ok();
        if stored_as(server, resource, name) == "serving.kserve.io/v1alpha1" {
            return Some(());
        }
        server.api.delete(&format!("{path}/{name}")).ok();
        None
    });
}

/// Writes of the controller that say nothing of an object but that it be stored, and those to the status of CRDs.
fn migrating_writes(server: &Server) -> usize {
    let log = std::fs::read_to_string(server.folder.join("audit.log")).unwrap_or_default();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| {
            let (object, verb) = (&event["objectRef"], event["verb"].as_str().unwrap_or_default());
            let is_metadata = |path: &str| path.contains("llminferenceserviceconfigs/idle");
            verb == "patch"
                && (object["resource"] == "customresourcedefinitions" && object["subresource"] == "status"
                    || event["requestURI"].as_str().is_some_and(is_metadata))
        })
        .count()
}

#[test]
fn what_is_stored_in_an_old_version_is_rewritten_once_and_the_definition_says_so() {
    let Some(server) = prepared() else { return };
    install(&server);
    server.api.make_namespace("old");
    for (resource, kind, name) in
        [(KINDS[0], "LLMInferenceService", "llm"), (KINDS[1], "LLMInferenceServiceConfig", "idle")]
    {
        store_as(&server, resource, "v1alpha1");
        make_old(&server, resource, kind, name);
        store_as(&server, resource, "v1alpha2");
        until("both versions are noted", || {
            let versions = stored_versions(&server, resource);
            (versions.as_array().map(Vec::len) == Some(2)).then_some(())
        });
    }
    let kubeconfig = credentials(&server, "controller");

    // Off, nothing is noted as done.
    let mut replica = Replica::start(&kubeconfig, &["--leader-elect", "--storage-migration=false"]);
    replica.ready();
    until("the service is reconciled", || {
        let service =
            server.api.get("/apis/serving.kserve.io/v1alpha2/namespaces/old/llminferenceservices/llm").ok();
        (service["status"]["observedGeneration"] == service["metadata"]["generation"]).then_some(())
    });
    assert!(replica.end("-TERM").success());
    for resource in KINDS {
        assert_eq!(stored_versions(&server, resource).as_array().unwrap().len(), 2);
    }
    store_as(&server, KINDS[1], "v1alpha1");
    make_old(&server, KINDS[1], "LLMInferenceServiceConfig", "second");
    store_as(&server, KINDS[1], "v1alpha2");
    assert_eq!(migrating_writes(&server), 0);

    let mut replica = Replica::start(&kubeconfig, &["--leader-elect"]);
    replica.ready();
    for resource in KINDS {
        until("only the storage version is left", || {
            (stored_versions(&server, resource) == json!(["v1alpha2"])).then_some(())
        });
    }
    for (resource, name) in [(KINDS[0], "llm"), (KINDS[1], "idle"), (KINDS[1], "second")] {
        assert_eq!(stored_as(&server, resource, name), "serving.kserve.io/v1alpha2", "{name}");
    }
    assert!(replica.end("-TERM").success());
    let writes = migrating_writes(&server);
    assert!(writes > 0);

    // Whoever leads next finds nothing to do.
    let mut replica = Replica::start(&kubeconfig, &["--leader-elect"]);
    replica.ready();
    let service = "/apis/serving.kserve.io/v1alpha2/namespaces/old/llminferenceservices/llm";
    server.api.merge(service, &json!({"metadata": {"labels": {"touched": "yes"}}})).ok();
    until("it leads", || replica.log().contains("Reconciling starts.").then_some(()));
    assert!(replica.end("-TERM").success());
    assert_eq!(migrating_writes(&server), writes);
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
