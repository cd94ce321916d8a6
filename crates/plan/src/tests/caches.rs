//! LoRA adapters that are cached on nodes.

use longboat_api::conditions::types;
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, world},
};

fn settled(annotation: &str) -> ClusterModel {
    settled_with(annotation, &json!({}), &[])
}

/// The world of a service with adapters, these annotations and these caches.
fn settled_with(annotation: &str, annotations: &Value, caches: &[Value]) -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    for cache in caches {
        let mut cache = cache.clone();
        let is_shared = cache["metadata"]["namespace"].is_null();
        cache["apiVersion"] = json!("serving.kserve.io/v1alpha1");
        cache["kind"] = json!(if is_shared { "LocalModelCache" } else { "LocalModelNamespaceCache" });
        world.put(cache, NAMESPACE);
    }
    let mut service = plain();
    service["spec"]["model"]["lora"] = json!({"adapters": [
        {"name": "a", "uri": "hf://o/sql/sub"}, {"name": "b", "uri": "hf://o/other"}, {"name": "c", "uri": "hf://o/new"},
    ]});
    service["metadata"]["annotations"] = annotations.clone();
    service["metadata"]["annotations"]["internal.serving.kserve.io/localmodel-lora"] = json!(annotation);
    world.put(service, NAMESPACE);
    world.settle();
    world
}

/// The claim that holds adapter `a`, and the path in it.
fn claim(world: &ClusterModel) -> (String, String) {
    let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let main = pod.containers.iter().find(|container| container.name == "main").unwrap();
    let mut mounts = main.volume_mounts.iter().flatten();
    let mount = mounts.find(|mount| mount.mount_path == "/mnt/lora/a").unwrap();
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == mount.name).unwrap();
    let claim = volume.persistent_volume_claim.as_ref().unwrap().claim_name.clone();
    (claim, mount.sub_path.clone().unwrap_or_default())
}

fn problem(world: &ClusterModel) -> String {
    let status = world.services.values().next().unwrap().status.clone().unwrap();
    let found =
        status.conditions.into_iter().find(|found| found.type_ == types::MAIN_WORKLOAD_READY).unwrap();
    found.message
}

#[test]
fn a_cached_adapter_is_mounted_and_the_others_are_downloaded() {
    let caches = json!({
        "a": {"cache": "sql", "claim": "sql-gpu", "sourceUri": "hf://o/sql"},
        // The adapter has moved since.
        "c": {"cache": "old", "claim": "old-gpu", "sourceUri": "hf://o/old"},
    });
    let world = settled(&caches.to_string());
    let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let args = pod.init_containers.as_ref().unwrap()[0].args.as_ref().unwrap();
    assert_eq!(
        args[..],
        ["hf://org/model", "/mnt/models", "hf://o/other", "/mnt/lora/b", "hf://o/new", "/mnt/lora/c"]
    );
    let (name, path) = claim(&world);
    assert_eq!(name, "sql-gpu");
    assert!(path.starts_with("models/") && path.ends_with("/sub"), "{path}");
}

#[test]
fn an_annotation_of_kserve_is_read_in_all_its_forms() {
    let shared = json!({"metadata": {"name": "sql"}, "spec": {"sourceModelUri": "hf://o/sql", "nodeGroups": ["gpu", "cpu"]}});
    let own = json!({
        "metadata": {"name": "sql", "namespace": NAMESPACE},
        "spec": {"sourceModelUri": "hf://o/sql", "nodeGroups": ["tpu"]},
    });
    let caches = [shared, own];
    let of = |entry: Value, annotations: Value| {
        claim(&settled_with(&json!({"a": entry}).to_string(), &annotations, &caches))
    };
    let (first, path) = of(json!({"cache": "sql"}), json!({}));
    assert_eq!(first, "sql-gpu");
    let asked = json!({"serving.kserve.io/nodegroup": "cpu"});
    for (entry, annotations, wanted) in [
        (json!({"cache": "sql"}), asked, "sql-cpu"),
        (json!({"cache": "sql", "nodeGroup": "cpu"}), json!({}), "sql-cpu"),
        (json!({"cache": "sql", "namespace": NAMESPACE}), json!({}), "sql-tpu"),
        (json!({"cache": "gone", "pvcName": "kept", "sourceUri": "hf://o/sql"}), json!({}), "kept"),
    ] {
        assert_eq!(of(entry.clone(), annotations), (wanted.to_owned(), path.clone()), "{entry}");
    }
}

#[test]
fn an_adapter_on_a_shared_claim_is_used_when_it_is_there() {
    let cache = |ready: &str| {
        let metadata = json!({"name": "sql", "namespace": NAMESPACE});
        let conditions = json!([{"type": "Ready", "status": ready}]);
        json!({
            "metadata": metadata, "spec": {"sourceModelUri": "hf://o/sql", "pvcRef": "disk"},
            "status": {"conditions": conditions},
        })
    };
    let annotation = json!({"a": {"cache": "sql", "namespace": NAMESPACE}}).to_string();
    let world = settled_with(&annotation, &json!({}), &[cache("True")]);
    let (name, path) = claim(&world);
    assert!(name == "disk" && path.starts_with("models/") && path.ends_with("/sub"), "{name} {path}");
    let message = problem(&settled_with(&annotation, &json!({}), &[cache("False")]));
    assert!(message.contains("LocalModelNamespaceCache team/sql is not ready"), "{message}");
}

#[test]
fn an_annotation_that_does_not_say_where_an_adapter_is_stops_the_workload_with_a_reason() {
    let message = problem(&settled(&json!({"a": {"cache": "sql"}}).to_string()));
    assert!(message.contains("LoRA adapter \"a\": cannot get LocalModelCache sql"), "{message}");
    let message = problem(&settled("[1]"));
    assert!(message.contains("localmodel-lora cannot be read"), "{message}");
    // An empty one names no adapter.
    let world = settled("");
    assert!(world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).is_some());
}
