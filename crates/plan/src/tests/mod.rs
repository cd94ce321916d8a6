//! Compares planning with the recordings of the reference (`crates/golden`). Cases that also need an API server, and events,
//! are compared in the tests of the controller (`crates/controller/tests`).

mod addresses;
mod asked_for;
mod caches;
mod certificates;
mod cluster_model;
mod collisions;
mod composing;
mod downloads;
mod labels;
mod laws;
mod leaving;
mod lora_routing;
mod pairing;
mod proof;
mod reads;
mod runtime_adapters;
mod shared_picker;
mod simulate;
mod troubles;
mod unreadable;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::jiff::Timestamp;
use longboat_compose::ConfigSet;
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use longboat_golden::{self as golden, Case, Difference, Entry, IntendedDifferences, Report, Stage};

use self::cluster_model::ClusterModel;
use crate::{Child, PickerRefusal, Snapshot, names, refusal_of_spec};

const SYSTEM_NAMESPACE: Namespace<&str> = Namespace("kserve");

#[test]
fn services_get_the_children_and_the_status_that_the_reference_gives_them() {
    let recordings = golden::golden();
    let meant = IntendedDifferences::of_planning();
    let presets = composing::presets(&recordings);
    let only = std::env::var("LONGBOAT_CASE").ok();
    let mut report = Report::default();
    let mut refused = BTreeSet::new();
    for folder in golden::folders(&recordings) {
        let case = Case::read(&folder);
        if only.as_ref().is_some_and(|only| *only != case.name) {
            continue;
        }
        match case.needs_a_server() {
            Some(why) => report.leave_out(&case.name, why),
            None => match new_world(&recordings, &presets, &case) {
                Some(world) => report.add(&case.name, judge(world, &case, &mut refused), &meant),
                None => report.leave_out(&case.name, "settings that cannot be read".into()),
            },
        }
    }
    report.print();
    assert_eq!(report.unexplained(), 0, "differences without a reason");
    if only.is_none() {
        assert_eq!(meant.unused(), Vec::<&str>::new(), "reasons in planned.txt that excuse nothing");
        let expected = REFUSED.iter().map(|case| (*case).to_owned());
        assert_eq!(refused, expected.collect::<BTreeSet<_>>(), "pickers that would not start");
    }
}

/// The recorded cases with a picker that does not start. Its plugins have made-up types.
const REFUSED: [&str; 1] = ["sched-inline-strings-that-look-typed"];

/// Collects the pickers that would not start. The webhook, which sees less, must not warn of others.
fn collect_refused(world: &ClusterModel, case: &Case, refused: &mut BTreeSet<String>) {
    for service in world.services.values() {
        let namespace = Namespace::of(&service.metadata);
        let picker = names::scheduler(Name::of(&service.metadata));
        let Some(picker) = world.snapshot.deployments.get(namespace, Name(&picker)) else { continue };
        let found = PickerRefusal::of(picker, &world.snapshot.config_maps, &world.snapshot.platform.images);
        let scheduler = service.spec.router.as_ref().and_then(|router| router.scheduler.as_ref());
        let warned = scheduler.and_then(|own| refusal_of_spec(own, service.spec.base_refs.is_empty()));
        assert!(found.is_some() || warned.is_none(), "{}: a false warning: {warned:?}", case.name);
        refused.extend(found.map(|_| case.name.clone()));
    }
}

fn judge(mut world: ClusterModel, case: &Case, refused: &mut BTreeSet<String>) -> Vec<Difference> {
    let mut found = Vec::new();
    for stage in &case.stages {
        act(&mut world, case, stage);
        world.settle();
        compare(&world, case, stage, &mut found);
        collect_refused(&world, case, refused);
        let writes = world.writes.len();
        world.settle();
        assert_eq!(writes, world.writes.len(), "{}: a settled world is written to", case.name);
    }
    if is_in_sample(case) {
        assert_eq!(
            reads::unnoticed(&world),
            Vec::<String>::new(),
            "{}: changes that would be missed",
            case.name
        );
    }
    found
}

/// For one case in six, and for those in which services share traffic, planning is repeated for every change of every object.
/// Doing this for all cases takes a minute and a half.
fn is_in_sample(case: &Case) -> bool {
    case.name.starts_with("group-") || case.name.bytes().map(u32::from).sum::<u32>().is_multiple_of(6)
}

/// Returns `None` if the settings of the case cannot be parsed.
fn new_world(recordings: &Entry, presets: &ConfigSet, case: &Case) -> Option<ClusterModel> {
    let config_map = match &case.variant {
        Some(variant) => recordings.join(&format!("base/variants/{variant}.yaml")),
        None => recordings.join("base/configmap.yaml"),
    };
    let config_map =
        if config_map.exists() { golden::documents(&config_map).remove(0) } else { return None };
    let now: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    let platform = composing::platform(&config_map)?;
    let mut snapshot = Snapshot::empty(now, Arc::new(platform), SYSTEM_NAMESPACE.to_shared());
    let served = &mut snapshot.capabilities;
    served.kubernetes = Some((1, 34));
    match case.server.as_deref() {
        Some("minimal") => {
            (served.inference_pool, served.inference_pool_x) = (false, false);
            (served.leader_worker_set, served.scaled_object) = (false, false);
        }
        Some("nogateway") => served.gateway_api = false,
        Some("noxpool") => served.inference_pool_x = false,
        _ => {}
    }
    let mut world = ClusterModel::new(snapshot, presets.clone());
    if world.snapshot.capabilities.gateway_api {
        world.put(golden::documents(&recordings.join("base/gateway.yaml")).remove(0), &SYSTEM_NAMESPACE);
    }
    if case.has_default_account {
        world.put(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
            &case.name,
        );
    }
    for input in &case.inputs {
        world.put(input.clone(), &case.name);
    }
    Some(world)
}

/// Executes the action of a stage.
fn act(world: &mut ClusterModel, case: &Case, stage: &Stage) {
    for input in &stage.inputs {
        world.put(input.clone(), &case.name);
    }
    let action = stage.action.as_str();
    if action.is_empty() || action.starts_with("nothing done") {
        return;
    }
    if let Some(how) = action.strip_prefix("world simulated: ") {
        simulate::ready(world, &case.name, &serde_json::from_str(how).unwrap());
        return;
    }
    let words: Vec<&str> = action.splitn(4, ' ').collect();
    match words[..] {
        ["DELETE", kind, name] => world.delete(kind, Namespace(&case.name), Name(name)),
        ["PATCH", kind, name, patch] => {
            let patch: Value = serde_json::from_str(patch.trim_start_matches(": ")).unwrap();
            patch_child(world, kind, Namespace(&case.name), Name(name), &patch);
        }
        _ => panic!("{}: an action that is not known: {action}", case.name),
    }
}

fn patch_child(
    world: &mut ClusterModel,
    kind: &str,
    namespace: Namespace<&str>,
    name: Name<&str>,
    patch: &Value,
) {
    fn found<K: Child + serde::Serialize>(
        snapshot: &Snapshot,
        namespace: Namespace<&str>,
        name: Name<&str>,
    ) -> Value {
        serde_json::to_value(K::observed(snapshot).get(namespace, name).unwrap()).unwrap()
    }
    let snapshot = &world.snapshot;
    let mut object = match kind {
        "Deployment" => found::<k8s_openapi::api::apps::v1::Deployment>(snapshot, namespace, name),
        "LeaderWorkerSet" => {
            found::<longboat_api::foreign::leaderworkerset::LeaderWorkerSet>(snapshot, namespace, name)
        }
        "Service" => found::<k8s_openapi::api::core::v1::Service>(snapshot, namespace, name),
        "HTTPRoute" => found::<longboat_api::foreign::httproute::HTTPRoute>(snapshot, namespace, name),
        "InferencePool" => {
            found::<longboat_api::foreign::inferencepool::InferencePool>(snapshot, namespace, name)
        }
        other => panic!("cannot patch a {other}"),
    };
    merge_patch(&mut object, patch);
    world.put(object, &namespace);
}

fn merge_patch(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in fields {
                merge_patch(&mut target[key], value);
            }
        }
        other => *target = other.clone(),
    }
}

fn compare(world: &ClusterModel, case: &Case, stage: &Stage, found: &mut Vec<Difference>) {
    let mut ours = BTreeMap::new();
    world.children(&case.name, &mut ours);
    let mut names: Vec<&String> = stage.children.keys().chain(ours.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let place = format!("{}/{name}", stage.name);
        match (stage.children.get(name), ours.get(name)) {
            (Some(recorded), Some(ours)) => {
                let (recorded, ours) =
                    (golden::normal_child(recorded.get().clone()), golden::normal_child(ours.clone()));
                golden::differences(&place, &recorded, &ours, found);
            }
            (Some(_), None) => {
                found.push(Difference { place, recorded: "exists".into(), ours: "does not".into() });
            }
            (None, _) => {
                found.push(Difference { place, recorded: "does not exist".into(), ours: "exists".into() });
            }
        }
    }
    for (suffix, recorded) in &stage.statuses {
        let service = world
            .services
            .iter()
            .find(|(key, _)| *key.namespace == *case.name && (suffix.is_empty() || *key.name == **suffix));
        let status = service.and_then(|(_, service)| service.status.as_ref());
        let ours = golden::normal_status(serde_json::to_value(status).unwrap());
        let place = format!("{}/status", stage.name);
        golden::differences(&place, &golden::normal_status(recorded.clone()), &ours, found);
    }
    for (secret, facts) in stage.certificates.as_object().into_iter().flatten() {
        let names =
            world.certificates.get(secret).map(|request| json!(request.dns_names)).unwrap_or_default();
        golden::differences(&format!("{}/{secret}.dnsNames", stage.name), &facts["dnsNames"], &names, found);
    }
}
