//! Members of a group that are being deleted.

use std::collections::{BTreeMap, BTreeSet};

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::outcome::{AppliedConfigs, Outcome};
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, world},
    simulate,
};
use crate::{Children, Peers, Progress, add_peers};

fn member(name: &str, weight: i32) -> Value {
    let mut member = plain();
    member["metadata"]["name"] = name.into();
    member["spec"]["model"] = json!({"uri": "hf://o/m", "name": "shared"});
    member["spec"]["router"]["route"] = json!({"group": "g", "weight": weight, "http": {}});
    member
}

/// A group whose members all serve.
fn group(names: &[&str]) -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    for (name, weight) in names.iter().zip([10, 20, 30]) {
        world.put(member(name, weight), NAMESPACE);
    }
    world.settle();
    simulate::ready(&mut world, NAMESPACE, &json!({}));
    world.settle();
    world
}

fn key(name: &str) -> Key {
    Key::new(Namespace(NAMESPACE), Name(name))
}

fn delete(world: &mut ClusterModel, name: &str) {
    world.services.get_mut(&key(name)).unwrap().metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-11-20T00:00:00Z")).unwrap());
    world.snapshot.peers = Peers::default();
    add_peers(&mut world.snapshot.peers, world.services.values());
}

fn backends(route: &longboat_api::foreign::httproute::HTTPRoute) -> BTreeSet<(String, Option<i32>)> {
    let all = route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
    all.filter(|one| one.weight != Some(1)).map(|one| (one.backend.name.clone(), one.weight)).collect()
}

fn pools(names: &[(&str, i32)]) -> BTreeSet<(String, Option<i32>)> {
    names.iter().map(|(name, weight)| (format!("{name}-inference-pool"), Some(*weight))).collect()
}

#[test]
fn a_member_that_is_deleted_loses_its_traffic_and_nothing_else_of_the_route_changes() {
    let mut world = group(&["a", "b", "c"]);
    let live = world.snapshot.http_routes.get(Namespace(NAMESPACE), Name("a-kserve-route")).unwrap().clone();
    assert_eq!(backends(&live), pools(&[("a", 10), ("b", 20), ("c", 30)]));
    let pruned =
        |world: &ClusterModel| crate::pruned_route(&world.services[&key("a")], &world.snapshot).unwrap();
    assert_eq!(pruned(&world), Ok(None));

    delete(&mut world, "b");
    // What the service itself asks for now does not matter.
    world.services.get_mut(&key("a")).unwrap().spec = LLMInferenceServiceSpec::default();
    let mut route = pruned(&world).unwrap().unwrap();
    assert_eq!(backends(&route), pools(&[("a", 10), ("c", 30)]));
    for (rule, before) in route.spec.rules.iter_mut().zip(&live.spec.rules) {
        rule.backend_refs.clone_from(&before.backend_refs);
    }
    assert_eq!(route, live);

    let mut foreign = live;
    foreign.metadata.owner_references = None;
    world.store(foreign);
    assert_eq!(
        pruned(&world),
        Err("cannot prune group HTTPRoute team/a-kserve-route: not controlled by this service".into())
    );
}

#[test]
fn a_service_that_cannot_be_composed_forgets_a_member_that_is_deleted() {
    let mut world = group(&["a", "b"]);
    let members = |status: &longboat_api::v1alpha2::LLMInferenceServiceStatus| {
        let group = status.router.clone().unwrap().group.unwrap();
        group.members.into_iter().map(|member| member.name).collect::<Vec<_>>()
    };
    let service = world.services[&key("a")].clone();
    assert_eq!(members(service.status.as_ref().unwrap()), ["a", "b"]);
    delete(&mut world, "b");
    let failed = Outcome {
        reason: "CombineBaseError",
        message: "broken".into(),
        applied: AppliedConfigs::Clear,
        stop: None,
        use_own_spec: false,
    };
    let progress = Progress {
        presets: &failed,
        pins: &BTreeMap::default(),
        spec: None,
        problem: None,
        proof: None,
        download: None,
        adapters: &[],
    };
    let status =
        crate::status(&service, progress, &Children::default(), &world.snapshot, world.snapshot.now).unwrap();
    assert_eq!(members(&status), ["a"]);
}
