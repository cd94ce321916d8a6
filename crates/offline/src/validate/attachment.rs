//! Routes that attach to no listener of a Gateway in the same manifests.

use std::collections::BTreeMap;

use k8s_openapi::{Resource, api::core::v1};
use longboat_api::{
    foreign::{
        gateway::{Gateway, Listener},
        httproute::HTTPRoute,
        reference::ParentReference,
    },
    groups,
    v1alpha2::LLMInferenceServiceSpec,
};
use longboat_gateway::{Problem, attachment_problem};
use longboat_key::{Key, Name, Namespace};
use longboat_manifest::Document;
use longboat_plan::Plan;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    finding::{Advice, Finding, Severity, Source},
    stored::StoredManifest,
};

/// The Gateways and Namespaces in the manifests.
pub(super) struct ManifestGateways<'a> {
    gateways: BTreeMap<Key, (Gateway, &'a Document)>,
    namespaces: BTreeMap<String, v1::Namespace>,
}

// === impl ManifestGateways ===

impl<'a> ManifestGateways<'a> {
    pub(super) fn among(sound: &'a [StoredManifest]) -> Self {
        let gateways = of_gateway_api(sound).map(|(one, gateway)| (one.key(), (gateway, &one.document)));
        let namespaces = sound.iter().filter(|one| one.document.kind() == "Namespace");
        let namespaces = namespaces
            .filter_map(|one| Some((one.name().to_owned(), v1::Namespace::deserialize(&one.object).ok()?)));
        Self { gateways: gateways.collect(), namespaces: namespaces.collect() }
    }

    /// Returns findings about the HTTPRoutes in the manifests.
    pub(super) fn of_routes(&self, sound: &[StoredManifest]) -> Vec<Finding> {
        let mut all = Vec::new();
        for (one, route) in of_gateway_api::<HTTPRoute>(sound) {
            let name = one.object_name();
            for (at, parent) in route.spec.parent_refs.iter().enumerate() {
                let Some(refusal) = self.refusal(&route, parent) else { continue };
                let path = match refusal.reason {
                    HOSTNAME => "spec.hostnames".to_owned(),
                    _ => format!("spec.parentRefs[{at}]"),
                };
                all.push(Finding::at(&one.document, &name, &path, Source::Plan).with_advice(refusal));
            }
        }
        all
    }

    /// Returns advice about the routes that the controller makes for a service.
    pub(super) fn of_service(&self, spec: &LLMInferenceServiceSpec, plan: &Plan) -> Vec<Advice> {
        let mut all: Vec<Advice> = Vec::new();
        for route in &plan.children.http_routes {
            for parent in &route.spec.parent_refs {
                let Some(refusal) = self.refusal(route, parent) else { continue };
                let advice = Advice { path: field_of(spec, parent, refusal.reason), ..refusal };
                if !all.contains(&advice) {
                    all.push(advice);
                }
            }
        }
        all
    }

    /// Says why a route does not attach. The path of the field is left to the caller.
    fn refusal(&self, route: &HTTPRoute, parent: &ParentReference) -> Option<Advice> {
        if !parent.is_gateway() {
            return None;
        }
        let own = Namespace::of(&route.metadata);
        let within = parent.namespace.as_deref().map_or(own, Namespace);
        let (gateway, document) = self.gateways.get(&Key::new(within, Name(&parent.name)))?;
        let namespace = self.namespaces.get(own.as_str());
        let Problem { reason, message } = attachment_problem(gateway, namespace, route, parent)?;
        let listeners = gateway.spec.listeners.iter().enumerate();
        let asked: Vec<_> = listeners
            .filter(|(_, listener)| {
                parent.section_name.as_ref().is_none_or(|section| *section == listener.name)
                    && parent.port.is_none_or(|port| port == listener.port)
            })
            .collect();
        let needs_labels =
            reason == NAMESPACE && asked.iter().any(|(_, listener)| from(listener) == "Selector");
        let hint = match (reason, asked.as_slice()) {
            (NAMESPACE, asked) => each(document, asked, |listener| refused(listener, own)),
            (HOSTNAME, asked) => each(document, asked, |listener| {
                format!("has the hostname {}", listener.hostname.as_deref().unwrap_or_default())
            }),
            (_, []) => {
                let all = gateway.spec.listeners.iter().enumerate().collect::<Vec<_>>();
                each(document, &all, |listener| format!("has port {}", listener.port))
            }
            (_, asked) => each(document, asked, of_protocol),
        };
        // Somebody may give the namespace labels with which the route attaches.
        let severity = if needs_labels { Severity::Warning } else { Severity::Error };
        Some(Advice { path: String::new(), severity, reason, message, hint: Some(hint) })
    }
}

/// The objects of a kind of the Gateway API. Istio has a Gateway too, and Linkerd an HTTPRoute.
pub(super) fn of_gateway_api<K: Resource + DeserializeOwned>(
    sound: &[StoredManifest],
) -> impl Iterator<Item = (&StoredManifest, K)> {
    let is_it =
        |one: &&StoredManifest| one.document.kind() == K::KIND && one.document.group() == groups::GATEWAY;
    sound.iter().filter(is_it).filter_map(|one| Some((one, K::deserialize(&one.object).ok()?)))
}

/// The reasons of the Gateway API for routes that listeners do not admit, and for those whose host names they do not have.
const NAMESPACE: &str = "NotAllowedByListeners";
const HOSTNAME: &str = "NoMatchingListenerHostname";

/// Says the same about each of these listeners, with their places.
fn each(document: &Document, listeners: &[(usize, &Listener)], what: impl Fn(&Listener) -> String) -> String {
    let sentences = listeners.iter().map(|(at, listener)| {
        let place = document.place(&format!("spec.listeners[{at}]"));
        format!("listener {} ({place}) {}", listener.name, what(listener))
    });
    sentences.collect::<Vec<_>>().join("; ")
}

fn of_protocol(listener: &Listener) -> String {
    format!("has protocol {}, and HTTPRoutes need HTTP or HTTPS", listener.protocol)
}

/// Says why a listener does not admit a route.
fn refused(listener: &Listener, namespace: Namespace<&str>) -> String {
    if !matches!(listener.protocol.as_str(), "HTTP" | "HTTPS") {
        return of_protocol(listener);
    }
    let kinds = listener.allowed_routes.iter().flat_map(|allowed| &allowed.kinds);
    let kinds: Vec<&str> = kinds.map(|kind| kind.kind.as_str()).collect();
    if !kinds.is_empty() && !kinds.contains(&"HTTPRoute") {
        return format!("admits {} only: add `kind: HTTPRoute` to its allowedRoutes.kinds", kinds.join(", "));
    }
    match from(listener) {
        "Selector" => format!(
            "selects namespaces by labels that Namespace {namespace} does not have: see allowedRoutes.namespaces.selector"
        ),
        "None" => "admits no routes: set its allowedRoutes.namespaces.from to All".to_owned(),
        _ => {
            "admits routes of its own namespace only: set its allowedRoutes.namespaces.from to All, or use a \
              Selector with labels of the namespace"
                .to_owned()
        }
    }
}

fn from(listener: &Listener) -> &str {
    let namespaces = listener.allowed_routes.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
    namespaces.and_then(|namespaces| namespaces.from.as_deref()).unwrap_or("Same")
}

/// Returns the field of a service from which the route has its hostnames or this parent.
fn field_of(spec: &LLMInferenceServiceSpec, parent: &ParentReference, reason: &str) -> String {
    if reason != HOSTNAME {
        let mut refs = spec.gateway_refs().iter();
        let same = |(name, namespace): (&str, &str)| {
            name == parent.name && (namespace.is_empty() || Some(namespace) == parent.namespace.as_deref())
        };
        if let Some(at) = refs.position(|reference| same((&reference.name, &reference.namespace))) {
            return format!("spec.router.gateway.refs[{at}]");
        }
    }
    let field = if reason == HOSTNAME { "hostnames" } else { "parentRefs" };
    format!("spec.router.route.http.spec.{field}")
}
