//! An old installation has stored objects in an old API version. The leader rewrites them once in the storage version. Each
//! test has its own cluster.

use longboat_api::names::CONFIG_FINALIZER;
use serde_json::{Value, json};

use crate::{
    definitions::CRDS,
    installation::{credentials, install, prepared},
    policy::{accept, refuse},
    replica::Replica,
    server::Server,
    wait::until,
};

const KINDS: [&str; 2] = ["llminferenceservices", "llminferenceserviceconfigs"];
const OLD: &str = "/apis/serving.kserve.io/v1alpha1/namespaces/old";

fn crd(resource: &str) -> String {
    format!("{CRDS}/{resource}.serving.kserve.io")
}

/// Makes `version` the storage version of a CRD.
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

/// Returns the API version in which etcd holds an object.
fn stored_as(server: &Server, resource: &str, name: &str) -> Value {
    let stored = server.stored(&format!("serving.kserve.io/{resource}/old/{name}"));
    stored.map(|object| object["apiVersion"].clone()).unwrap_or_default()
}

/// Creates an object that is stored in the old version. Retries, because the server learns of the CRD's change through a watch.
fn make_old(server: &Server, resource: &str, kind: &str, name: &str) {
    make_old_with(server, resource, kind, name, &[]);
}

/// Like [`make_old`], with finalizers.
fn make_old_with(server: &Server, resource: &str, kind: &str, name: &str, finalizers: &[&str]) {
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"model": {"uri": "hf://org/model"}},
    });
    let path = format!("{OLD}/{resource}");
    until("the object is stored in the old version", || {
        server.api.post(&path, &object).ok();
        if stored_as(server, resource, name) == "serving.kserve.io/v1alpha1" {
            return Some(());
        }
        let object = format!("{path}/{name}");
        // Nobody else would remove the finalizers now.
        server.api.merge(&object, &json!({"metadata": {"finalizers": null}})).ok();
        server.api.delete(&object).ok();
        None
    });
}

/// Lists the controller's migrating writes, with who made them: patches of the config `idle`, which has its finalizer from the
/// start, and those of the status of CRDs.
fn migrating_writes(server: &Server) -> Vec<String> {
    let log = std::fs::read_to_string(server.folder.join("audit.log")).unwrap_or_default();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| {
            let (object, verb) = (&event["objectRef"], event["verb"].as_str().unwrap_or_default());
            let (resource, is_status) = (object["resource"].as_str(), object["subresource"] == "status");
            verb == "patch"
                && match resource {
                    Some("customresourcedefinitions") => is_status,
                    Some("llminferenceserviceconfigs") => object["name"] == "idle" && !is_status,
                    _ => false,
                }
        })
        .map(|event| format!("{} by {}", event["requestURI"], event["user"]["username"]))
        .collect()
}

#[test]
fn what_is_stored_in_an_old_version_is_rewritten_once_and_the_definition_says_so() {
    let Some(server) = prepared() else { return };
    install(&server);
    server.api.make_namespace("old");
    for (resource, kind, name, finalizers) in [
        (KINDS[0], "LLMInferenceService", "llm", &[][..]),
        // This config already has its finalizer, so the controller patches it only to migrate it.
        (KINDS[1], "LLMInferenceServiceConfig", "idle", &[CONFIG_FINALIZER][..]),
    ] {
        store_as(&server, resource, "v1alpha1");
        make_old_with(&server, resource, kind, name, finalizers);
        store_as(&server, resource, "v1alpha2");
        until("both versions are noted", || {
            let versions = stored_versions(&server, resource);
            versions.as_array().map(Vec::len) == Some(2)
        });
    }
    let kubeconfig = credentials(&server, "controller");

    // With migration off, `storedVersions` stays as it is.
    let mut replica = Replica::start(&kubeconfig, &["--leader-elect", "--storage-migration=false"]);
    replica.ready();
    until("the service is reconciled", || {
        let service =
            server.api.get("/apis/serving.kserve.io/v1alpha2/namespaces/old/llminferenceservices/llm").ok();
        service["status"]["observedGeneration"] == service["metadata"]["generation"]
    });
    assert!(replica.end("-TERM").success());
    for resource in KINDS {
        assert_eq!(stored_versions(&server, resource).as_array().unwrap().len(), 2);
    }
    store_as(&server, KINDS[1], "v1alpha1");
    make_old(&server, KINDS[1], "LLMInferenceServiceConfig", "second");
    store_as(&server, KINDS[1], "v1alpha2");
    assert_eq!(migrating_writes(&server), Vec::<String>::new());

    let mut replica = Replica::start(&kubeconfig, &["--leader-elect"]);
    replica.ready();
    for resource in KINDS {
        until("only the storage version is left", || {
            stored_versions(&server, resource) == json!(["v1alpha2"])
        });
    }
    for (resource, name) in [(KINDS[0], "llm"), (KINDS[1], "idle"), (KINDS[1], "second")] {
        assert_eq!(stored_as(&server, resource, name), "serving.kserve.io/v1alpha2", "{name}");
    }
    assert!(replica.end("-TERM").success());
    // The audit log lags a little behind the responses.
    let mut writes = Vec::new();
    until("the audit log has all writes", || {
        let before = std::mem::replace(&mut writes, migrating_writes(&server));
        std::thread::sleep(std::time::Duration::from_secs(1));
        !writes.is_empty() && writes == before
    });

    // The next leader finds nothing to migrate.
    let mut replica = Replica::start(&kubeconfig, &["--leader-elect"]);
    replica.ready();
    let service = "/apis/serving.kserve.io/v1alpha2/namespaces/old/llminferenceservices/llm";
    server.api.merge(service, &json!({"metadata": {"labels": {"touched": "yes"}}})).ok();
    until("it leads", || replica.log().contains("Reconciling starts."));
    assert!(replica.end("-TERM").success());
    assert_eq!(migrating_writes(&server), writes);
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}

/// Returns the status codes of the controller's patches of an object, without those of its status.
fn answers(server: &Server, resource: &str, name: &str) -> Vec<u64> {
    let log = std::fs::read_to_string(server.folder.join("audit.log")).unwrap_or_default();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter(|event| {
            let object = &event["objectRef"];
            event["verb"] == "patch"
                && object["resource"] == resource
                && object["name"] == name
                && object["subresource"].is_null()
        })
        .map(|event| event["responseStatus"]["code"].as_u64().unwrap())
        .collect()
}

/// Returns level, failure and hint of the last log line about a kind that could not be migrated.
fn complaint(replica: &Replica, resource: &str) -> Option<[String; 3]> {
    let log = replica.log();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.rfind(|line| line["resource"] == resource && line["failure"].is_string())?;
    Some(["level", "failure", "hint"].map(|field| line[field].as_str().unwrap_or_default().to_owned()))
}

#[test]
fn what_cannot_be_written_is_named_and_waited_for_while_all_else_is_rewritten() {
    const REFUSAL: &str = "broken objects stay as they are";
    let Some(server) = prepared() else { return };
    install(&server);
    server.api.make_namespace("old");
    for (resource, kind, broken) in [
        (KINDS[0], "LLMInferenceService", &["broken"][..]),
        (KINDS[1], "LLMInferenceServiceConfig", &["broken", "broken-too"]),
    ] {
        store_as(&server, resource, "v1alpha1");
        for name in broken {
            make_old(&server, resource, kind, name);
        }
        if resource == KINDS[1] {
            // This config already has its finalizer, so the controller patches it only to migrate it.
            make_old_with(&server, resource, kind, "sound", &[CONFIG_FINALIZER]);
        }
        store_as(&server, resource, "v1alpha2");
    }
    let is_sound = "!object.metadata.name.startsWith('broken')";
    refuse(&server, "UPDATE", ("serving.kserve.io", &KINDS), is_sound, REFUSAL);
    let (service, config) = (format!("{OLD}/{}/broken", KINDS[0]), format!("{OLD}/{}/broken-too", KINDS[1]));
    for object in [&service, &config] {
        until("the policy is in force", || {
            let touched = json!({"metadata": {"labels": {"touched": "yes"}}});
            server.api.merge(&format!("{object}?dryRun=All"), &touched).status == 422
        });
    }
    let is_stored = |resource: &str, name: &str, version: &str| {
        stored_as(&server, resource, name) == format!("serving.kserve.io/{version}")
    };

    let flags = ["--leader-elect", "--zap-encoder=json", "--storage-migration-poll-interval=1s"];
    let mut replica = Replica::start(&credentials(&server, "controller"), &flags);
    replica.ready();
    until("the others are migrated", || answers(&server, KINDS[1], "sound").contains(&200));
    assert!(is_stored(KINDS[1], "sound", "v1alpha2"));
    for (resource, count, names) in [
        (KINDS[0], "1 objects", &["old/broken: "][..]),
        (KINDS[1], "2 objects", &["old/broken: ", "old/broken-too: "]),
    ] {
        let [level, failure, hint] = until("it is said which are left", || complaint(&replica, resource));
        assert_eq!(level, "WARN");
        let cause = format!("cannot write {count}: ");
        assert!(failure.starts_with(&cause) && failure.contains(REFUSAL), "{failure}");
        assert!(names.iter().all(|name| failure.contains(name)) && !failure.contains("sound"), "{failure}");
        assert!(hint.contains("delete them"), "{hint}");
        assert_eq!(stored_versions(&server, resource).as_array().map(Vec::len), Some(2), "{resource}");
        assert!(is_stored(resource, "broken", "v1alpha1"));
    }

    // The migration ends when the object is deleted, or when it may be written again, and writes nothing else.
    server.api.delete(&service).ok();
    let only_new = |resource: &str| {
        until("only the storage version is left", || {
            stored_versions(&server, resource) == json!(["v1alpha2"])
        });
    };
    only_new(KINDS[0]);
    assert_eq!(stored_versions(&server, KINDS[1]).as_array().map(Vec::len), Some(2));
    accept(&server);
    only_new(KINDS[1]);
    for name in ["broken", "broken-too", "sound"] {
        assert!(is_stored(KINDS[1], name, "v1alpha2"), "{name}");
    }
    assert!(replica.end("-TERM").success());
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
