//! `status.router` and `status.workloads`: the objects of the service.

use std::collections::{BTreeMap, BTreeSet};

use longboat_api::{
    foreign::{gateway::Gateway, httproute::HTTPRoute},
    groups,
    v1alpha2::{
        GatewayStatusReference, LLMInferenceServiceStatus, ObjectReference, RouterStatus, ScaledReference,
        TypedReference, WorkloadsStatus,
    },
};
use longboat_key::Key;

use super::context::StatusContext;
use crate::{
    names,
    router::gateway::{of_parent, scheme},
    workload::Half,
};

/// What is attached to one Gateway.
#[derive(Default)]
struct GatewayAttachments {
    listeners: BTreeSet<String>,
    routes: BTreeMap<String, ObjectReference>,
}

/// Reports the Gateways that the routes name, whether they exist or not.
pub(super) fn router(
    reconciled: &StatusContext,
    routes: &[&HTTPRoute],
    status: &mut LLMInferenceServiceStatus,
) {
    let context = &reconciled.context;
    if context.spec.route().is_none() && context.spec.scheduler().is_none() {
        status.router = None;
        return;
    }
    let mut gateways: BTreeMap<Key, GatewayAttachments> = BTreeMap::new();
    for route in routes {
        let name = route.metadata.name.clone().unwrap_or_default();
        for parent in route.spec.parent_refs.iter().filter(|parent| parent.is_gateway()) {
            let (namespace, gateway) = of_parent(context, parent);
            let of_gateway = || listeners(context.snapshot.gateways.get(namespace, gateway));
            let names = parent.section_name.clone().map_or_else(of_gateway, |name| vec![name]);
            let attached = gateways.entry(Key::new(namespace, gateway)).or_default();
            attached.listeners.extend(names);
            let reference = ObjectReference {
                group: groups::GATEWAY.into(),
                kind: "HTTPRoute".into(),
                name: name.clone(),
                namespace: Some(context.namespace.into()),
            };
            attached.routes.insert(name.clone(), reference);
        }
    }
    let previous = status.router.take().unwrap_or_default();
    status.router = Some(RouterStatus {
        gateways: gateways
            .into_iter()
            .map(|(Key { namespace, name }, attached)| GatewayStatusReference {
                group: groups::GATEWAY.into(),
                kind: "Gateway".into(),
                name: name.as_deref().into(),
                namespace: Some(namespace.as_deref().into()),
                listeners: attached.listeners.into_iter().collect(),
                http_routes: attached.routes.into_values().collect(),
            })
            .collect(),
        scheduler: previous.scheduler,
        // `super::group` sets it, if the route was written for a group.
        group: None,
    });
}

/// Reports the workloads with their ready replicas, and the Service.
pub(super) fn workloads(reconciled: &StatusContext, status: &mut LLMInferenceServiceStatus) {
    let context = &reconciled.context;
    let scaled = |group: &str, kind: &str, name: String, ready: Option<i32>| {
        Some(ScaledReference {
            api_group: Some(group.into()),
            kind: kind.into(),
            name,
            ready_replicas: Some(ready.unwrap_or_default()),
        })
    };
    let deployment = |name: String| {
        let observed = reconciled.applied.deployment(&name).and_then(|deployment| deployment.status.as_ref());
        let available = observed.and_then(|status| status.available_replicas);
        scaled("apps", "Deployment", name, available)
    };
    let workload = |half: Half| {
        if !half.is_group() {
            return deployment(half.deployment_name(context.name));
        }
        let name = half.group_name(context.name);
        let observed = reconciled.applied.leader_worker_set(&name).and_then(|set| set.status.as_ref());
        let ready = observed.and_then(|status| status.ready_replicas);
        scaled("leaderworkerset.x-k8s.io", "LeaderWorkerSet", name, ready)
    };
    status.workloads = Some(WorkloadsStatus {
        primary: workload(Half::main(context.spec)),
        prefill: Half::prefill(context.spec).and_then(workload),
        service: Some(TypedReference {
            api_group: None,
            kind: "Service".into(),
            name: names::workload_service(context.name),
        }),
        scheduler: context.managed_scheduler().and_then(|_| deployment(names::scheduler(context.name))),
    });
}

/// The listeners of a route that names none: all listeners for HTTP.
fn listeners(gateway: Option<&Gateway>) -> Vec<String> {
    let all = gateway.into_iter().flat_map(|gateway| &gateway.spec.listeners);
    let for_http = all.filter(|listener| scheme(listener).is_some());
    for_http.map(|listener| listener.name.clone()).collect()
}
