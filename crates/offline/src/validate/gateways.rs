//! Gateways in the manifests: the certificates that they name, their parameters, and what our controller refuses.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use longboat_api::foreign::{gateway::Gateway, httproute::HTTPRoute};
use longboat_gateway::{
    CLASS_NAME, CONTROLLER_NAME, Problem, certificate_problems, listener_problems, parameters_problem,
    route_problems,
};
use longboat_key::{Key, Name, Namespace};
use serde::Deserialize;

use super::{absent::ManifestObjects, attachment::of_gateway_api};
use crate::{
    finding::{Finding, Source},
    stored::StoredManifest,
};

/// The type of Secrets with certificates. Gateways read no others.
const TLS: &str = "kubernetes.io/tls";

/// Returns a note for each Gateway whose certificates or parameters the manifests do not have, and a warning for each with
/// parameters or listeners that our controller does not accept, and each HTTPS listener whose certificate cannot be used.
pub(super) fn findings(sound: &[StoredManifest], given: &ManifestObjects) -> Vec<Finding> {
    let of_kind = |kind: &'static str| sound.iter().filter(move |one| one.document.kind() == kind);
    let maps: Vec<Arc<ConfigMap>> = of_kind("ConfigMap")
        .filter_map(|one| Some(Arc::new(ConfigMap::deserialize(&one.object).ok()?)))
        .collect();
    let secrets: Vec<Arc<Secret>> = of_kind("Secret")
        .filter_map(|one| Some(Arc::new(Secret::deserialize(&one.object).ok()?)))
        .filter(|secret| secret.type_.as_deref() == Some(TLS))
        .collect();
    let mut all = Vec::new();
    for (one, gateway) in of_gateway_api::<Gateway>(sound) {
        let name = one.object_name();
        let is_ours = is_ours(sound, &gateway);
        for (at, problem) in listener_problems(&gateway).into_iter().filter(|_| is_ours) {
            let finding = Finding::at(&one.document, &name, &format!("spec.listeners[{at}]"), Source::Plan);
            let message = format!("no client can connect to this listener: {}", problem.message);
            all.push(finding.warning(problem.reason, message));
        }
        all.extend(given.note_of_gateway(&one.document, &name, &gateway));
        for (at, problem) in certificate_problems(&gateway, &secrets) {
            let path = format!("spec.listeners[{at}].tls");
            let references = gateway.spec.listeners[at].tls.iter().flat_map(|tls| &tls.certificate_refs);
            let is_here = references.map(|reference| {
                let within = reference.namespace.as_deref().map_or(one.namespace.as_deref(), Namespace);
                given.contains("Secret", &Key::new(within, Name(&*reference.name)))
            });
            // Some implementations find certificates by options. Of a Secret that is not here, the note says so.
            let has_options = one.document.value(&format!("{path}.options")).is_some();
            if !has_options && is_here.into_iter().all(|is_here| is_here) {
                let message = format!("no client can connect to this listener: {}", problem.message);
                let finding = Finding::at(&one.document, &name, &path, Source::Plan);
                let hint = format!(
                    "name a Secret of type {TLS} with a certificate and its key in tls.certificateRefs"
                );
                all.push(finding.warning(problem.reason, message).with_hint(hint));
            }
        }
        // Of a ConfigMap that is not here, the note says so.
        let reference = gateway.spec.infrastructure.as_ref().and_then(|all| all.parameters_ref.as_ref());
        let is_elsewhere = reference.is_some_and(|reference| {
            let is_named = |map: &Arc<ConfigMap>| {
                Key::of(map.as_ref()) == Key::new(one.namespace.as_deref(), Name(&*reference.name))
            };
            reference.kind == "ConfigMap" && !maps.iter().any(is_named)
        });
        let problem = parameters_problem(&gateway, &maps).filter(|_| is_ours && !is_elsewhere);
        all.extend(problem.map(|problem| {
            let path = "spec.infrastructure.parametersRef";
            let message = format!("on a cluster, nothing serves this Gateway: {}", problem.message);
            Finding::at(&one.document, &name, path, Source::Plan).warning(problem.reason, message)
        }));
    }
    all
}

/// Whether our controller serves a Gateway.
fn is_ours(sound: &[StoredManifest], gateway: &Gateway) -> bool {
    let class = gateway.spec.gateway_class_name.as_str();
    let found = sound.iter().find(|one| one.document.kind() == "GatewayClass" && one.name() == class);
    found.map_or(class == CLASS_NAME, |found| found.document.text("/spec/controllerName") == CONTROLLER_NAME)
}

/// Returns an error for each field that our controller refuses of a route to one of its Gateways in the manifests.
pub(super) fn refused_fields(sound: &[StoredManifest]) -> Vec<Finding> {
    let gateways = of_gateway_api::<Gateway>(sound).filter(|(_, gateway)| is_ours(sound, gateway));
    let gateways: BTreeSet<Key> = gateways.map(|(one, _)| one.key()).collect();
    let mut all = Vec::new();
    for (one, route) in of_gateway_api::<HTTPRoute>(sound) {
        let parent = route.spec.parent_refs.iter().find_map(|parent| {
            let within = parent.namespace.as_deref().map_or(one.namespace.as_deref(), Namespace);
            gateways.get(&Key::new(within, Name(&*parent.name)))
        });
        let Some(parent) = parent else { continue };
        let name = one.object_name();
        for Problem { reason, message } in route_problems(route) {
            let (path, rest) = message.find(' ').map_or((&*message, ""), |end| message.split_at(end));
            let message =
                format!("Gateway {parent} refuses the route, because it does not support this field{rest}");
            all.push(Finding::at(&one.document, &name, path, Source::Plan).error(reason, message));
        }
    }
    all
}
