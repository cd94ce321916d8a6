//! Which requests need a key, and whose keys they accept. Pure functions.

use std::collections::BTreeSet;

use k8s_openapi::{Resource, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_api::{
    annotations::API_KEYS,
    foreign::{httproute::HTTPRoute, inferencepool::InferencePool, reference::BackendObjectReference},
};
use longboat_key::{Key, Name, Namespace};

use crate::{
    RoutingInputs,
    observed::{has_key, service_of},
};

/// The namespaces whose keys a back end accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyScope(Vec<Namespace>);

/// The LLMInferenceServices whose requests need a key.
#[derive(Debug, Default)]
pub(crate) struct KeyedServices(BTreeSet<Key>);

/// What a route adds to what its back ends ask for.
#[derive(Debug)]
pub(crate) struct KeyedRoute<'a> {
    services: &'a KeyedServices,
    /// Whether all requests of the route need a key.
    is_keyed: bool,
    /// The namespaces of the Gateways that ask for keys.
    gateways: BTreeSet<Namespace>,
}

/// Whether an object asks for keys. Only `off` and an empty text do not, so that a typing error opens nothing.
fn requires_keys(metadata: &ObjectMeta) -> bool {
    let value = metadata.annotations.as_ref().and_then(|all| all.get(API_KEYS));
    value.is_some_and(|value| !matches!(value.trim(), "" | "off"))
}

// === impl KeyScope ===

impl KeyScope {
    /// A scope of these namespaces.
    pub(super) fn new(namespaces: impl IntoIterator<Item = Namespace>) -> Self {
        let unique: BTreeSet<Namespace> = namespaces.into_iter().collect();
        Self(unique.into_iter().collect())
    }

    pub(crate) fn namespaces(&self) -> &[Namespace] {
        &self.0
    }
}

// === impl KeyedServices ===

impl KeyedServices {
    /// Whether requests through a Gateway may need keys.
    pub(crate) fn may_concern(&self, gateway: &ObjectMeta) -> bool {
        !self.0.is_empty() || requires_keys(gateway)
    }

    pub(crate) fn new(observed: &RoutingInputs) -> Self {
        let keyed = observed.inference.iter().filter(|service| requires_keys(&service.metadata));
        Self(keyed.map(|service| Key::of(service.as_ref())).collect())
    }

    /// Adds what a route and its Gateways ask for.
    pub(crate) fn of_route<'a>(
        &self,
        route: &HTTPRoute,
        gateways: impl Iterator<Item = &'a ObjectMeta>,
    ) -> KeyedRoute<'_> {
        let keyed = gateways.filter(|gateway| requires_keys(gateway));
        let gateways: BTreeSet<Namespace> = keyed.map(|gateway| Namespace::of(gateway).to_shared()).collect();
        let is_keyed = !gateways.is_empty() || self.owns(&route.metadata);
        KeyedRoute { services: self, is_keyed, gateways }
    }

    fn owns(&self, metadata: &ObjectMeta) -> bool {
        !self.0.is_empty() && service_of(metadata).is_some_and(|service| self.0.contains(&service))
    }
}

// === impl KeyedRoute ===

impl KeyedRoute<'_> {
    /// Returns whose keys a back end accepts, if it needs keys: its own service's, and those of the Gateway.
    pub(crate) fn scope(
        &self,
        observed: &RoutingInputs,
        namespace: Namespace<&str>,
        reference: &BackendObjectReference,
    ) -> Option<KeyScope> {
        // Most clusters have no keys, and this runs for each reference of each route.
        if !self.is_keyed && self.services.0.is_empty() {
            return None;
        }
        let within = reference.namespace.as_deref().map_or(namespace, Namespace);
        let key = Key::new(within, Name(&reference.name));
        // A route of someone else may lead here, so the back end is asked, too.
        let back_end = if reference.group.as_deref() == Some(InferencePool::GROUP) {
            observed.pools.iter().map(|pool| &pool.metadata).find(|metadata| has_key(metadata, &key))
        } else {
            observed.services.iter().map(|service| &service.metadata).find(|metadata| has_key(metadata, &key))
        };
        let is_keyed = self.is_keyed || back_end.is_some_and(|metadata| self.services.owns(metadata));
        is_keyed.then(|| KeyScope::new(self.gateways.iter().cloned().chain([key.namespace])))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_gateway_a_service_and_the_owner_of_a_back_end_can_ask_for_keys() {
        fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
            serde_json::from_value(value).unwrap()
        }
        let labels =
            json!({"app.kubernetes.io/name": "llm", "app.kubernetes.io/part-of": "llminferenceservice"});
        let scope = |service: &str, gateway: &str, route_labels: &Value, pool_labels: &Value| {
            let observed = RoutingInputs {
                inference: vec![Arc::new(object(json!({
                    "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                    "metadata": {"name": "llm", "namespace": "ns", "annotations": {"longboat.dev/api-keys": service}},
                    "spec": {"model": {"uri": "hf://a/b"}},
                })))],
                pools: vec![Arc::new(object(json!({
                    "metadata": {"name": "pool", "namespace": "ns", "labels": pool_labels}, "spec": {},
                })))],
                ..RoutingInputs::default()
            };
            let route = object(json!({
                "metadata": {"name": "r", "namespace": "ns", "labels": route_labels}, "spec": {},
            }));
            let gateway = ObjectMeta {
                namespace: Some("gateways".into()),
                annotations: Some([(API_KEYS.to_owned(), gateway.to_owned())].into()),
                ..ObjectMeta::default()
            };
            let reference =
                object(json!({"group": InferencePool::GROUP, "kind": "InferencePool", "name": "pool"}));
            let services = KeyedServices::new(&observed);
            let found = services.of_route(&route, [&gateway].into_iter());
            let found = found.scope(&observed, Namespace("ns"), &reference)?;
            Some(found.namespaces().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        let (none, own) = (json!({}), Some("ns".to_owned()));
        assert_eq!(scope("", "", &labels, &labels), None);
        assert_eq!(scope("off", "off", &labels, &labels), None);
        assert_eq!(scope("required", "", &labels, &none), own);
        assert_eq!(scope("required", "", &none, &labels), own, "a route of someone else");
        assert_eq!(scope("required", "", &none, &none), None, "another service");
        assert_eq!(scope("", "required", &none, &none).as_deref(), Some("gateways ns"));
        assert_eq!(scope("requierd", "", &labels, &none), own, "a typing error does not open the service");
    }
}
