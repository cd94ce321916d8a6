//! Assumptions without a cluster: the objects to which a service refers exist.

pub(crate) mod secrets;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::core::v1::{ConfigMap, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{
    child_name,
    foreign::{
        gateway::{Gateway, GatewaySpec, Listener},
        httproute::{HTTPRoute, HTTPRouteSpec},
        reference::ParentReference,
    },
    names::suffix,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::Snapshot;

/// The key of the certificates in a CA bundle.
const BUNDLE_KEY: &str = "cabundle.crt";

/// Adds the objects to which a service refers and that the snapshot lacks. Returns one sentence about each.
pub(crate) fn what_is_missing(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    snapshot: &mut Snapshot,
) -> Vec<String> {
    let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let mut assumed = Vec::new();
    accounts(namespace, name, spec, snapshot, &mut assumed);
    bundle(namespace, snapshot, &mut assumed);
    if snapshot.capabilities.gateway_api {
        routes(namespace, spec, snapshot, &mut assumed);
        gateways(namespace, spec, snapshot, &mut assumed);
    }
    assumed
}

fn metadata(namespace: Namespace<&str>, name: Name<&str>) -> ObjectMeta {
    ObjectMeta { namespace: Some(namespace.into()), name: Some(name.into()), ..ObjectMeta::default() }
}

fn accounts(
    namespace: Namespace<&str>,
    service: Name<&str>,
    spec: &LLMInferenceServiceSpec,
    snapshot: &mut Snapshot,
    assumed: &mut Vec<String>,
) {
    let picker = spec.scheduler().and_then(|scheduler| scheduler.template.as_deref());
    let pods = spec.server_pods().map(|(_, pod)| pod).chain(picker);
    // Every namespace of a cluster has the account `default`.
    let default = Name(secrets::DEFAULT_ACCOUNT);
    if snapshot.service_accounts.get(namespace, default).is_none() {
        let account = ServiceAccount { metadata: metadata(namespace, default), ..ServiceAccount::default() };
        snapshot.service_accounts.insert(Arc::new(account));
    }
    // The controller makes the account of its picker.
    let managed = child_name(&service, suffix::EPP_SERVICE_ACCOUNT);
    let named = pods.filter_map(|pod| pod.service_account_name.as_deref());
    for name in named.filter(|name| !name.is_empty() && *name != managed).collect::<BTreeSet<_>>() {
        if snapshot.service_accounts.get(namespace, Name(name)).is_none() {
            let account =
                ServiceAccount { metadata: metadata(namespace, Name(name)), ..ServiceAccount::default() };
            snapshot.service_accounts.insert(Arc::new(account));
            assumed.push(format!("ServiceAccount {namespace}/{name} exists, without credentials"));
        }
    }
}

fn bundle(namespace: Namespace<&str>, snapshot: &mut Snapshot, assumed: &mut Vec<String>) {
    let name = snapshot.platform.storage.ca_bundle_config_map.clone();
    let system = snapshot.system_namespace.clone();
    if name.is_empty()
        || namespace == system.as_deref()
        || snapshot.config_maps.get(system.as_deref(), Name(&name)).is_some()
    {
        return;
    }
    let data = [(BUNDLE_KEY.to_owned(), "<the platform's certificates>".to_owned())];
    let bundle = ConfigMap {
        metadata: metadata(system.as_deref(), Name(&name)),
        data: Some(data.into()),
        ..ConfigMap::default()
    };
    snapshot.config_maps.insert(Arc::new(bundle));
    assumed.push(format!("ConfigMap {system}/{name} exists, with certificates"));
}

fn routes(
    namespace: Namespace<&str>,
    spec: &LLMInferenceServiceSpec,
    snapshot: &mut Snapshot,
    assumed: &mut Vec<String>,
) {
    for reference in spec.route().iter().flat_map(|route| route.refs()) {
        if snapshot.http_routes.get(namespace, Name(&reference.name)).is_some() {
            continue;
        }
        let ingress = &snapshot.platform.ingress;
        let parent = ParentReference {
            name: ingress.gateway.name.as_deref().into(),
            namespace: Some(ingress.gateway.namespace.as_deref().into()),
            ..ParentReference::default()
        };
        let route = HTTPRoute {
            metadata: metadata(namespace, Name(&reference.name)),
            spec: HTTPRouteSpec { parent_refs: vec![parent], ..HTTPRouteSpec::default() },
            status: None,
        };
        snapshot.http_routes.insert(Arc::new(route));
        assumed.push(format!("HTTPRoute {namespace}/{} exists", reference.name));
    }
}

fn gateways(
    namespace: Namespace<&str>,
    spec: &LLMInferenceServiceSpec,
    snapshot: &mut Snapshot,
    assumed: &mut Vec<String>,
) {
    let mut wanted: BTreeSet<Key> = BTreeSet::new();
    let mut want = |within: Option<&str>, name: &str| {
        let within = within.filter(|within| !within.is_empty()).map_or(namespace, Namespace);
        wanted.insert(Key::new(within, Name(name)));
    };
    for reference in spec.gateway_refs() {
        want(Some(&reference.namespace), &reference.name);
    }
    let route = spec.route();
    let managed = route.and_then(|route| route.http.as_ref()).and_then(|http| http.spec.as_ref());
    for parent in managed.iter().flat_map(|spec| &spec.parent_refs).filter(|parent| parent.is_gateway()) {
        want(parent.namespace.as_deref(), &parent.name);
    }
    for reference in route.iter().flat_map(|route| route.refs()) {
        let found = snapshot.http_routes.get(namespace, Name(&reference.name));
        for parent in
            found.iter().flat_map(|route| &route.spec.parent_refs).filter(|parent| parent.is_gateway())
        {
            want(parent.namespace.as_deref(), &parent.name);
        }
    }
    for key in wanted {
        let (within, name) = (key.namespace.as_deref(), key.name.as_deref());
        if snapshot.gateways.get(within, name).is_some() {
            continue;
        }
        let listener =
            Listener { name: "http".into(), port: 80, protocol: "HTTP".into(), ..Listener::default() };
        let spec = GatewaySpec {
            gateway_class_name: "assumed".into(),
            listeners: vec![listener],
            ..GatewaySpec::default()
        };
        assumed.push(format!("Gateway {within}/{name} exists"));
        snapshot.gateways.insert(Arc::new(Gateway { metadata: metadata(within, name), spec, status: None }));
    }
}
