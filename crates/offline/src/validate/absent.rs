//! Notes about objects that manifests refer to and do not contain. The cluster may have them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;
use longboat_api::{
    annotations,
    foreign::{
        gateway::Gateway, httproute::HTTPRoute, httproute_filter::HTTPRouteFilter,
        reference::BackendObjectReference,
    },
    groups,
    v1alpha2::{KedaTrigger, LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_key::{Key, Name, Namespace, nearest};
use longboat_manifest::Document;
use longboat_plan::names;
use serde::Deserialize;

use crate::{
    assume::secrets::DEFAULT_ACCOUNT,
    finding::{Finding, ObjectName, Source},
    objects,
    pods::{needed_objects, templates},
    scene::PlannedService,
};

/// The ConfigMap that every namespace has.
const CLUSTER_CERTIFICATES: &str = "kube-root-ca.crt";

/// The objects in the manifests, by kind, namespace and name.
#[derive(Default)]
pub(super) struct ManifestObjects(BTreeSet<(String, Key)>);

/// The objects that one service needs, by kind.
struct RequiredObjects(BTreeSet<(&'static str, Key)>);

/// Returns the back end that a filter sends copies of requests to.
fn mirror(filter: &HTTPRouteFilter) -> Option<BackendObjectReference> {
    BackendObjectReference::deserialize(filter.others.get("requestMirror")?.get("backendRef")?).ok()
}

// === impl ManifestObjects ===

impl ManifestObjects {
    pub(super) fn add(&mut self, name: &ObjectName) {
        let key = Key::new(Namespace(&*name.namespace), Name(&*name.name));
        self.0.insert((name.kind.clone(), key));
    }

    pub(super) fn contains(&self, kind: &str, key: &Key) -> bool {
        self.0.contains(&(kind.to_owned(), key.clone()))
    }

    /// The objects of this kind.
    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Key> {
        self.0.iter().filter(move |(given, _)| given == kind).map(|(_, key)| key)
    }

    /// Whether the manifests have an object of this kind in this namespace.
    pub(super) fn has_any(&self, kind: &str, namespace: Namespace<&str>) -> bool {
        self.0.iter().any(|(given, key)| given == kind && key.namespace.as_deref() == namespace)
    }

    /// Returns one note for all objects that a planned service needs and that neither the manifests have nor the controller makes.
    pub(super) fn note(
        &self,
        document: &Document,
        service: &LLMInferenceService,
        planned: &PlannedService,
        known: &[Finding],
    ) -> Option<Finding> {
        // A stopped service needs nothing.
        let is_stopped = annotations::is_stopped(service.metadata.annotations.as_ref());
        let effective = planned.effective.as_ref().filter(|_| !is_stopped)?;
        let namespace = Namespace::of(&service.metadata);
        let made = planned.plan.children.references().map(|child| (objects::kind_of(child.kind), child.key));
        let made: BTreeSet<(&str, Key)> = made.collect();
        let mut needed = RequiredObjects(BTreeSet::new());
        needed.of_router(namespace, &effective.spec, &planned.snapshot.platform.ingress.gateway);
        for route in &planned.plan.children.http_routes {
            needed.of_route(Namespace::of(&route.metadata), route);
        }
        for pod in templates(&planned.plan.children).filter_map(|template| template.spec.as_ref()) {
            needed.of_pod(namespace, pod);
        }
        let scaled = &planned.plan.children.scaled_objects;
        scaled
            .iter()
            .flat_map(|one| &one.spec.triggers)
            .for_each(|trigger| needed.of_trigger(namespace, trigger));
        // A plan that stopped at a problem lacks children that later steps would add.
        let name = Name::of(&service.metadata);
        let unplanned = [("Service", names::scheduler_service(name)), ("InferencePool", names::pool(name))];
        let is_unplanned = |kind: &'static str, key: &Key| {
            planned.plan.problem.is_some()
                && key.namespace.as_deref() == namespace
                && unplanned.iter().any(|(of_kind, name)| (*of_kind, &**name) == (kind, &*key.name))
        };
        let is_told = |text: &str| known.iter().any(|finding| finding.message.starts_with(text));
        let is_known = |kind: &'static str, key: &Key| {
            made.contains(&(kind, key.clone()))
                || is_unplanned(kind, key)
                || is_told(&format!("{kind} {key}"))
        };
        self.note_of(document, &ObjectName::of(document, namespace), needed, is_known)
    }

    /// Returns one note for all Gateways and back ends of a route that neither the manifests have nor, as `is_made` says, services
    /// make.
    pub(super) fn note_of_route(
        &self,
        document: &Document,
        name: &ObjectName,
        route: &HTTPRoute,
        is_made: impl Fn(&'static str, &Key) -> bool,
    ) -> Option<Finding> {
        let mut needed = RequiredObjects(BTreeSet::new());
        needed.of_parents(Namespace(&*name.namespace), route);
        needed.of_route(Namespace(&*name.namespace), route);
        self.note_of(document, name, needed, is_made)
    }

    /// Returns one note for all Secrets and ConfigMaps that a Gateway names and the manifests do not have.
    pub(super) fn note_of_gateway(
        &self,
        document: &Document,
        name: &ObjectName,
        gateway: &Gateway,
    ) -> Option<Finding> {
        let mut needed = RequiredObjects(BTreeSet::new());
        needed.of_gateway(Namespace(&*name.namespace), gateway);
        self.note_of(document, name, needed, |_, _| false)
    }

    fn note_of(
        &self,
        document: &Document,
        name: &ObjectName,
        needed: RequiredObjects,
        is_known: impl Fn(&'static str, &Key) -> bool,
    ) -> Option<Finding> {
        let missing =
            needed.0.into_iter().filter(|(kind, key)| !self.contains(kind, key) && !is_known(kind, key));
        let missing: Vec<String> = missing.map(|(kind, key)| format!("{kind} {key}")).collect();
        (!missing.is_empty()).then(|| {
            let message = format!("refers to objects that are not in these files: {}", missing.join(", "));
            let finding = Finding::at(document, name, "spec", Source::Plan);
            finding.note("NotInTheseFiles", message).with_hint("they must exist on the cluster")
        })
    }

    /// Returns a note if an object that pickers read names a pool that the manifests do not have.
    pub(super) fn note_of_pool(&self, document: &Document, name: &ObjectName) -> Option<Finding> {
        let group = document.group();
        if !groups::PICKER.contains(&group)
            || !["InferenceObjective", "InferenceModelRewrite"].contains(&document.kind())
        {
            return None;
        }
        let pool = document.text("/spec/poolRef/name");
        let near = self.0.iter().filter(|(_, key)| *key.namespace == *name.namespace);
        let pools: Vec<String> = near
            .filter_map(|(kind, key)| match kind.as_str() {
                "InferencePool" => Some(key.name.to_string()),
                "LLMInferenceService" => Some(names::pool(key.name.as_deref())),
                _ => None,
            })
            .collect();
        if pool.is_empty() || pools.iter().any(|known| known == pool) {
            return None;
        }
        let message = format!("InferencePool {}/{pool} is not in these files", name.namespace);
        let finding = Finding::at(document, name, "spec.poolRef.name", Source::Plan);
        let hint = match nearest(pools.iter().map(String::as_str), pool) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "it must exist on the cluster".to_owned(),
        };
        Some(finding.note("NotInTheseFiles", message).with_hint(hint))
    }
}

// === impl RequiredObjects ===

impl RequiredObjects {
    fn add(&mut self, kind: &'static str, namespace: Namespace<&str>, name: &str) {
        if !name.is_empty() {
            self.0.insert((kind, Key::new(namespace, Name(name))));
        }
    }

    fn of_router(&mut self, namespace: Namespace<&str>, spec: &LLMInferenceServiceSpec, platform: &Key) {
        for reference in spec.gateway_refs() {
            let within =
                if reference.namespace.is_empty() { namespace } else { Namespace(&*reference.namespace) };
            self.add("Gateway", within, &reference.name);
        }
        let own = spec.route().and_then(|route| route.http.as_ref()?.spec.as_ref());
        for parent in own.iter().flat_map(|route| &route.parent_refs) {
            let within = parent.namespace.as_deref().map_or(namespace, Namespace);
            // The presets name the platform's.
            let is_platform = Key::new(within, Name(&parent.name)) == *platform;
            if !is_platform && parent.is_gateway() {
                self.add("Gateway", within, &parent.name);
            }
        }
        for reference in spec.route().iter().flat_map(|route| route.refs()) {
            self.add("HTTPRoute", namespace, &reference.name);
        }
        let pool = spec.scheduler().and_then(|scheduler| scheduler.pool.as_ref());
        if let Some(reference) = pool.and_then(|pool| pool.ref_.as_ref()) {
            self.add("InferencePool", namespace, &reference.name);
        }
        let picker = pool.and_then(|pool| pool.spec.as_ref()).map(|pool| &pool.endpoint_picker_ref);
        if let Some(picker) = picker.filter(|picker| !picker.name.is_empty()) {
            self.add("Service", namespace, &picker.name);
        }
    }

    fn of_parents(&mut self, namespace: Namespace<&str>, route: &HTTPRoute) {
        for parent in route.spec.parent_refs.iter().filter(|parent| parent.is_gateway()) {
            self.add("Gateway", parent.namespace.as_deref().map_or(namespace, Namespace), &parent.name);
        }
    }

    fn of_trigger(&mut self, namespace: Namespace<&str>, trigger: &KedaTrigger) {
        match &trigger.authentication_ref {
            Some(one) if one.kind == "ClusterTriggerAuthentication" => {
                self.add("ClusterTriggerAuthentication", Namespace(""), &one.name);
            }
            Some(one) => self.add("TriggerAuthentication", namespace, &one.name),
            None => {}
        }
    }

    fn of_route(&mut self, namespace: Namespace<&str>, route: &HTTPRoute) {
        for rule in &route.spec.rules {
            let of_backends = rule.backend_refs.iter().flat_map(|reference| &reference.filters);
            let mirrors = rule.filters.iter().chain(of_backends).filter_map(mirror);
            for backend in mirrors.chain(rule.backend_refs.iter().map(|reference| reference.backend.clone()))
            {
                let kind = match backend.kind.as_deref() {
                    None | Some("Service") => "Service",
                    Some("InferencePool") => "InferencePool",
                    Some(_) => continue,
                };
                self.add(kind, backend.namespace.as_deref().map_or(namespace, Namespace), &backend.name);
            }
        }
    }

    fn of_gateway(&mut self, namespace: Namespace<&str>, gateway: &Gateway) {
        let spec = &gateway.spec;
        let certificates = spec.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        let certificates = certificates.flat_map(|tls| &tls.certificate_refs);
        let own = spec.tls.iter().filter_map(|tls| tls.backend.as_ref()?.client_certificate_ref.as_ref());
        let frontends = spec.tls.iter().filter_map(|tls| tls.frontend.as_ref());
        let frontends = frontends.flat_map(|frontend| {
            std::iter::once(&frontend.default).chain(frontend.per_port.iter().map(|port| &port.tls))
        });
        let authorities = frontends.filter_map(|config| config.validation.as_ref());
        let authorities = authorities.flat_map(|validation| &validation.ca_certificate_refs);
        for reference in certificates.chain(own).chain(authorities) {
            let kind = match (reference.group.as_deref().unwrap_or_default(), reference.kind.as_deref()) {
                ("", None | Some("Secret")) => "Secret",
                ("", Some("ConfigMap")) => "ConfigMap",
                _ => continue,
            };
            self.add(kind, reference.namespace.as_deref().map_or(namespace, Namespace), &reference.name);
        }
        let parameters = spec.infrastructure.iter().filter_map(|all| all.parameters_ref.as_ref());
        for reference in parameters.filter(|one| (&*one.group, &*one.kind) == ("", "ConfigMap")) {
            self.add("ConfigMap", namespace, &reference.name);
        }
    }

    fn of_pod(&mut self, namespace: Namespace<&str>, pod: &PodSpec) {
        let account = pod.service_account_name.as_deref().unwrap_or(DEFAULT_ACCOUNT);
        if account != DEFAULT_ACCOUNT {
            self.add("ServiceAccount", namespace, account);
        }
        // Every cluster has the classes of the system.
        let priority = pod.priority_class_name.as_deref().filter(|name| !name.starts_with("system-"));
        self.add("PriorityClass", Namespace(""), priority.unwrap_or_default());
        self.add("RuntimeClass", Namespace(""), pod.runtime_class_name.as_deref().unwrap_or_default());
        for volume in pod.volumes.iter().flatten() {
            if let Some(claim) = &volume.persistent_volume_claim {
                self.add("PersistentVolumeClaim", namespace, &claim.claim_name);
            }
        }
        for object in needed_objects("", pod) {
            if (object.kind, object.name) != ("ConfigMap", CLUSTER_CERTIFICATES) {
                self.add(object.kind, namespace, object.name);
            }
        }
    }
}
