//! Gateways in the manifests: the certificates that they name, and their parameters.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use longboat_api::foreign::gateway::Gateway;
use longboat_gateway::{CONTROLLER_NAME, parameters_problem};
use longboat_key::{Key, Name};
use serde::Deserialize;

use super::{
    absent::ManifestObjects,
    attachment::is_of_gateway_api,
    finding::{Finding, Source},
};
use crate::stored::StoredManifest;

/// The class of an installation.
const CLASS: &str = "longboat";

/// Returns a note for each Gateway whose certificates or parameters the manifests do not have, and a warning for each with
/// parameters that our controller does not accept.
pub(super) fn findings(sound: &[StoredManifest], given: &ManifestObjects) -> Vec<Finding> {
    let of_kind = |kind: &'static str| sound.iter().filter(move |one| one.document.kind() == kind);
    let classes: BTreeMap<&str, &str> =
        of_kind("GatewayClass").map(|one| (one.name(), one.document.text("/spec/controllerName"))).collect();
    let maps: Vec<Arc<ConfigMap>> = of_kind("ConfigMap")
        .filter_map(|one| Some(Arc::new(ConfigMap::deserialize(&one.object).ok()?)))
        .collect();
    let mut all = Vec::new();
    for one in of_kind("Gateway").filter(|one| is_of_gateway_api(one)) {
        let Ok(gateway) = Gateway::deserialize(&one.object) else { continue };
        let name = one.object_name();
        let class = gateway.spec.gateway_class_name.as_str();
        let is_ours = classes.get(class).map_or(class == CLASS, |controller| *controller == CONTROLLER_NAME);
        all.extend(given.note_of_gateway(&one.document, &name, &gateway));
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
