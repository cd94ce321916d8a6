//! Planning judged by the recordings of the reference: `shared/golden/cases`.

mod case;
mod composing;
mod judge;
mod laws;
mod simulate;
mod world;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use longboat_compose::ConfigSet;
use serde_json::{Value, json};

use self::{
    case::{Case, Stage},
    judge::{Difference, MeantDifferences},
    world::World,
};
use crate::{Child, Snapshot};

const SYSTEM_NAMESPACE: &str = "kserve";

/// What became of one case.
enum Verdict {
    OutOfScope(String),
    Judged(Vec<Difference>),
}

#[test]
fn services_get_the_children_and_the_status_that_the_reference_gives_them() {
    let Some(golden) = case::golden() else {
        assert!(std::env::var_os("CI").is_none(), "the recordings are missing: set LONGBOAT_GOLDEN");
        skipped();
        return;
    };
    let meant = MeantDifferences::read();
    let presets = composing::presets(&golden);
    let only = std::env::var("LONGBOAT_CASE").ok();
    let mut report = Report::default();
    let mut folders: Vec<_> =
        std::fs::read_dir(golden.join("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let case = Case::read(&folder);
        if only.as_ref().is_some_and(|only| *only != case.name) {
            continue;
        }
        match judge(&golden, &presets, &case) {
            Verdict::OutOfScope(why) => report.out_of_scope.entry(why).or_default().push(case.name),
            Verdict::Judged(differences) => report.add(&case.name, differences, &meant),
        }
    }
    report.print();
    assert!(report.unexplained.is_empty(), "{} differences without a reason", report.unexplained.len());
    if only.is_none() {
        assert_eq!(meant.unused(), Vec::<&str>::new(), "reasons in differences.txt that excuse nothing");
    }
}

#[expect(clippy::print_stderr, reason = "a skipped judge must be seen")]
fn skipped() {
    eprintln!("SKIPPED: no recordings of the reference found; set LONGBOAT_GOLDEN");
}

#[derive(Default)]
struct Report {
    equal: Vec<String>,
    meant: BTreeMap<String, Vec<&'static str>>,
    unexplained: Vec<(String, Difference)>,
    out_of_scope: BTreeMap<String, Vec<String>>,
}

impl Report {
    fn add(&mut self, case: &str, differences: Vec<Difference>, meant: &MeantDifferences) {
        if differences.is_empty() {
            self.equal.push(case.to_owned());
        }
        for difference in differences {
            match meant.reason(case, &difference) {
                Some(reason) => {
                    let reasons = self.meant.entry(case.to_owned()).or_default();
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }
                None => self.unexplained.push((case.to_owned(), difference)),
            }
        }
    }

    #[expect(clippy::print_stdout, reason = "the counts are what this test is read for")]
    fn print(&self) {
        let mut different: Vec<&String> = self.unexplained.iter().map(|(case, _)| case).collect();
        different.dedup();
        for (case, difference) in &self.unexplained {
            println!(
                "DIFFERENT {case} {}\n  recorded: {}\n  ours:     {}",
                difference.place, difference.recorded, difference.ours
            );
        }
        for (case, reasons) in &self.meant {
            println!("meant {case}: {}", reasons.join("; "));
        }
        for (why, cases) in &self.out_of_scope {
            println!("out of scope ({}): {why}: {}", cases.len(), cases.join(" "));
        }
        let mut alone: BTreeMap<&str, usize> = BTreeMap::new();
        for reasons in self.meant.values().filter(|reasons| reasons.len() == 1) {
            *alone.entry(reasons[0]).or_default() += 1;
        }
        for (reason, count) in alone {
            println!("equal but for one thing ({count}): {reason}");
        }
        let meant = self.meant.keys().filter(|case| !different.contains(case)).count();
        let out_of_scope: usize = self.out_of_scope.values().map(Vec::len).sum();
        println!(
            "equal {}, different with a reason {meant}, different {}, out of scope {out_of_scope}",
            self.equal.len(),
            different.len()
        );
    }
}

fn judge(golden: &Path, presets: &ConfigSet, case: &Case) -> Verdict {
    if let Some(why) = beyond(case) {
        return Verdict::OutOfScope(why);
    }
    let mut world = match new_world(golden, presets, case) {
        Ok(world) => world,
        Err(why) => return Verdict::OutOfScope(why),
    };
    let mut found = Vec::new();
    for stage in &case.stages {
        if let Err(why) = act(&mut world, case, stage) {
            return Verdict::OutOfScope(why);
        }
        world.settle();
        compare(&world, case, stage, &mut found);
        let writes = world.writes.len();
        world.settle();
        assert_eq!(writes, world.writes.len(), "{}: a settled world is written to", case.name);
    }
    Verdict::Judged(found)
}

/// What a case needs beside planning, going by its inputs and by what was recorded.
fn beyond(case: &Case) -> Option<String> {
    let inputs = || case.inputs.iter().chain(case.stages.iter().flat_map(|stage| &stage.inputs));
    if inputs().any(|input| input["metadata"]["generateName"].is_string()) {
        return Some("a name that the API server generates".into());
    }
    if inputs().any(|input| input["apiVersion"] == "serving.kserve.io/v1alpha1") {
        return Some("conversion of v1alpha1".into());
    }
    if case.stages.iter().any(|stage| stage.denied) {
        return Some("an input that admission refuses".into());
    }
    if case.stages.iter().all(|stage| stage.statuses.is_empty()) {
        return Some("no service was stored".into());
    }
    for stage in &case.stages {
        let conditions =
            stage.statuses.values().flat_map(|status| status["conditions"].as_array().into_iter().flatten());
        let validated = ["InvalidRenderedConfig", "ValidationUnavailable"];
        let refused = conditions
            .into_iter()
            .any(|condition| condition["reason"].as_str().is_some_and(|reason| validated.contains(&reason)));
        if refused {
            return Some("the API server's validation of the composed spec".into());
        }
        let conditions =
            stage.statuses.values().flat_map(|status| status["conditions"].as_array().into_iter().flatten());
        let invalid = conditions.into_iter().any(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            message.contains("is invalid: ") && !message.contains("field is immutable")
        });
        if invalid {
            return Some("the API server's validation of a child".into());
        }
    }
    None
}

fn new_world(golden: &Path, presets: &ConfigSet, case: &Case) -> Result<World, String> {
    let config_map = match &case.variant {
        Some(variant) => golden.join(format!("base/variants/{variant}.yaml")),
        None => golden.join("base/configmap.yaml"),
    };
    let config_map = case::documents(&config_map).remove(0);
    let now: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    let platform = composing::platform(&config_map)?;
    let mut snapshot = Snapshot::empty(now, Arc::new(platform), SYSTEM_NAMESPACE);
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
    let mut world = World::new(snapshot, presets.clone());
    if world.snapshot.capabilities.gateway_api {
        world.put(case::documents(&golden.join("base/gateway.yaml")).remove(0), SYSTEM_NAMESPACE);
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
    Ok(world)
}

/// Does what a stage says; an error for what a world without an API server cannot do.
fn act(world: &mut World, case: &Case, stage: &Stage) -> Result<(), String> {
    for input in &stage.inputs {
        world.put(input.clone(), &case.name);
    }
    let action = stage.action.as_str();
    if action.is_empty() || action.starts_with("nothing done") {
        return Ok(());
    }
    if let Some(how) = action.strip_prefix("world simulated: ") {
        simulate::ready(world, &case.name, &serde_json::from_str(how).unwrap());
        return Ok(());
    }
    let words: Vec<&str> = action.splitn(4, ' ').collect();
    match words[..] {
        ["DELETE", "LLMInferenceService", _] => Err("deletion of a service".into()),
        ["DELETE", kind, name] => {
            world.delete(kind, &case.name, name);
            Ok(())
        }
        ["PATCH", kind, name, patch] if kind != "LLMInferenceService" => {
            let patch: Value = serde_json::from_str(patch.trim_start_matches(": ")).unwrap();
            patch_child(world, kind, &case.name, name, &patch);
            Ok(())
        }
        _ => Err(format!("an action of the API server: {}", words[0])),
    }
}

fn patch_child(world: &mut World, kind: &str, namespace: &str, name: &str, patch: &Value) {
    fn found<K: Child + serde::Serialize>(snapshot: &Snapshot, namespace: &str, name: &str) -> Value {
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
    world.put(object, namespace);
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

fn compare(world: &World, case: &Case, stage: &Stage, found: &mut Vec<Difference>) {
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
                    (judge::normal_child(recorded.get().clone()), judge::normal_child(ours.clone()));
                judge::differences(&place, &recorded, &ours, found);
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
            .find(|((namespace, name), _)| *namespace == case.name && (suffix.is_empty() || name == suffix));
        let status = service.and_then(|(_, service)| service.status.as_ref());
        let ours = judge::normal_status(serde_json::to_value(status).unwrap());
        let place = format!("{}/status", stage.name);
        judge::differences(&place, &judge::normal_status(recorded.clone()), &ours, found);
    }
    for (secret, facts) in stage.certificates.as_object().into_iter().flatten() {
        let names =
            world.certificates.get(secret).map(|request| json!(request.dns_names)).unwrap_or_default();
        judge::differences(&format!("{}/{secret}.dnsNames", stage.name), &facts["dnsNames"], &names, found);
    }
}
