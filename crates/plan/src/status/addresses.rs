//! `status.url` and `status.addresses`.

use longboat_api::{
    foreign::httproute::HTTPRoute,
    groups,
    v1alpha2::{LLMInferenceServiceStatus, ModelReference, ObjectReference, ServiceAddress},
};

use super::context::StatusContext;
use crate::{
    context::Context,
    key::Kind,
    names,
    router::url::{self, GatewayUrl},
};

/// Writes the addresses of the service. Without a route, the only address is the workload Service, which is reachable only in
/// the cluster, so `status.url` stays empty.
pub(super) fn report(
    reconciled: &StatusContext,
    routes: &[&HTTPRoute],
    status: &mut LLMInferenceServiceStatus,
) -> Result<(), String> {
    let context = &reconciled.context;
    if context.spec.route().is_none() {
        let scheme = context.scheme();
        let service = names::workload_service(context.name);
        let url =
            format!("{scheme}://{service}.{}.svc.{}", context.namespace, context.snapshot.cluster_domain);
        status.url = None;
        status.addresses = vec![ServiceAddress { url: Some(url), ..ServiceAddress::default() }];
        return Ok(());
    }
    let mut found = url::discover(context, routes)?;
    let preferred = url::preferred(context, &found);
    status.url = preferred.map(|entry| entry.url.clone());
    // Clients use the first address as it is, and at the root, which comes first in the order of the texts, a request needs the
    // header of the model.
    if let Some(first) = preferred.and_then(|first| found.iter().position(|entry| entry == first)) {
        found[..=first].rotate_right(1);
    }
    status.addresses = found.iter().map(|entry| address(context, entry)).collect();
    Ok(())
}

/// Removes the addresses and the routes of a service if there are no routes, because the cluster does not serve them.
pub(super) fn forget_unserved(reconciled: &StatusContext, status: &mut LLMInferenceServiceStatus) {
    let context = &reconciled.context;
    let snapshot = context.snapshot;
    let may_be_there = snapshot.capabilities.gateway_api
        || snapshot.check_listed(&[context.namespace], &[Kind::Gateway, Kind::HTTPRoute]).is_err();
    if may_be_there || context.spec.route().is_none() {
        return;
    }
    status.url = None;
    status.addresses.clear();
    for gateway in status.router.iter_mut().flat_map(|router| &mut router.gateways) {
        gateway.http_routes.clear();
    }
}

fn address(context: &Context, entry: &GatewayUrl) -> ServiceAddress {
    ServiceAddress {
        name: Some(entry.kind(&context.snapshot.cluster_domain)),
        url: Some(entry.url.clone()),
        origin: Some(ObjectReference {
            group: groups::GATEWAY.into(),
            kind: "Gateway".into(),
            name: entry.gateway.name.as_deref().into(),
            namespace: Some(entry.gateway.namespace.as_deref().into()),
        }),
        models: models(context, entry.is_model_routing()),
        ..ServiceAddress::default()
    }
}

/// If a header chooses the model, only the full names are unambiguous. Otherwise the server knows the short names too.
fn models(context: &Context, full_names_only: bool) -> Vec<ModelReference> {
    let adapters = context.spec.adapters().iter().filter_map(|adapter| adapter.name.as_deref());
    let names = std::iter::once(context.model_name()).chain(adapters);
    names
        .flat_map(|name| {
            let short = (!full_names_only).then(|| name.to_owned());
            std::iter::once(context.published_name(name)).chain(short)
        })
        .map(|name| ModelReference { name })
        .collect()
}
