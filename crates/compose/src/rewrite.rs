//! The steps of composition after templates were rendered.

use longboat_api::{
    child_name,
    foreign::{
        httproute::{HTTPBackendRef, HTTPRouteSpec},
        inferencepool::PoolPort,
        reference::{BackendObjectReference, ParentReference},
    },
    groups,
    names::suffix,
    picker_plugins::{LATENCY_PRODUCER, LORA_SCORER},
    v1alpha2::{LLMInferenceServiceSpec, RouterSpec},
};
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use crate::{error::ComposeError, layer::ConfigMapSource, select, warning::Warning};

/// The port of the model servers.
const POOL_PORT: i32 = 8000;
/// The port of the picker.
const EPP_PORT: i32 = 9002;
/// The default key of a scheduler config in its ConfigMap.
pub const DEFAULT_CONFIG_KEY: &str = "epp";
/// ConfigMaps with this prefix may be shared: they are then in the controller's namespace.
const SHARED_CONFIG_PREFIX: &str = "config-scheduler-";

/// Sets the gateways and backends of the managed route that follow from the rest of the spec.
pub(crate) fn route(spec: &mut LLMInferenceServiceSpec, service: &str) {
    let Some(router) = spec.router.as_deref_mut() else { return };
    let RouterSpec { route, gateway, scheduler, .. } = router;
    let Some(route) = route.as_mut().and_then(|r| r.http.as_mut()).and_then(|h| h.spec.as_mut()) else {
        return;
    };
    let gateways = gateway.as_ref().map(|g| g.refs.as_slice()).unwrap_or_default();
    if !gateways.is_empty() {
        route.parent_refs = gateways
            .iter()
            .map(|gateway| ParentReference {
                group: Some(groups::GATEWAY.to_owned()),
                kind: Some("Gateway".to_owned()),
                name: gateway.name.clone(),
                namespace: Some(gateway.namespace.clone()).filter(|n| !n.is_empty()),
                section_name: gateway.section_name.clone(),
                ..ParentReference::default()
            })
            .collect();
    }
    lead_to_pool(route, service);
    match scheduler {
        None => {
            let workload = child_name(service, suffix::WORKLOAD_SERVICE);
            for backend in managed_pool_backends(route, service) {
                backend.backend.group = Some(String::new());
                backend.backend.kind = Some("Service".to_owned());
                backend.backend.name.clone_from(&workload);
            }
        }
        Some(scheduler) => {
            if let Some(pool) = scheduler.external_pool() {
                for backend in managed_pool_backends(route, service) {
                    pool.clone_into(&mut backend.backend.name);
                }
            }
        }
    }
}

/// Adds the managed route's backend to rules without a backend. A user's rules replace those of the preset as a whole, and
/// without a backend every request would get an error response.
fn lead_to_pool(route: &mut HTTPRouteSpec, service: &str) {
    for rule in route.rules.iter_mut().filter(|rule| rule.has_no_destination()) {
        rule.backend_refs.push(HTTPBackendRef {
            backend: BackendObjectReference {
                group: Some(groups::POOL.to_owned()),
                kind: Some("InferencePool".to_owned()),
                name: child_name(service, suffix::INFERENCE_POOL),
                namespace: None,
                port: Some(POOL_PORT),
            },
            weight: Some(1),
            filters: Vec::new(),
        });
    }
}

/// The backends that refer to the pool which the controller would create.
fn managed_pool_backends<'r>(
    route: &'r mut HTTPRouteSpec,
    service: &str,
) -> impl Iterator<Item = &'r mut HTTPBackendRef> {
    let pool = child_name(service, suffix::INFERENCE_POOL);
    route.rules.iter_mut().flat_map(|rule| &mut rule.backend_refs).filter(move |backend| {
        backend.backend.kind.as_deref() == Some("InferencePool") && backend.backend.name == pool
    })
}

/// Replaces a reference to a scheduler config by the config.
pub(crate) fn scheduler_config(
    spec: &mut LLMInferenceServiceSpec,
    namespace: Namespace<&str>,
    system_namespace: Namespace<&str>,
    config_maps: &dyn ConfigMapSource,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Key>, ComposeError> {
    let scheduler = spec.router.as_mut().and_then(|router| router.scheduler.as_mut());
    let Some(config) = scheduler.and_then(|scheduler| scheduler.config.as_mut()) else { return Ok(None) };
    let Some(reference) = &config.ref_ else { return Ok(None) };
    let name = Name(reference.name.as_str());
    let key = if reference.key.is_empty() { DEFAULT_CONFIG_KEY } else { &reference.key };
    let places = [namespace, system_namespace];
    let places = if name.starts_with(SHARED_CONFIG_PREFIX) { &places[..] } else { &places[..1] };
    let found = places.iter().find_map(|&place| Some((place, config_maps.get(place, name)?)));
    let Some((found_in, data)) = found else {
        return Err(ComposeError::SchedulerConfigMissing {
            name: name.to_string(),
            namespaces: places.iter().map(ToString::to_string).collect(),
        });
    };
    let Some(text) = data.get(key) else {
        return Err(ComposeError::SchedulerConfigKey {
            namespace: found_in.to_string(),
            name: name.to_string(),
            key: key.to_owned(),
        });
    };
    let resolved = Some(Key::new(found_in, name));
    let inline = serde_saphyr::from_str::<Value>(text).unwrap_or_else(|_| Value::String(text.clone()));
    if select::plugins_of(&inline).iter().any(|plugin| plugin == LATENCY_PRODUCER) {
        warnings.push(Warning::latency_predictor_config_ref());
    }
    config.inline = Some(inline);
    config.ref_ = None;
    Ok(resolved)
}

/// Adds the scorer that prefers endpoints which have loaded an adapter, at the end of every profile of the picker.
pub(crate) fn adapter_scorer(spec: &mut LLMInferenceServiceSpec) {
    const WEIGHT: i64 = 4;
    let scheduler = spec.router.as_mut().and_then(|router| router.scheduler.as_mut());
    let Some(inline) = scheduler.and_then(|scheduler| scheduler.config.as_mut()?.inline.as_mut()) else {
        return;
    };
    let text = inline.as_str().and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
    let Value::Object(mut config) = text.unwrap_or_else(|| inline.clone()) else { return };
    let Some(plugins) = config.get_mut("plugins").and_then(Value::as_array_mut) else { return };
    let present = plugins.iter().find(|plugin| plugin.get("type").is_some_and(|type_| type_ == LORA_SCORER));
    let name = if let Some(plugin) = present {
        plugin.get("name").cloned().unwrap_or_else(|| LORA_SCORER.into())
    } else {
        plugins.push(json!({ "type": LORA_SCORER }));
        LORA_SCORER.into()
    };
    let profiles = config.get_mut("schedulingProfiles").and_then(Value::as_array_mut).into_iter().flatten();
    for references in profiles.filter_map(|profile| profile.get_mut("plugins")?.as_array_mut()) {
        if references.iter().all(|reference| reference.get("pluginRef") != Some(&name)) {
            references.push(json!({ "pluginRef": name, "weight": WEIGHT }));
        }
    }
    *inline = Value::Object(config);
}

/// Sets the port of the picker in the managed pool.
pub(crate) fn picker_port(spec: &mut LLMInferenceServiceSpec) {
    let scheduler = spec.router.as_mut().and_then(|router| router.scheduler.as_mut());
    let Some(pool) = scheduler.and_then(|scheduler| scheduler.pool.as_mut()?.spec.as_mut()) else { return };
    let picker = &mut pool.endpoint_picker_ref;
    let unset = picker.port.as_ref().is_none_or(|port| port.number == 0);
    if unset && matches!(picker.kind.as_str(), "Service" | "") {
        picker.port = Some(PoolPort { number: EPP_PORT });
    }
}
