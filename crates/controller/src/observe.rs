//! Observe: the snapshot of the caches that planning reads.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use longboat_compose::Platform;
use longboat_key::{Key, Name, Namespace};
use longboat_plan::{Kind, ObjectKey, Peer, Snapshot, kinds, names, types};

use crate::{context::Context, watch::kinds::WatchedKind};

/// The snapshot for a reconcile of a service.
pub(crate) fn snapshot(
    context: &Context,
    service: &Key,
    platform: Arc<Platform>,
    now: Timestamp,
) -> Snapshot {
    let mut snapshot = of_all_namespaces(context, platform, now);
    add(context, service.namespace.as_deref(), &mut snapshot);
    // ClusterRoleBindings are cluster-scoped, and each service has one. The snapshot has only those under the service's
    // names.
    let bindings = &context.caches.cluster_role_bindings;
    for name in [names::scheduler_auth_binding, names::distinct_scheduler_auth_binding] {
        let name = name(service.namespace.as_deref(), service.name.as_deref());
        bindings.share_one(&Key::new(Namespace(""), Name(&name)), &mut snapshot.cluster_role_bindings);
    }
    snapshot
}

/// The snapshot for reconciles of services of any of these namespaces.
pub(crate) fn several<'a>(
    context: &Context,
    namespaces: impl IntoIterator<Item = Namespace<&'a str>>,
    platform: Arc<Platform>,
    now: Timestamp,
) -> Snapshot {
    let mut snapshot = of_all_namespaces(context, platform, now);
    for namespace in namespaces {
        add(context, namespace, &mut snapshot);
    }
    snapshot.cluster_role_bindings = context.caches.cluster_role_bindings.share_all().into();
    snapshot.cluster_serving_runtimes = context.caches.cluster_serving_runtimes.share_all().into();
    snapshot
}

/// What services of every namespace depend on.
fn of_all_namespaces(context: &Context, platform: Arc<Platform>, now: Timestamp) -> Snapshot {
    let mut snapshot = Snapshot::empty(now, platform, context.args.system_namespace.clone());
    snapshot.capabilities = context.capabilities();
    snapshot.unlisted = context.unlisted();
    snapshot.cluster_domain.clone_from(&context.args.cluster_domain);
    let caches = &context.caches;
    snapshot.gateways = caches.gateways.share_all().into();
    snapshot.gateway_classes = caches.gateway_classes.share_all().into();
    snapshot.local_model_caches = caches.local_model_caches.share_all().into();
    caches.config_maps.share(context.args.system_namespace.as_deref(), &mut snapshot.config_maps);
    let gateway_namespaces =
        snapshot.gateways.iter().filter_map(|gateway| gateway.metadata.namespace.as_deref().map(Namespace));
    for one in gateway_namespaces.collect::<BTreeSet<_>>() {
        caches.services.share(one, &mut snapshot.services);
    }
    snapshot
}

fn add(context: &Context, namespace: Namespace<&str>, snapshot: &mut Snapshot) {
    let caches = &context.caches;
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            $(if !types::$kind::OF_CLUSTER {
                caches.$field.share(namespace, &mut snapshot.$field);
            })*
        };
    }
    kinds!(all each);
    caches.inference_services.share_summaries(namespace, &mut snapshot.peers);
}

/// The keys of the indexes under which other services find a service: its group and its models.
pub(crate) fn aliases(namespace: Namespace<&str>, peer: &Peer) -> impl Iterator<Item = ObjectKey> {
    let models =
        peer.models.iter().map(move |model| Key::new(namespace, Name(model)).of_kind(Kind::ModelName));
    models.chain(
        peer.group.iter().map(move |group| Key::new(namespace, Name(group)).of_kind(Kind::RoutingGroup)),
    )
}
