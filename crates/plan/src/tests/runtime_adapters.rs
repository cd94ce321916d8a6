//! LoRA adapters that are loaded while pods run: what a change of them changes, and what the status says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use longboat_api::{annotations::RUNTIME_ADAPTERS, conditions::types};
use longboat_compose::platform::Images;
use longboat_download::adapters::{AdapterReport, LIST_FILE, ListedAdapter};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, world},
    reads,
};
use crate::PodAdapters;

fn start() -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    Arc::make_mut(&mut world.snapshot.platform).images = Images::Ours("registry.example/longboat:v1".into());
    world
}

fn service(annotation: Option<&str>, adapters: &[(&str, &str)]) -> Value {
    let mut service = plain();
    if let Some(value) = annotation {
        service["metadata"]["annotations"] = json!({RUNTIME_ADAPTERS: value});
    }
    let adapters = adapters.iter().map(|(name, uri)| json!({"name": name, "uri": uri}));
    service["spec"]["model"]["lora"] = json!({"maxRank": 8, "adapters": adapters.collect::<Vec<_>>()});
    service
}

fn template(world: &ClusterModel) -> PodTemplateSpec {
    let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
    deployment.spec.as_ref().unwrap().template.clone()
}

fn list(world: &ClusterModel) -> Option<Vec<ListedAdapter>> {
    let config_map = world.snapshot.config_maps.get(Namespace(NAMESPACE), Name("llm-kserve-adapters"))?;
    Some(serde_json::from_str(&config_map.data.as_ref().unwrap()[LIST_FILE]).unwrap())
}

/// The status, reason and message of the condition.
fn said(world: &ClusterModel) -> Option<(bool, String, String)> {
    let status = world.services.values().next().unwrap().status.as_ref().unwrap();
    let found = status.conditions.iter().find(|found| found.type_ == types::ADAPTERS_LOADED)?;
    Some((found.is_true(), found.reason.clone(), found.message.clone()))
}

#[test]
fn a_change_of_the_adapters_changes_a_list_and_no_pod() {
    let mut world = start();
    world.put(service(Some("true"), &[]), NAMESPACE);
    world.settle();
    let before = template(&world);
    assert_eq!(list(&world), Some(Vec::new()));
    let pod = before.spec.clone().unwrap();
    let args = pod.containers[0].args.clone().unwrap();
    assert_eq!(args[..2], ["--enable-lora", "--max-lora-rank=8"]);
    let env = pod.containers[0].env.iter().flatten();
    let open = env.filter(|variable| variable.name == "VLLM_ALLOW_RUNTIME_LORA_UPDATING");
    assert_eq!(open.count(), 1);
    let loader = pod.init_containers.unwrap().into_iter().find(|init| init.name == "adapter-loader").unwrap();
    assert_eq!(loader.restart_policy.as_deref(), Some("Always"));
    assert_eq!(loader.image.as_deref(), Some("registry.example/longboat:v1"));

    world.put(service(Some("true"), &[("a", "hf://org/a"), ("org/b", "s3://bucket/b")]), NAMESPACE);
    world.settle();
    assert_eq!(template(&world), before);
    let listed = list(&world).unwrap();
    let models = ["org/b".to_owned(), format!("publishers/{NAMESPACE}/models/org/b")];
    assert_eq!((listed.len(), &listed[1].models[..]), (2, &models[..]));
    let folder = listed[0].folder.clone();
    assert!(folder.starts_with("a-") && listed[1].folder.starts_with("org-b-"), "{listed:?}");
    // Another address is another folder.
    world.put(service(Some("true"), &[("a", "hf://org/a2")]), NAMESPACE);
    world.settle();
    assert_eq!(template(&world), before);
    assert_ne!(list(&world).unwrap()[0].folder, folder);
    // An adapter on a claim is a mount, which only new pods have.
    world.put(service(Some("true"), &[("a", "hf://org/a2"), ("c", "pvc://claim/c")]), NAMESPACE);
    world.settle();
    assert_ne!(template(&world), before);
    assert_eq!(list(&world).unwrap().len(), 1);
    assert_eq!(reads::unnoticed(&world), Vec::<String>::new());
    // Without the annotation, everything is as the reference has it.
    let mut plain_world = start();
    for annotation in [None, Some("false")] {
        world.put(service(annotation, &[("a", "hf://org/a2")]), NAMESPACE);
        world.settle();
        plain_world.put(service(None, &[("a", "hf://org/a2")]), NAMESPACE);
        plain_world.settle();
        assert_eq!(template(&world), template(&plain_world));
        assert_eq!((list(&world), said(&world)), (None, None));
    }
}

#[test]
fn the_condition_names_each_adapter_that_pods_lack_and_why() {
    let mut world = start();
    world.put(service(Some("true"), &[("a", "hf://org/a"), ("b", "hf://org/b")]), NAMESPACE);
    world.settle();
    let folders: Vec<String> = list(&world).unwrap().into_iter().map(|adapter| adapter.folder).collect();
    let report = |name: &str, folder: &str, loaded: bool, error: Option<&str>| AdapterReport {
        name: name.into(),
        folder: folder.into(),
        loaded,
        error: error.map(Into::into),
    };
    let pod = |name: &str, report| PodAdapters { pod: name.into(), report };
    let both = || vec![report("a", &folders[0], true, None), report("b", &folders[1], true, None)];
    let gone = report("c", "c-1", true, None);
    let broken =
        vec![report("a", &folders[0], true, None), report("b", &folders[1], false, Some("rank 64 > 16"))];
    for (pods, reason, message) in [
        (vec![], "LoadingAdapters", "no pod has told its adapters yet"),
        (vec![pod("p", Ok(both())), pod("q", Ok(both()))], "AllAdaptersLoaded", "a, b in 2 pods"),
        (
            vec![pod("p", Ok(both())), pod("q", Ok(vec![]))],
            "LoadingAdapters",
            "a is loaded in 1 of 2 pods, b is loaded in 1 of 2 pods",
        ),
        (vec![pod("p", Ok([both(), vec![gone]].concat()))], "LoadingAdapters", "c is still loaded in 1 pod"),
        (vec![pod("p", Ok(both())), pod("q", Ok(broken))], "AdapterFailed", "b: pod q: rank 64 > 16"),
        (
            vec![pod("p", Err("no answer".into()))],
            "ProgressUnknown",
            "pod p does not tell its adapters: no answer",
        ),
    ] {
        world.adapters = pods;
        world.settle();
        let expected = (reason == "AllAdaptersLoaded", reason.to_owned(), message.to_owned());
        assert_eq!(said(&world), Some(expected));
    }
    Arc::make_mut(&mut world.snapshot.platform).images = Images::Reference;
    world.settle();
    let (_, reason, message) = said(&world).unwrap();
    assert_eq!(reason, "AdaptersNeedRollout");
    assert!(message.contains("images of the reference"), "{message}");
    assert_eq!(list(&world), None);
}
