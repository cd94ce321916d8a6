//! Autoscalers in the manifests that name no workload of a service in the same manifests, but probably mean one.

use longboat_api::v1alpha2::GROUP;
use longboat_key::{Key, Name, Namespace};
use longboat_manifest::nearest;
use longboat_plan::ChildKind;

use super::{
    absent::ManifestObjects,
    finding::{Finding, ObjectName, Source},
};
use crate::{
    scene::{Scene, Subject},
    stored::StoredManifest,
};

const DEPLOYMENT: &str = "Deployment";
const LEADER_WORKER_SET: &str = "LeaderWorkerSet";
const SERVICE: &str = "LLMInferenceService";

/// A workload of a service: the service's namespace and name, the kind and the name.
struct Workload<'a> {
    namespace: Namespace<&'a str>,
    service: Name<&'a str>,
    kind: &'static str,
    name: String,
}

/// Returns a warning for each HorizontalPodAutoscaler whose target is a service, or has a name that is almost that of a workload.
pub(super) fn findings(scene: &Scene, sound: &[StoredManifest], given: &ManifestObjects) -> Vec<Finding> {
    let autoscalers = sound.iter().filter(|one| one.document.kind() == "HorizontalPodAutoscaler");
    let autoscalers: Vec<&StoredManifest> = autoscalers.collect();
    // Planning is expensive.
    if autoscalers.is_empty() {
        return Vec::new();
    }
    let workloads: Vec<Workload<'_>> =
        scene.subjects.iter().flat_map(|subject| workloads(scene, subject)).collect();
    autoscalers.into_iter().filter_map(|one| of_autoscaler(&workloads, one, given)).collect()
}

fn of_autoscaler(
    workloads: &[Workload<'_>],
    stored: &StoredManifest,
    given: &ManifestObjects,
) -> Option<Finding> {
    let namespace = stored.namespace.as_deref();
    let target = |field: &str| stored.document.text(&format!("/spec/scaleTargetRef/{field}"));
    let (kind, name) = (target("kind"), target("name"));
    let group = target("apiVersion").split('/').next().unwrap_or_default();
    let is_service = kind == SERVICE && group == GROUP;
    let is_there = || given.contains(kind, &Key::new(namespace, Name(name)));
    if !is_service && (![DEPLOYMENT, LEADER_WORKER_SET].contains(&kind) || is_there()) {
        return None;
    }
    let near = || workloads.iter().filter(|workload| workload.namespace == namespace);
    if near().any(|workload| workload.kind == kind && workload.name == name) {
        return None;
    }
    // Any other name may be that of a workload on the cluster.
    let closest = nearest(near().map(|workload| &*workload.name), name);
    let of_service = |service: &str| {
        let rest = name.strip_prefix(service);
        rest.is_some_and(|rest| rest.starts_with("-kserve") || rest == "-predictor")
    };
    let meant = near()
        .find(|workload| *workload.service == *name)
        .or_else(|| near().find(|workload| Some(&*workload.name) == closest))
        .or_else(|| near().find(|workload| of_service(&workload.service)))?;
    let why = if is_service {
        "which cannot be scaled: the autoscaler scales nothing"
    } else {
        "which no service in these files creates: unless the cluster has it, the autoscaler scales nothing"
    };
    let message = format!("names {kind} {namespace}/{name}, {why}");
    let object = ObjectName::of(&stored.document, namespace);
    let finding = Finding::at(&stored.document, &object, "spec.scaleTargetRef", Source::Plan);
    let Workload { kind, name, .. } = meant;
    let api_version = if *kind == LEADER_WORKER_SET { "leaderworkerset.x-k8s.io/v1" } else { "apps/v1" };
    let hint = format!("did you mean `{{apiVersion: {api_version}, kind: {kind}, name: {name}}}`?");
    Some(finding.warning("ScaleTargetNotFound", message).with_hint(hint))
}

/// The workloads of a service, the shortest name first: that of the model server.
fn workloads<'a>(scene: &Scene, subject: &'a Subject) -> Vec<Workload<'a>> {
    // Why a service has no plan is said about the service.
    let Ok(planned) = scene.plan(&subject.service) else { return Vec::new() };
    let metadata = &subject.service.metadata;
    let all = planned.plan.children.references().filter_map(|child| {
        let kind = match child.kind {
            ChildKind::Deployment => DEPLOYMENT,
            ChildKind::LeaderWorkerSet => LEADER_WORKER_SET,
            _ => return None,
        };
        let name = child.key.name.to_string();
        Some(Workload { namespace: Namespace::of(metadata), service: Name::of(metadata), kind, name })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|workload| workload.name.len());
    all
}
