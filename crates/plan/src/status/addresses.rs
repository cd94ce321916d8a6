//! `status.url` and `status.addresses`.

use longboat_api::{
    foreign::httproute::HTTPRoute,
    v1alpha2::{Address, LLMInferenceServiceStatus, ModelReference, ObjectReference, ServiceAddress},
};

use super::context::StatusContext;
use crate::{
    context::Context,
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
    let has_route = context.spec.router.as_ref().is_some_and(|router| router.route.is_some());
    if !has_route {
        let scheme = if context.tls() { "https" } else { "http" };
        let service = names::workload_service(context.name);
        let url =
            format!("{scheme}://{service}.{}.svc.{}", context.namespace, context.snapshot.cluster_domain);
        let address = Address { url: Some(url), ..Address::default() };
        status.url = None;
        status.addresses = vec![ServiceAddress { address, ..ServiceAddress::default() }];
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

fn address(context: &Context, entry: &GatewayUrl) -> ServiceAddress {
    ServiceAddress {
        address: Address {
            name: Some(entry.kind(&context.snapshot.cluster_domain)),
            url: Some(entry.url.clone()),
            ..Address::default()
        },
        origin: Some(ObjectReference {
            group: "gateway.networking.k8s.io".into(),
            kind: "Gateway".into(),
            name: entry.gateway.name.as_deref().into(),
            namespace: Some(entry.gateway.namespace.as_deref().into()),
        }),
        models: models(context, entry.is_model_routing()),
    }
}

/// If a header chooses the model, only the full names are unambiguous. Otherwise the server knows the short names too.
fn models(context: &Context, full_names_only: bool) -> Vec<ModelReference> {
    let adapters = context.spec.model.lora.iter().flat_map(|lora| &lora.adapters);
    let adapters = adapters.filter_map(|adapter| adapter.name.as_deref());
    let names = std::iter::once(context.model_name()).chain(adapters);
    names
        .flat_map(|name| {
            let short = (!full_names_only).then(|| name.to_owned());
            std::iter::once(context.published_name(name)).chain(short)
        })
        .map(|name| ModelReference { name })
        .collect()
}
