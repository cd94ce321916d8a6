//! Gateways in the manifests: the certificates that they name, and their parameters.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use longboat_api::foreign::gateway::Gateway;
use longboat_gateway::{CONTROLLER_NAME, certificate_problems, parameters_problem};
use longboat_key::{Key, Name, Namespace};
use serde::Deserialize;

use super::{absent::ManifestObjects, attachment::is_of_gateway_api};
use crate::{
    finding::{Finding, Source},
    stored::StoredManifest,
};

/// The type of Secrets with certificates. Gateways read no others.
const TLS: &str = "kubernetes.io/tls";

/// The class of an installation.
const CLASS: &str = "longboat";

/// Returns a note for each Gateway whose certificates or parameters the manifests do not have, and a warning for each with
/// parameters that our controller does not accept, and each HTTPS listener whose certificate cannot be used.
pub(super) fn findings(sound: &[StoredManifest], given: &ManifestObjects) -> Vec<Finding> {
    let of_kind = |kind: &'static str| sound.iter().filter(move |one| one.document.kind() == kind);
    let classes: BTreeMap<&str, &str> =
        of_kind("GatewayClass").map(|one| (one.name(), one.document.text("/spec/controllerName"))).collect();
    let maps: Vec<Arc<ConfigMap>> = of_kind("ConfigMap")
        .filter_map(|one| Some(Arc::new(ConfigMap::deserialize(&one.object).ok()?)))
        .collect();
    let secrets: Vec<Arc<Secret>> = of_kind("Secret")
        .filter_map(|one| Some(Arc::new(Secret::deserialize(&one.object).ok()?)))
        .filter(|secret| secret.type_.as_deref() == Some(TLS))
        .collect();
    let mut all = Vec::new();
    for one in of_kind("Gateway").filter(|one| is_of_gateway_api(one)) {
        let Ok(gateway) = Gateway::deserialize(&one.object) else { continue };
        let name = one.object_name();
        let class = gateway.spec.gateway_class_name.as_str();
        let is_ours = classes.get(class).map_or(class == CLASS, |controller| *controller == CONTROLLER_NAME);
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
