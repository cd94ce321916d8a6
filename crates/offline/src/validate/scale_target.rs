//! Autoscalers in the manifests that name no workload of a service in the same manifests, but probably mean one, those of a
//! workload that is scaled already, and those that never start a replica again.

use std::collections::BTreeSet;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use longboat_api::{
    foreign::scaledobject::ScaledObject,
    v1alpha2::{GROUP, KedaTrigger, LLMInferenceServiceSpec},
};
use longboat_key::{Key, Name, Namespace, nearest};
use longboat_plan::{ChildKind, names};
use serde::Deserialize as _;

use super::{SubjectPlan, absent::ManifestObjects};
use crate::{
    advice::scaling,
    finding::{Finding, ObjectName, Source},
    scene::{PlannedService, Scene, Subject},
    stored::StoredManifest,
};

/// The kinds of autoscalers.
const AUTOSCALERS: [&str; 2] = ["HorizontalPodAutoscaler", "ScaledObject"];
/// What a ScaledObject scales if it names no kind.
const DEPLOYMENT: &str = "Deployment";
const LEADER_WORKER_SET: &str = "LeaderWorkerSet";
const SERVICE: &str = "LLMInferenceService";

/// A workload of a service: the service's namespace and name, the kind and the name.
struct Workload<'a> {
    namespace: Namespace<&'a str>,
    service: Name<&'a str>,
    kind: &'static str,
    name: String,
    /// Which field of the service scales it, if any.
    scaled_by: Option<ReplicasField>,
}

/// A field of a service from which the controller, or an autoscaler that it makes, takes the number of replicas.
enum ReplicasField {
    Replicas(&'static str),
    Scaling(&'static str),
}

/// Returns a warning for each autoscaler whose target is a service, has a name that is almost that of a workload, or is scaled already.
pub(super) fn findings(
    scene: &Scene,
    plans: &[SubjectPlan<'_>],
    sound: &[StoredManifest],
    given: &ManifestObjects,
) -> Vec<Finding> {
    let (mut workloads, mut made) = (Vec::new(), BTreeSet::new());
    for (subject, planned) in plans {
        // Why a service has no plan is said about the service.
        let Ok(planned) = planned else { continue };
        workloads.extend(workloads_of(subject, planned));
        made.extend(planned.plan.children.references().map(|child| child.key));
    }
    // The files may have children too: what `render` prints.
    let is_own =
        |one: &&StoredManifest| AUTOSCALERS.contains(&one.document.kind()) && !made.contains(&one.key());
    let own = sound.iter().filter(is_own);
    own.filter_map(|one| {
        of_autoscaler(&workloads, one, given).or_else(|| never_wakes(scene, plans, &workloads, one))
    })
    .collect()
}

/// Returns a warning if an autoscaler takes a model server to zero, and reads only what its replicas measure.
fn never_wakes(
    scene: &Scene,
    plans: &[SubjectPlan<'_>],
    workloads: &[Workload<'_>],
    stored: &StoredManifest,
) -> Option<Finding> {
    let (idle, least, triggers, target, path) = if stored.document.kind() == "ScaledObject" {
        let mut spec = ScaledObject::deserialize(&stored.object).ok()?.spec;
        // These measure containers, and need another trigger beside them to scale from zero.
        spec.triggers.retain(|trigger| !["cpu", "memory"].contains(&&*trigger.type_));
        let target = spec.scale_target_ref.name;
        (spec.idle_replica_count, spec.min_replica_count, spec.triggers, target, "spec.triggers")
    } else {
        let spec = HorizontalPodAutoscaler::deserialize(&stored.object).ok()?.spec?;
        let metrics = spec.metrics.iter().flatten();
        // Metrics of pods and their resources have no value without a pod.
        let names = metrics.filter_map(|metric| {
            let external = metric.external.as_ref().map(|external| &external.metric);
            external.or_else(|| Some(&metric.object.as_ref()?.metric)).map(|metric| metric.name.clone())
        });
        let trigger = |name: String| KedaTrigger {
            type_: "prometheus".to_owned(),
            metadata: Some([("query".to_owned(), name)].into()),
            ..KedaTrigger::default()
        };
        let triggers = names.map(trigger).collect();
        (None, Some(spec.min_replicas.unwrap_or(1)), triggers, spec.scale_target_ref.name, "spec.metrics")
    };
    let namespace = stored.namespace.as_deref();
    let workload = workloads.iter().find(|one| one.namespace == namespace && one.name == target)?;
    let is_server =
        target == names::workload(workload.service) || target == names::workload_group(workload.service);
    if !is_server || !longboat_gateway::never_wakes(idle, least, &triggers) {
        return None;
    }
    let is_it = |subject: &Subject| subject.has(&Key::new(namespace, workload.service));
    let (subject, planned) = plans.iter().find(|(subject, _)| is_it(subject))?;
    let effective = planned.as_ref().ok()?.effective.as_ref()?;
    let advice = scaling::without_waking(scene.snapshot(), &subject.service, &effective.spec, path)?;
    let object = ObjectName::of(&stored.document, namespace);
    Some(Finding::at(&stored.document, &object, path, Source::Plan).with_advice(advice))
}

fn of_autoscaler(
    workloads: &[Workload<'_>],
    stored: &StoredManifest,
    given: &ManifestObjects,
) -> Option<Finding> {
    let namespace = stored.namespace.as_deref();
    let target = |field: &str| stored.document.text(&format!("/spec/scaleTargetRef/{field}"));
    let (kind, name) = (target("kind"), target("name"));
    let kind = if kind.is_empty() { DEPLOYMENT } else { kind };
    let group = target("apiVersion").split('/').next().unwrap_or_default();
    let is_service = kind == SERVICE && group == GROUP;
    let near = || workloads.iter().filter(|workload| workload.namespace == namespace);
    let object = ObjectName::of(&stored.document, namespace);
    let finding = Finding::at(&stored.document, &object, "spec.scaleTargetRef", Source::Plan);
    if let Some(workload) = near().find(|workload| workload.kind == kind && workload.name == name) {
        let (message, hint) = workload.contested()?;
        return Some(finding.warning("ReplicasContested", message).with_hint(hint));
    }
    let is_there = || given.contains(kind, &Key::new(namespace, Name(name)));
    if !is_service && (![DEPLOYMENT, LEADER_WORKER_SET].contains(&kind) || is_there()) {
        return None;
    }
    // Any other name may be that of a workload on the cluster.
    let closest = nearest(near().map(|workload| &*workload.name), name);
    let of_service = |service: &str| {
        let rest = name.strip_prefix(service);
        // The workloads of KServe's other services end with `-predictor`.
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
    let Workload { kind, name, .. } = meant;
    let api_version = if *kind == LEADER_WORKER_SET { "leaderworkerset.x-k8s.io/v1" } else { "apps/v1" };
    let hint = format!("did you mean `{{apiVersion: {api_version}, kind: {kind}, name: {name}}}`?");
    Some(finding.warning("ScaleTargetNotFound", message).with_hint(hint))
}

/// The workloads of a service, the shortest name first: that of the model server.
fn workloads_of<'a>(subject: &'a Subject, planned: &PlannedService) -> Vec<Workload<'a>> {
    let metadata = &subject.service.metadata;
    let (namespace, service) = (Namespace::of(metadata), Name::of(metadata));
    let spec = planned.effective.as_ref().map(|effective| &*effective.spec);
    let all = planned.plan.children.references().filter_map(|child| {
        let kind = match child.kind {
            ChildKind::Deployment => DEPLOYMENT,
            ChildKind::LeaderWorkerSet => LEADER_WORKER_SET,
            _ => return None,
        };
        let name = child.key.name.to_string();
        let scaled_by = spec.and_then(|spec| replicas_field(spec, service, &name));
        Some(Workload { namespace, service, kind, name, scaled_by })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|workload| workload.name.len());
    all
}

/// Returns the field that scales the workload of this name.
fn replicas_field(
    spec: &LLMInferenceServiceSpec,
    service: Name<&str>,
    workload: &str,
) -> Option<ReplicasField> {
    let is_one_of = |names: [String; 2]| names.iter().any(|name| name == workload);
    let (half, replicas, scaling) = if is_one_of([names::workload(service), names::workload_group(service)]) {
        (&spec.workload, "spec.replicas", "spec.scaling")
    } else if is_one_of([names::prefill(service), names::prefill_group(service)]) {
        (spec.prefill.as_deref()?, "spec.prefill.replicas", "spec.prefill.scaling")
    } else {
        let picker = spec.scheduler().filter(|_| workload == names::scheduler(service))?;
        return picker.replicas.map(|_| ReplicasField::Replicas("spec.router.scheduler.replicas"));
    };
    let fixed = half.replicas.map(|_| ReplicasField::Replicas(replicas));
    fixed.or_else(|| half.scaling.as_ref().map(|_| ReplicasField::Scaling(scaling)))
}

// === impl Workload ===

impl Workload<'_> {
    /// Says why somebody else must not scale it, and what to do.
    fn contested(&self) -> Option<(String, String)> {
        let Self { namespace, service, kind, name, scaled_by } = self;
        let names = format!("names {kind} {namespace}/{name}");
        Some(match scaled_by.as_ref()? {
            ReplicasField::Replicas(field) => {
                let instead = match field.strip_suffix(".replicas") {
                    Some(half @ ("spec" | "spec.prefill")) => {
                        format!(", or use {half}.scaling in place of both")
                    }
                    _ => String::new(),
                };
                let message = format!(
                    "{names}, and {field} of {SERVICE} {service} sets its replicas: the controller and the autoscaler undo each \
                     other's changes for ever"
                );
                (message, format!("remove {field}{instead}"))
            }
            ReplicasField::Scaling(field) => {
                let message = format!(
                    "{names}, which {field} of {SERVICE} {service} scales already: the two autoscalers undo each other's changes for \
                     ever"
                );
                (message, format!("remove this autoscaler, or {field}"))
            }
        })
    }
}
