//! Downloads: where their progress comes from, what the status reports, and which volumes hold files to be copied.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::conditions::{Condition, types};
use longboat_key::{Name, Namespace};
use serde_json::json;

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, settled, world},
    simulate,
};
use crate::Download;

fn pod(world: &ClusterModel) -> &PodSpec {
    let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
    deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap()
}

fn initializer(world: &ClusterModel) -> &Container {
    let mut all = pod(world).init_containers.iter().flatten();
    all.find(|container| container.name == "storage-initializer").unwrap()
}

/// The port of the container, and the port in its environment.
fn ports(world: &ClusterModel) -> (Option<i32>, Option<String>) {
    let container = initializer(world);
    let port = container.ports.iter().flatten().next().map(|port| port.container_port);
    let mut env = container.env.iter().flatten();
    (
        port,
        env.find(|variable| variable.name == "LONGBOAT_FETCH_PORT")
            .and_then(|variable| variable.value.clone()),
    )
}

fn set(world: &mut ClusterModel, port: Option<u16>, ours: bool) {
    let platform = Arc::make_mut(&mut world.snapshot.platform);
    platform.download_progress_port = port;
    platform.storage.ours = ours;
}

#[test]
fn our_initializer_listens_where_the_platform_asks_and_what_runs_stays_as_it_is() {
    let nothing = (None, None);
    let told = (Some(9418), Some("9418".to_owned()));
    for (before, after, expected) in
        [(None, Some(9418), &nothing), (Some(9418), None, &told), (Some(9418), Some(7), &told)]
    {
        let mut world = world(&presets_as_layers(), false);
        set(&mut world, before, true);
        world.put(plain(), NAMESPACE);
        world.settle();
        assert_eq!(ports(&world), *expected);
        set(&mut world, after, true);
        world.settle();
        assert_eq!(ports(&world), *expected, "{before:?} to {after:?} starts no pods anew");
    }
    let mut world = world(&presets_as_layers(), false);
    set(&mut world, Some(9418), false);
    world.put(plain(), NAMESPACE);
    world.settle();
    assert_eq!(ports(&world), nothing, "another image knows nothing of it");
}

#[test]
fn a_download_is_told_while_it_runs_and_ready_does_not_depend_on_it() {
    let mut world = settled(plain());
    simulate::ready(&mut world, NAMESPACE, &json!({}));
    world.settle();
    let found = |world: &ClusterModel, type_: &str| -> Option<Condition> {
        let status = world.services.values().next()?.status.as_ref()?;
        status.conditions.iter().find(|found| found.type_ == type_).cloned()
    };
    let ready = found(&world, types::READY).unwrap();
    for (download, reason) in [
        (Download::Progress("downloading 1/2 GB".into()), "Downloading"),
        (Download::Silent("no answer".into()), "ProgressUnknown"),
    ] {
        world.download = Some(download);
        world.settle();
        let told = found(&world, types::MODEL_FETCHED).unwrap();
        assert!(told.is_false() && told.reason == reason, "{told:?}");
        assert_eq!(found(&world, types::READY).unwrap(), ready);
    }
    world.download = None;
    world.settle();
    assert_eq!(found(&world, types::MODEL_FETCHED), None);
}

#[test]
fn a_volume_that_is_made_with_the_pod_holds_no_model_unless_somebody_fills_it() {
    let mounts = |filler: bool| {
        let mut service = plain();
        service["spec"]["model"]["uri"] = "file:///scratch/model".into();
        let mount = json!([{"name": "scratch", "mountPath": "/scratch"}]);
        let mut template = json!({
            "containers": [{"name": "main", "volumeMounts": mount}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        });
        if filler {
            template["initContainers"] = json!([{"name": "fill", "image": "i", "volumeMounts": mount}]);
        }
        service["spec"]["template"] = template;
        let world = settled(service);
        let mounts = initializer(&world).volume_mounts.iter().flatten();
        mounts.map(|mount| mount.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(mounts(false), ["kserve-provision-location"]);
    assert_eq!(mounts(true), ["kserve-provision-location", "scratch"]);
}
