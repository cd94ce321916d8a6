//! The Secrets and ConfigMaps to which Gateways refer. Processes watch only these, by name. Pure functions.

use std::collections::BTreeSet;

use longboat_api::foreign::gateway::Gateway;
use longboat_key::{Key, Name, Namespace};

use crate::{
    RoutingInputs,
    certificates::ListenerSecrets,
    client_certificates,
    gateways::{self, allows_set, certificate_refs, sets_of},
    grants::Referrer,
    keys::KeyedServices,
    names, tls_policies,
};

/// Objects by their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct References {
    /// With certificates of listeners, and of Gateways for back ends.
    pub(crate) secrets: BTreeSet<Key>,
    /// With certificates of CAs, of back ends and of clients.
    pub(crate) config_maps: BTreeSet<Key>,
    /// Secrets with the API keys that pods check.
    pub(crate) api_keys: BTreeSet<Key>,
}

/// The name of the ConfigMap with the parameters of a Gateway, if it has one.
pub(crate) fn parameters(gateway: &Gateway) -> Option<Key> {
    let reference = gateway.spec.infrastructure.as_ref()?.parameters_ref.as_ref()?;
    let is_map = (reference.group.as_str(), reference.kind.as_str()) == ("", "ConfigMap");
    is_map.then(|| Key::new(Namespace::of(&gateway.metadata), Name(&reference.name)))
}

// === impl References ===

impl References {
    /// The references of all Gateways of this controller.
    pub(crate) fn new(observed: &RoutingInputs) -> Self {
        let mut all = Self::default();
        for gateway in gateways::ours(observed) {
            let own = Self::of(observed, gateway);
            all.secrets.extend(own.secrets);
            all.config_maps.extend(own.config_maps);
            all.api_keys.extend(own.api_keys);
        }
        all
    }

    /// The references of a Gateway that its pods read.
    pub(crate) fn of(observed: &RoutingInputs, gateway: &Gateway) -> Self {
        let own = Referrer { kind: "Gateway", namespace: Namespace::of(&gateway.metadata) };
        let sets = sets_of(observed, &Key::of(gateway));
        let sets = sets.iter().filter(|set| allows_set(observed, gateway, set));
        let added = sets.flat_map(|set| {
            let referrer = Referrer { kind: "ListenerSet", namespace: Namespace::of(&set.metadata) };
            set.spec.listeners.iter().map(move |listener| (referrer, listener))
        });
        let listeners = gateway.spec.listeners.iter().map(|listener| (own, listener)).chain(added);
        let mut secrets = ListenerSecrets::default();
        for (referrer, listener) in listeners {
            for reference in certificate_refs(listener) {
                // The status of the listener says why a reference counts for nothing.
                let _ = secrets.add(observed, referrer, reference);
            }
        }
        let (own_certificate, client_authorities) = client_certificates::references(observed, gateway);
        let secrets = secrets.0.into_iter().chain(own_certificate).collect();
        let config_maps = tls_policies::references(observed, gateway).config_maps.into_iter();
        let has_keys = KeyedServices::new(observed).may_concern(&gateway.metadata);
        let api_keys = has_keys.then(|| names::api_keys(gateway)).into_iter().collect();
        Self { secrets, config_maps: config_maps.chain(client_authorities).collect(), api_keys }
    }
}
