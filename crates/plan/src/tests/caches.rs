//! LoRA adapters that are cached on nodes.

use longboat_api::conditions::types;
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, world},
};

fn settled(annotation: &str) -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    let mut service = plain();
    service["spec"]["model"]["lora"] = json!({"adapters": [
        {"name": "a", "uri": "hf://o/sql/sub"}, {"name": "b", "uri": "hf://o/other"}, {"name": "c", "uri": "hf://o/new"},
    ]});
    service["metadata"]["annotations"] = json!({"internal.serving.kserve.io/localmodel-lora": annotation});
    world.put(service, NAMESPACE);
    world.settle();
    world
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
    let main = pod.containers.iter().find(|container| container.name == "main").unwrap();
    let mounts = || main.volume_mounts.iter().flatten();
    let mount = mounts().find(|mount| mount.mount_path == "/mnt/lora/a").unwrap();
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == mount.name).unwrap();
    assert_eq!(volume.persistent_volume_claim.as_ref().unwrap().claim_name, "sql-gpu");
    let path = mount.sub_path.as_deref().unwrap();
    assert!(path.starts_with("models/") && path.ends_with("/sub"), "{path}");
}

#[test]
fn an_annotation_that_does_not_say_where_an_adapter_is_stops_the_workload_with_a_reason() {
    let of_kserve: Value = json!({"a": {"cache": "sql"}});
    let message = problem(&settled(&of_kserve.to_string()));
    assert!(message.contains("has no claim for LoRA adapter \"a\": change the service"), "{message}");
    let message = problem(&settled("[1]"));
    assert!(message.contains("localmodel-lora cannot be read"), "{message}");
    // An empty one names no adapter.
    let world = settled("");
    assert!(world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).is_some());
}
