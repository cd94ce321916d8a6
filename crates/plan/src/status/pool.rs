//! Reports whether Gateways accept the pool.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use longboat_api::{
    conditions::{Conditions, types},
    foreign::{gateway::Gateway, inferencepool::InferencePool, inferencepool_x},
    groups,
    reasons::condition::{INFERENCE_POOL_FETCH_ERROR, INFERENCE_POOL_NOT_READY, WAITING_FOR_GATEWAY},
    v1alpha2::{LLMInferenceServiceStatus, ObjectReference, SchedulerStatus},
};
use longboat_key::{Key, Name, Namespace};

use super::context::StatusContext;
use crate::{names, router::acceptance, scheduler};

type Gateways<'a> = BTreeMap<Key, &'a Gateway>;

/// What gateways report about one pool, of either API group.
struct Pool<'a> {
    metadata: &'a ObjectMeta,
    parents: Vec<(Namespace<&'a str>, Name<&'a str>, &'a [Condition])>,
}

/// Reports the pool, which may be managed or the user's. Returns false if the user's pool is missing.
pub(super) fn report(
    reconciled: &StatusContext,
    gateways: &Gateways,
    status: &mut LLMInferenceServiceStatus,
    conditions: &mut Conditions,
) -> bool {
    let context = &reconciled.context;
    let Some(scheduler) = context.spec.scheduler() else {
        conditions.clear(types::INFERENCE_POOL_READY);
        if let Some(router) = &mut status.router {
            router.scheduler = None;
        }
        return true;
    };
    let name = scheduler.external_pool().map_or_else(|| names::pool(context.name), ToOwned::to_owned);
    let verdict = if scheduler.external_pool().is_some() {
        let Some(pool) = context.snapshot.inference_pools.get(context.namespace, Name(&name)) else {
            let message = no_external_pool(context.namespace, Name(&name));
            conditions.mark_false(types::INFERENCE_POOL_READY, INFERENCE_POOL_FETCH_ERROR, &message);
            return false;
        };
        Pool::new(pool).objection(gateways)
    } else {
        managed(reconciled, &name, gateways)
    };
    conditions.mark(types::INFERENCE_POOL_READY, verdict);
    if let Some(router) = &mut status.router {
        let reference = |group: &str, kind: &str, name: String| {
            let namespace = Some(context.namespace.into());
            Some(ObjectReference { group: group.into(), kind: kind.into(), name, namespace })
        };
        router.scheduler = Some(SchedulerStatus {
            inference_pool: reference(groups::POOL, "InferencePool", name),
            service: reference("", "Service", scheduler::service::name(context)),
        });
    }
    true
}

fn no_external_pool(namespace: Namespace<&str>, name: Name<&str>) -> String {
    format!(
        "failed to fetch referenced Inference Pool {namespace}/{name}: InferencePool.inference.networking.k8s.io \"{name}\" \
         not found"
    )
}

fn no_managed_pool(namespace: Namespace<&str>, name: Name<&str>) -> String {
    format!("Inference Pool {namespace}/{name} not found (checked v1 and v1alpha2)")
}

/// Updates the condition when a problem elsewhere kept the router from being planned: the earlier condition stays as long as
/// the pool exists.
pub(super) fn keep_condition(reconciled: &StatusContext, conditions: &mut Conditions) {
    let context = &reconciled.context;
    let Some(scheduler) = context.spec.scheduler() else {
        conditions.clear(types::INFERENCE_POOL_READY);
        return;
    };
    let Some(former) = conditions.get(types::INFERENCE_POOL_READY) else { return };
    let was_missing = former.reason == INFERENCE_POOL_FETCH_ERROR;
    let (namespace, snapshot) = (context.namespace, context.snapshot);
    let (name, message) = match scheduler.external_pool() {
        Some(name) => (name.to_owned(), no_external_pool(namespace, Name(name))),
        None => (names::pool(context.name), no_managed_pool(namespace, Name(&names::pool(context.name)))),
    };
    let managed = scheduler.external_pool().is_none();
    let there = snapshot.inference_pools.get(namespace, Name(&name)).is_some()
        || managed && snapshot.inference_pools_x.get(namespace, Name(&name)).is_some();
    if !there {
        conditions.mark_false(types::INFERENCE_POOL_READY, INFERENCE_POOL_FETCH_ERROR, &message);
    } else if was_missing {
        conditions.clear(types::INFERENCE_POOL_READY);
    }
}

/// The managed pool is ready if it is ready in either API group. Otherwise the reason comes from the newer group.
fn managed(reconciled: &StatusContext, name: &str, gateways: &Gateways) -> Option<(&'static str, String)> {
    let newer = reconciled.applied.named(name).map(Pool::new);
    let older = reconciled.applied.named(name).map(Pool::older);
    let mut first = None;
    for pool in newer.into_iter().chain(older) {
        let objection = pool.objection(gateways)?;
        first = first.or(Some(objection));
    }
    first.or_else(|| {
        Some((INFERENCE_POOL_FETCH_ERROR, no_managed_pool(reconciled.context.namespace, Name(name))))
    })
}

// === impl Pool ===

impl<'a> Pool<'a> {
    fn new(pool: &'a InferencePool) -> Self {
        let parents = pool.status.iter().flat_map(|status| &status.parents).map(|parent| {
            let (namespace, name) = (parent.parent_ref.namespace.as_str(), parent.parent_ref.name.as_str());
            (Namespace(namespace), Name(name), parent.conditions.as_slice())
        });
        Self { metadata: &pool.metadata, parents: parents.collect() }
    }

    fn older(pool: &'a inferencepool_x::InferencePool) -> Self {
        let parents = pool.status.iter().flat_map(|status| &status.parent).map(|parent| {
            let namespace = parent.parent_ref.namespace.as_deref().unwrap_or_default();
            (Namespace(namespace), Name(parent.parent_ref.name.as_str()), parent.conditions.as_slice())
        });
        Self { metadata: &pool.metadata, parents: parents.collect() }
    }

    /// Returns why these Gateways send no traffic to the pool, or `None` if they do. Without Gateways, the pool waits for one: only a
    /// Gateway asks the picker.
    fn objection(&self, gateways: &Gateways) -> Option<(&'static str, String)> {
        let own_namespace = Namespace::of(self.metadata);
        let pool = Key::of_metadata(self.metadata);
        let key = |namespace: Namespace<&str>, name| {
            Key::new(if namespace.is_empty() { own_namespace } else { namespace }, name)
        };
        let relevant: Vec<_> = self
            .parents
            .iter()
            .filter(|(parent, name, _)| gateways.contains_key(&key(*parent, *name)))
            .collect();
        if relevant.is_empty() {
            let message =
                format!("Inference Pool {pool} exists but no Gateway controller has accepted it yet");
            return Some((WAITING_FOR_GATEWAY, message));
        }
        let accepts =
            |gateway: &Key| relevant.iter().any(|(parent, name, _)| key(*parent, *name) == *gateway);
        if let Some(silent) = gateways.keys().find(|gateway| !accepts(gateway)) {
            let message = format!("Inference Pool {pool} is not yet accepted by gateway {silent}");
            return Some((WAITING_FOR_GATEWAY, message));
        }
        let generation = self.metadata.generation.unwrap_or_default();
        relevant.iter().find_map(|(_, _, conditions)| {
            let Some(accepted) = acceptance::find(conditions, "Accepted") else {
                return Some((INFERENCE_POOL_NOT_READY, format!("The inference pool {pool} is not ready")));
            };
            let seen = accepted.observed_generation.unwrap_or_default();
            // Implementations that do not set the generation report 0, which says nothing.
            if accepted.status == "True" && (seen == 0 || seen >= generation) {
                return None;
            }
            let Condition { status, reason, message, .. } = accepted;
            let message = format!("{pool}: Accepted={status:?} (reason {reason:?}, message {message:?})");
            Some((INFERENCE_POOL_NOT_READY, message))
        })
    }
}
