//! Observe: the snapshot of the caches that planning reads, and which objects the service depends on.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use longboat_api::{
    foreign::{httproute::HTTPRoute, reference::ParentReference},
    reasons::event::MODEL_NAME_COLLISION,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::Platform;
use longboat_plan::{
    ChildKind, Children, ObjectRef, Peer, Plan, Planned, Snapshot, models_of_spec, names, types,
};

use crate::{
    context::Context,
    key::{Key, Kind, ObjectKey},
    watch::Watched,
};

/// The snapshot for a reconcile of a service.
pub(crate) fn snapshot(
    context: &Context,
    service: &Key,
    platform: Arc<Platform>,
    now: Timestamp,
) -> Snapshot {
    let mut snapshot = empty(context, platform, now);
    add(context, &service.namespace, &mut snapshot);
    // They are cluster-scoped, and there is one for each service: only its own is shared.
    let binding = names::scheduler_auth_binding(&service.namespace, &service.name);
    let bindings = &context.caches.cluster_role_bindings;
    bindings.share_one(&Key::new("", binding), &mut snapshot.cluster_role_bindings);
    snapshot
}

/// The snapshot for reconciles of services of any of these namespaces.
pub(crate) fn several<'a>(
    context: &Context,
    namespaces: impl IntoIterator<Item = &'a str>,
    platform: Arc<Platform>,
    now: Timestamp,
) -> Snapshot {
    let mut snapshot = empty(context, platform, now);
    for namespace in namespaces {
        add(context, namespace, &mut snapshot);
    }
    snapshot.cluster_role_bindings = context.caches.cluster_role_bindings.share_all();
    snapshot
}

fn empty(context: &Context, platform: Arc<Platform>, now: Timestamp) -> Snapshot {
    let mut snapshot = Snapshot::empty(now, platform, context.args.system_namespace.as_str());
    snapshot.capabilities = context.capabilities();
    snapshot.cluster_domain.clone_from(&context.args.cluster_domain);
    snapshot
}

fn add(context: &Context, namespace: &str, snapshot: &mut Snapshot) {
    let caches = &context.caches;
    let system = context.args.system_namespace.as_str();
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident, $go_type:literal;)*) => {
            $(caches.$field.share(namespace, &mut snapshot.$field);)*
        };
    }
    longboat_plan::child_kinds!(each);
    caches.inference_services.share_peers(namespace, &mut snapshot.peers);
    caches.pods.share(namespace, &mut snapshot.pods);
    snapshot.gateways = caches.gateways.share_all();
    snapshot.gateway_classes = caches.gateway_classes.share_all();
    caches.config_maps.share(system, &mut snapshot.config_maps);
    let gateway_namespaces =
        snapshot.gateways.iter().filter_map(|gateway| gateway.metadata.namespace.as_deref());
    for one in gateway_namespaces.collect::<BTreeSet<_>>() {
        caches.services.share(one, &mut snapshot.services);
    }
}

/// What the plan of a service depends on besides its own children: the objects that it names, found or not.
pub(crate) fn dependencies(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    snapshot: &Snapshot,
    planned: &Children<Planned>,
) -> BTreeSet<ObjectKey> {
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let mut seen = BTreeSet::new();
    storage(service, spec, snapshot, namespace, &mut seen);
    router(spec, snapshot, planned, namespace, &mut seen);
    seen.extend(group(spec, namespace));
    let bundle = &snapshot.platform.serving_proof.ca_config_map;
    if !bundle.is_empty() {
        seen.insert(Key::new(&snapshot.system_namespace, bundle).of_kind(Kind::ConfigMap));
    }
    seen
}

/// The key of a child in the index.
pub(crate) fn key_of(object: &ObjectRef) -> ObjectKey {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident, $go_type:literal;)*) => {
            match object.kind {
                $(ChildKind::$kind => <types::$kind as Watched>::KIND,)*
            }
        };
    }
    Key::new(&object.namespace, &object.name).of_kind(longboat_plan::child_kinds!(each))
}

/// The names of the models that a service serves by a route. A service that knows of another one with the same name does not depend on
/// it further: otherwise a name that a whole namespace shares would enqueue all services whenever one changes.
pub(crate) fn models(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    planned: &Plan,
) -> BTreeSet<ObjectKey> {
    let is_told = planned.events.iter().any(|event| event.reason == MODEL_NAME_COLLISION);
    if is_told || planned.children.http_routes.is_empty() {
        return BTreeSet::new();
    }
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let models = models_of_spec(spec, name).into_iter();
    models.map(|model| Key::new(namespace, model).of_kind(Kind::ModelName)).collect()
}

/// Names under which other services depend on a service: its group and its models.
pub(crate) fn aliases(namespace: &str, peer: &Peer) -> impl Iterator<Item = ObjectKey> {
    let models = peer.models.iter().map(move |model| Key::new(namespace, model).of_kind(Kind::ModelName));
    models.chain(peer.group.iter().map(move |group| Key::new(namespace, group).of_kind(Kind::RoutingGroup)))
}

/// The group whose members share the service's traffic.
pub(crate) fn group(spec: &LLMInferenceServiceSpec, namespace: &str) -> Option<ObjectKey> {
    let group = spec.router.as_ref()?.route.as_ref()?.group.as_ref()?;
    Some(Key::new(namespace, group).of_kind(Kind::RoutingGroup))
}

/// The names of the Secrets whose content planning needs: the certificate, where somebody has taken our label from it, and the
/// credentials for what is downloaded.
pub(crate) fn secrets_to_read(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    snapshot: &Snapshot,
) -> BTreeSet<String> {
    let metadata = &service.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let mut names = BTreeSet::from([names::tls_secret(metadata.name.as_deref().unwrap_or_default())]);
    let is_mounted = ["pvc://", "oci://", "oci+native://"]
        .iter()
        .any(|scheme| spec.model.uri.as_str().starts_with(scheme));
    let has_adapters = spec.model.lora.as_ref().is_some_and(|lora| !lora.adapters.is_empty());
    if !spec.storage_initializer_enabled() || (is_mounted && !has_adapters) {
        return names;
    }
    match annotated_secret(service, snapshot) {
        Some(secret) => {
            names.insert(secret.to_owned());
        }
        None => names.extend(
            accounts(spec)
                .into_iter()
                .flat_map(|account| secrets_of(snapshot, namespace, account))
                .map(str::to_owned),
        ),
    }
    names
}

/// The Secret that the service names for the credentials of its model.
fn annotated_secret<'a>(service: &'a LLMInferenceService, snapshot: &Snapshot) -> Option<&'a str> {
    let annotation = &snapshot.platform.credentials.storage_secret_name_annotation;
    service.metadata.annotations.as_ref()?.get(annotation).map(String::as_str)
}

/// The accounts that pods of the service run with, or take their Secrets from.
fn accounts(spec: &LLMInferenceServiceSpec) -> BTreeSet<&str> {
    let scheduler = spec.router.as_ref().and_then(|router| router.scheduler.as_ref());
    let prefill = spec.prefill.as_ref();
    let pods = [
        spec.workload.template.as_ref(),
        spec.workload.worker.as_ref(),
        prefill.and_then(|prefill| prefill.template.as_ref()),
        prefill.and_then(|prefill| prefill.worker.as_ref()),
        scheduler.and_then(|scheduler| scheduler.template.as_ref()),
    ];
    let named = pods.into_iter().flatten().filter_map(|pod| pod.service_account_name.as_deref());
    named.filter(|name| !name.is_empty()).chain(["default"]).collect()
}

/// The names of the Secrets of an account.
fn secrets_of<'a>(snapshot: &'a Snapshot, namespace: &str, account: &str) -> impl Iterator<Item = &'a str> {
    let found = snapshot.service_accounts.get(namespace, account);
    let secrets = found.and_then(|found| found.secrets.as_ref()).into_iter().flatten();
    secrets.filter_map(|secret| secret.name.as_deref())
}

/// Accounts of the pods, their Secrets, and the bundle of certificates.
fn storage(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    snapshot: &Snapshot,
    namespace: &str,
    seen: &mut BTreeSet<ObjectKey>,
) {
    let mut see = |kind, namespace: &str, name: &str| {
        seen.insert(Key::new(namespace, name).of_kind(kind));
    };
    for account in accounts(spec) {
        see(Kind::ServiceAccount, namespace, account);
        for secret in secrets_of(snapshot, namespace, account) {
            see(Kind::Secret, namespace, secret);
        }
    }
    if let Some(secret) = annotated_secret(service, snapshot) {
        see(Kind::Secret, namespace, secret);
    }
    let bundle = &snapshot.platform.storage.ca_bundle_config_map;
    if !bundle.is_empty() {
        see(Kind::ConfigMap, &snapshot.system_namespace, bundle);
        see(Kind::ConfigMap, namespace, "global-ca-bundle");
    }
}

/// Gateways and their Services, and the routes and pools that the service names.
fn router(
    spec: &LLMInferenceServiceSpec,
    snapshot: &Snapshot,
    planned: &Children<Planned>,
    namespace: &str,
    seen: &mut BTreeSet<ObjectKey>,
) {
    let Some(router) = &spec.router else { return };
    let mut gateways: BTreeSet<Key> = BTreeSet::new();
    let mut of_route = |route: &HTTPRoute| {
        gateways.extend(route.spec.parent_refs.iter().map(|parent| gateway_of(parent, namespace)));
    };
    planned.http_routes.iter().for_each(&mut of_route);
    if let Some(route) = &router.route {
        for reference in route.refs() {
            seen.insert(Key::new(namespace, &reference.name).of_kind(Kind::HttpRoute));
            if let Some(found) = snapshot.http_routes.get(namespace, &reference.name) {
                of_route(found);
            }
        }
        let parents =
            route.http.iter().filter_map(|http| http.spec.as_ref()).flat_map(|spec| &spec.parent_refs);
        gateways.extend(parents.map(|parent| gateway_of(parent, namespace)));
    }
    for reference in router.gateway.iter().flat_map(|gateway| &gateway.refs) {
        let within = if reference.namespace.is_empty() { namespace } else { &reference.namespace };
        gateways.insert(Key::new(within, &reference.name));
    }
    let ingress = &snapshot.platform.ingress;
    gateways.insert(Key::new(&ingress.gateway_namespace, &ingress.gateway_name));
    for gateway in gateways {
        if let Some(found) = snapshot.gateways.get(&gateway.namespace, &gateway.name) {
            seen.insert(Key::new("", &found.spec.gateway_class_name).of_kind(Kind::GatewayClass));
        }
        seen.insert(gateway.clone().of_kind(Kind::GatewayService));
        seen.insert(gateway.of_kind(Kind::Gateway));
    }
    if let Some(pool) = router.scheduler.as_ref().and_then(|scheduler| scheduler.external_pool()) {
        seen.insert(Key::new(namespace, pool).of_kind(Kind::InferencePool));
        seen.insert(Key::new(namespace, pool).of_kind(Kind::InferencePoolX));
    }
}

fn gateway_of(parent: &ParentReference, namespace: &str) -> Key {
    Key::new(parent.namespace.as_deref().unwrap_or(namespace), &parent.name)
}
