//! Every object on which the plan or the status of a service depends enqueues the service: because planning recorded the
//! lookup, or by an owner reference or labels.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_api::{
    labels,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, LLMInferenceServiceStatus},
};
use longboat_key::{Key, Name, Namespace, Uid};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{cluster_model::ClusterModel, composing};
use crate::{
    Applied, Child, Children, Kind, ObjectKey, Objects, Plan, Progress, Snapshot, kinds, owner, types,
};

/// One service, with the input of its reconcile.
struct Subject<'a> {
    service: &'a LLMInferenceService,
    composed: composing::CompositionResult,
    applied: Children<Applied>,
}

/// The result of a reconcile, and its dependencies.
struct Outcome {
    plan: Plan,
    status: LLMInferenceServiceStatus,
    reads: BTreeSet<ObjectKey>,
}

/// Removes each object of a settled world in turn, and each part of it. Returns the changes that made a difference to a
/// service and would not have enqueued it.
pub(super) fn unnoticed(world: &ClusterModel) -> Vec<String> {
    let mut found = Vec::new();
    for service in world.services.values() {
        let composed = composing::compose(world, service);
        let Some(spec) = &composed.spec else { continue };
        let applied = live(service, spec, &world.snapshot);
        let subject = Subject { service, composed, applied };
        let before = subject.outcome(&world.snapshot);
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
                $(for object in world.snapshot.$field.iter() {
                    let key = Key::of(object);
                    let mut without = world.snapshot.clone();
                    without.$field.remove(key.namespace.as_deref(), key.name.as_deref());
                    subject.judge(&before, &without, Kind::$kind, object, "is gone", &mut found);
                    for (part, changed) in parts_less(object) {
                        let mut with = world.snapshot.clone();
                        with.$field.insert(Arc::new(changed));
                        subject.judge(&before, &with, Kind::$kind, object, &part, &mut found);
                    }
                })*
            };
        }
        kinds!(all each);
        subject.judge_peers(&before, &world.snapshot, &mut found);
    }
    found
}

// === impl Subject ===

impl Subject<'_> {
    fn outcome(&self, snapshot: &Snapshot) -> Outcome {
        // The copy has no recorded lookups.
        let snapshot = snapshot.clone();
        let spec = self.composed.spec.as_ref().unwrap();
        let mut plan = crate::children(self.service, spec, &snapshot).unwrap();
        let progress = Progress {
            presets: &self.composed.outcome,
            pins: &composing::pins(self.service),
            spec: Some(spec),
            problem: plan.problem.as_ref(),
            proof: None,
            download: None,
            adapters: &[],
        };
        let status = crate::status(self.service, progress, &self.applied, &snapshot, snapshot.now).unwrap();
        let mut reads = std::mem::take(&mut plan.reads);
        reads.extend(snapshot.reads(Uid(self.uid())));
        // Events are recorded once, so they are not part of the comparison.
        plan.events.clear();
        plan.missed_secrets.clear();
        Outcome { plan, status, reads }
    }

    fn uid(&self) -> &str {
        self.service.metadata.uid.as_deref().unwrap()
    }

    /// Compares `before` with the result in a world in which one object has changed.
    fn judge<K: Metadata<Ty = ObjectMeta> + Serialize>(
        &self,
        before: &Outcome,
        changed: &Snapshot,
        kind: Kind,
        object: &K,
        what: &str,
        found: &mut Vec<String>,
    ) {
        let metadata = object.metadata();
        if owner::controls(Uid(self.uid()), metadata)
            || self.is_labelled(metadata)
            || self.is_binding(kind, metadata)
        {
            return;
        }
        let mut names = vec![Key::of(object).of_kind(kind)];
        if kind == Kind::Service {
            let label = metadata.labels.as_ref().and_then(|labels| labels.get(labels::GATEWAY_NAME));
            for name in label.into_iter().chain(&metadata.name) {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                names.push(Key::new(Namespace(namespace), Name(name)).of_kind(Kind::GatewayService));
            }
        }
        self.compare(before, changed, &names, what, found);
    }

    fn judge_peers(&self, before: &Outcome, snapshot: &Snapshot, found: &mut Vec<String>) {
        for (namespace, name, peer) in snapshot.peers.iter() {
            if Some(&**name) == self.service.metadata.name.as_deref() {
                continue;
            }
            let models = peer
                .models
                .iter()
                .map(|model| Key::new(Namespace(namespace), Name(model)).of_kind(Kind::ModelName));
            let group = peer
                .group
                .iter()
                .map(|group| Key::new(Namespace(namespace), Name(group)).of_kind(Kind::RoutingGroup));
            let names: Vec<ObjectKey> = models.chain(group).collect();
            let mut without = snapshot.clone();
            without.peers.remove(Namespace(namespace), Name(name));
            self.compare(before, &without, &names, &format!("the service {name} is gone"), found);
        }
    }

    fn compare(
        &self,
        before: &Outcome,
        changed: &Snapshot,
        names: &[ObjectKey],
        what: &str,
        found: &mut Vec<String>,
    ) {
        let after = self.outcome(changed);
        let is_noticed = |outcome: &Outcome| names.iter().any(|name| outcome.reads.contains(name));
        if (before.plan != after.plan || before.status != after.status)
            && !(is_noticed(before) && is_noticed(&after))
        {
            let name = self.service.metadata.name.as_deref().unwrap();
            found.push(format!("{name}: {} {}: {what}", names[0].key, format_args!("{:?}", names[0].kind)));
        }
    }

    fn is_labelled(&self, metadata: &ObjectMeta) -> bool {
        let label = |key: &str| metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        label(labels::PART_OF) == Some(labels::PART_OF_VALUE)
            && label(labels::NAME) == self.service.metadata.name.as_deref()
            && metadata.namespace == self.service.metadata.namespace
    }

    /// Whether the object is a ClusterRoleBinding whose labels name the service.
    fn is_binding(&self, kind: Kind, metadata: &ObjectMeta) -> bool {
        kind == Kind::ClusterRoleBinding
            && metadata.labels.as_ref().and_then(|all| all.get(labels::NAME))
                == self.service.metadata.name.as_ref()
    }
}

/// Returns the planned children in their live form.
fn live(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    snapshot: &Snapshot,
) -> Children<Applied> {
    let plan = crate::children(service, spec, snapshot).unwrap();
    let mut applied = Children::<Applied>::default();
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            $(applied.$field = plan.children.$field.iter().filter_map(|child| {
                let key = child.reference().key().key;
                Objects::get(types::$kind::observed(snapshot), key.namespace.as_deref(), key.name.as_deref()).cloned()
            }).collect();)*
        };
    }
    kinds!(children each);
    applied
}

/// Returns the object without one of its parts, for each part that is not required.
fn parts_less<K: Serialize + DeserializeOwned>(object: &K) -> Vec<(String, K)> {
    let whole = serde_json::to_value(object).unwrap();
    let mut found = Vec::new();
    for pointer in ["", "/metadata", "/spec", "/status", "/data"] {
        let Some(Value::Object(parts)) = whole.pointer(pointer) else { continue };
        for part in
            parts.keys().filter(|part| !["metadata", "name", "namespace", "uid"].contains(&part.as_str()))
        {
            let mut less = whole.clone();
            less.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(part);
            if let Ok(less) = serde_json::from_value(less) {
                found.push((format!("is without {pointer}/{part}"), less));
            }
        }
    }
    found
}
