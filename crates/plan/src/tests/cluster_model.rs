//! A minimal cluster for tests: it stores objects, fills in defaults, and reconciles like the controller.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Secret, Service},
        rbac::v1::{ClusterRoleBinding, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use longboat_api::{
    foreign::{httproute::HTTPRoute, inferencepool::InferencePool, inferencepool_x},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::{ConfigSet, Layer};
use longboat_key::{Key, Name, Namespace};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::composing;
use crate::{
    Applied, CertificateRequest, Child, ChildKind, Children, Compare, ObjectRef, Objects, Peers, Plan,
    Progress, Snapshot, add_peers, types,
};

/// The cluster, with a record of what happened in it.
pub(super) struct ClusterModel {
    pub(super) snapshot: Snapshot,
    pub(super) services: BTreeMap<Key, LLMInferenceService>,
    pub(super) configs: ConfigSet,
    /// The last certificate issued for each secret.
    pub(super) certificates: BTreeMap<String, CertificateRequest>,
    /// All writes of children.
    pub(super) writes: Vec<String>,
    /// The outcome of a proof request for the next reconcile.
    pub(super) proof: Option<crate::proof::Outcome>,
    /// What the next reconcile is told of a download.
    pub(super) download: Option<crate::Download>,
    /// What the next reconcile is told of adapters.
    pub(super) adapters: Vec<crate::PodAdapters>,
    serial: u32,
}

// === impl ClusterModel ===

impl ClusterModel {
    pub(super) fn new(snapshot: Snapshot, configs: ConfigSet) -> Self {
        Self {
            snapshot,
            services: BTreeMap::new(),
            configs,
            certificates: BTreeMap::new(),
            writes: Vec::new(),
            proof: None,
            download: None,
            adapters: Vec::new(),
            serial: 0,
        }
    }

    fn next(&mut self) -> u32 {
        self.serial += 1;
        self.serial
    }

    /// Stores an object like a user would: creates or replaces it. Ignores kinds on which planning does not depend.
    pub(super) fn put(&mut self, mut object: Value, namespace: &str) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let group = object["apiVersion"]
            .as_str()
            .unwrap_or_default()
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if object["metadata"]["namespace"].is_null()
            && !matches!(kind.as_str(), "GatewayClass" | "ClusterRoleBinding" | "LocalModelCache")
        {
            object["metadata"]["namespace"] = namespace.into();
        }
        match (kind.as_str(), group.as_str()) {
            ("LLMInferenceService", _) => {
                default_own_fields(&mut object);
                self.put_service(parse(object));
            }
            ("LLMInferenceServiceConfig", _) => {
                default_own_fields(&mut object);
                let config: LLMInferenceServiceConfig = parse(object);
                self.configs.insert(Layer::new(&config).unwrap());
            }
            ("Secret", _) => {
                let mut secret: Secret = parse(object);
                for (key, text) in secret.string_data.take().into_iter().flatten() {
                    secret
                        .data
                        .get_or_insert_default()
                        .insert(key, k8s_openapi::ByteString(text.into_bytes()));
                }
                self.store(secret);
            }
            ("HTTPRoute", _) => self.store::<HTTPRoute>(parse(object)),
            ("InferencePool", "inference.networking.k8s.io") => self.store::<InferencePool>(parse(object)),
            ("InferencePool", _) => self.store::<inferencepool_x::InferencePool>(parse(object)),
            ("LeaderWorkerSet", _) => self.store::<types::LeaderWorkerSet>(parse(object)),
            ("Deployment", _) => self.store::<Deployment>(parse(object)),
            ("Service", _) => self.store::<Service>(parse(object)),
            ("ServiceAccount", _) => self.store::<k8s_openapi::api::core::v1::ServiceAccount>(parse(object)),
            ("ConfigMap", _) => self.store::<k8s_openapi::api::core::v1::ConfigMap>(parse(object)),
            ("Pod", _) => self.snapshot.pods.insert(Arc::new(parse(object))),
            ("Gateway", _) => self.snapshot.gateways.insert(Arc::new(parse(object))),
            ("GatewayClass", _) => self.snapshot.gateway_classes.insert(Arc::new(parse(object))),
            ("LocalModelCache", _) => self.snapshot.local_model_caches.insert(Arc::new(parse(object))),
            ("LocalModelNamespaceCache", _) => {
                self.snapshot.local_model_namespace_caches.insert(Arc::new(parse(object)));
            }
            _ => {}
        }
    }

    fn put_service(&mut self, mut service: LLMInferenceService) {
        let key = Key::of(&service);
        if let Some(live) = self.services.get(&key) {
            let bump = i64::from(live.spec != service.spec);
            service.metadata.uid.clone_from(&live.metadata.uid);
            service.metadata.generation = live.metadata.generation.map(|generation| generation + bump);
            service.status.clone_from(&live.status);
        } else {
            service.metadata.uid = Some(format!("uid-{}", self.next()));
            service.metadata.generation = Some(1);
        }
        self.services.insert(key, service);
    }

    /// Stores a child or another object of a child's kind, with the server's defaults.
    pub(super) fn store<K: Child + StoreBehavior>(&mut self, mut object: K) {
        object.fill_in(self.serial + 1);
        let metadata = object.metadata().clone();
        let live = K::observed(&self.snapshot)
            .get(Namespace(&metadata.namespace.unwrap_or_default()), Name(&metadata.name.unwrap()))
            .cloned();
        let generation = live
            .as_ref()
            .map_or(1, |live| live.metadata().generation.unwrap_or(1) + i64::from(!object.same_spec(live)));
        if let Some(live) = &live {
            object.keep_status(live);
        }
        let uid = live
            .and_then(|live| live.metadata().uid.clone())
            .unwrap_or_else(|| format!("uid-{}", self.serial + 1));
        let serial = self.next();
        let metadata = object.metadata_mut();
        metadata.uid = Some(uid);
        metadata.generation = Some(generation);
        metadata.resource_version = Some(serial.to_string());
        K::observed_mut(&mut self.snapshot).insert(Arc::new(object));
    }

    /// Deletes an object by kind and name.
    pub(super) fn delete(&mut self, kind: &str, namespace: Namespace<&str>, name: Name<&str>) {
        // A config in use stays, because of its finalizer.
        let used = self.services.values().filter_map(|service| service.status.as_ref()).any(|status| {
            status.applied_configs.iter().any(|config| config.name == *name && config.namespace == *namespace)
        });
        let world = &mut self.snapshot;
        match kind {
            "HTTPRoute" => drop(world.http_routes.remove(namespace, name)),
            "Deployment" => drop(world.deployments.remove(namespace, name)),
            "Service" => drop(world.services.remove(namespace, name)),
            "Secret" => drop(world.secrets.remove(namespace, name)),
            "ServiceAccount" => drop(world.service_accounts.remove(namespace, name)),
            "LLMInferenceServiceConfig" if used => {}
            "LLMInferenceServiceConfig" => self.configs.remove(namespace, name),
            other => panic!("cannot delete a {other}"),
        }
    }

    /// Reconciles all services until nothing changes.
    pub(super) fn settle(&mut self) {
        for _ in 0..12 {
            let writes = self.writes.len();
            let before: Vec<_> = self.services.values().map(|service| service.status.clone()).collect();
            for key in self.services.keys().cloned().collect::<Vec<_>>() {
                self.reconcile(&key);
            }
            let after: Vec<_> = self.services.values().map(|service| service.status.clone()).collect();
            if writes == self.writes.len() && before == after {
                return;
            }
        }
        panic!("did not settle: {:?}", &self.writes[self.writes.len().saturating_sub(12)..]);
    }

    /// One reconcile of one service, as the controller does it.
    fn reconcile(&mut self, key: &Key) {
        let mut service = self.services[key].clone();
        self.snapshot.peers = Peers::default();
        add_peers(&mut self.snapshot.peers, self.services.values());
        let now = self.snapshot.now;
        let pins = composing::pins(&service);
        let composed = composing::compose(self, &service);
        let spec = composed.spec.as_ref();
        let planned = spec.map(|spec| self.plan_and_apply(&service, spec));
        let problem = planned.as_ref().and_then(|(plan, _)| plan.problem.as_ref());
        let nothing = Children::<Applied>::default();
        let applied = planned.as_ref().map_or(&nothing, |(_, applied)| applied);
        let progress = Progress {
            presets: &composed.outcome,
            pins: &pins,
            spec,
            problem,
            proof: self.proof.as_ref(),
            download: self.download.as_ref(),
            adapters: &self.adapters,
        };
        let status = crate::status(&service, progress, applied, &self.snapshot, now);
        service.status = Some(status.unwrap());
        self.services.insert(key.clone(), service);
    }

    fn plan_and_apply(
        &mut self,
        service: &LLMInferenceService,
        spec: &longboat_api::v1alpha2::LLMInferenceServiceSpec,
    ) -> (Plan, Children<Applied>) {
        let mut plan = crate::children(service, spec, &self.snapshot).unwrap();
        assert_eq!(
            plan,
            crate::children(service, spec, &self.snapshot).unwrap(),
            "planning is deterministic"
        );
        for request in &plan.certificates {
            let (certificate, key) = issue(request, self.snapshot.now);
            for secret in &mut plan.children.secrets {
                request.fill(secret, &certificate, &key);
            }
            self.certificates.insert(request.secret.clone(), request.clone());
        }
        for object in &plan.remove {
            self.remove(object);
        }
        let applied = self.apply(&plan.children);
        (plan, applied)
    }

    /// The live children of the only service.
    pub(super) fn live_children(&mut self) -> Children<Applied> {
        let service = self.services.values().next().unwrap().clone();
        let spec = composing::compose(self, &service).spec.unwrap();
        let plan = crate::children(&service, &spec, &self.snapshot).unwrap();
        self.apply(&plan.children)
    }

    fn apply<S>(&mut self, children: &Children<S>) -> Children<Applied> {
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
                let mut applied = Children::<Applied>::default();
                $(self.apply_kind::<types::$kind, S>(children, &mut applied);)*
                applied
            }};
        }
        crate::kinds!(children each)
    }

    fn apply_kind<K: Child + StoreBehavior, S>(
        &mut self,
        children: &Children<S>,
        applied: &mut Children<Applied>,
    ) {
        for desired in K::of(children) {
            let reference = desired.reference();
            let live = K::observed(&self.snapshot)
                .get(reference.key.namespace.as_deref(), reference.key.name.as_deref())
                .cloned();
            let anew = live.as_ref().is_none_or(|live| desired.must_be_recreated(live));
            let write = match &live {
                None => Some(desired.clone()),
                Some(live) if desired.must_be_recreated(live) => {
                    self.writes.push(format!("Deleted {reference}"));
                    K::observed_mut(&mut self.snapshot)
                        .remove(reference.key.namespace.as_deref(), reference.key.name.as_deref());
                    Some(desired.clone())
                }
                Some(live) if desired.differs(live) => {
                    let mut desired = desired.clone();
                    desired.carry_over(live);
                    Some(desired)
                }
                Some(_) => None,
            };
            if let Some(object) = write {
                self.writes.push(format!("{} {reference}", if anew { "Created" } else { "Updated" }));
                self.store(object);
            }
            let stored = K::observed(&self.snapshot)
                .get(reference.key.namespace.as_deref(), reference.key.name.as_deref())
                .cloned();
            K::of_mut(applied).extend(stored);
        }
    }

    fn remove(&mut self, object: &ObjectRef) {
        self.writes.push(format!("Deleted {object}"));
        let ObjectRef { kind, key } = object;
        let world = &mut self.snapshot;
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
                match kind {
                    $(ChildKind::$kind => world.$field.remove(key.namespace.as_deref(), key.name.as_deref()).is_some(),)*
                }
            };
        }
        let found = crate::kinds!(children each);
        assert!(found, "only live objects are removed: {object}");
    }
}

/// The defaults of our own CRDs on which these cases depend.
fn default_own_fields(object: &mut Value) {
    fn default(value: &mut Value, path: &[&str], key: &str, default: Value) {
        let mut place = value;
        for part in path {
            if place.get(part).is_none_or(|below| !below.is_object()) {
                return;
            }
            place = &mut place[part];
        }
        if place[key].is_null() {
            place[key] = default;
        }
    }
    for half in [&["spec"][..], &["spec", "prefill"]] {
        let below = |path: &[&'static str]| [half, path].concat();
        default(object, &below(&["kvCacheOffloading"]), "evictionPolicy", "lru".into());
        default(object, &below(&["scaling"]), "minReplicas", 1.into());
        default(object, &below(&["scaling", "wva"]), "variantCost", "10.0".into());
    }
}

fn parse<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn issue(request: &CertificateRequest, now: Timestamp) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(request.dns_names.clone()).unwrap();
    params
        .subject_alt_names
        .extend(request.addresses.iter().map(|address| rcgen::SanType::IpAddress(*address)));
    assert!(params.not_after.unix_timestamp() > now.as_second(), "the default validity lasts");
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// What the server does when it stores objects of a kind.
pub(super) trait StoreBehavior: Child {
    fn observed_mut(snapshot: &mut Snapshot) -> &mut Objects<Self>;
    fn fill_in(&mut self, _serial: u32) {}
    fn keep_status(&mut self, _live: &Self) {}
    fn same_spec(&self, _live: &Self) -> bool {
        true
    }
}

macro_rules! stored {
    ($($kind:ty, $field:ident $({ $($body:tt)* })?;)*) => {
        $(impl StoreBehavior for $kind {
            fn observed_mut(snapshot: &mut Snapshot) -> &mut Objects<Self> {
                &mut snapshot.$field
            }
            $($($body)*)?
        })*
    };
}

fn account_subjects(subjects: &mut Option<Vec<k8s_openapi::api::rbac::v1::Subject>>) {
    for subject in subjects.iter_mut().flatten() {
        subject.api_group = subject.api_group.take().filter(|group| !group.is_empty());
    }
}

stored! {
    k8s_openapi::api::core::v1::ConfigMap, config_maps;
    Secret, secrets;
    k8s_openapi::api::core::v1::ServiceAccount, service_accounts;
    k8s_openapi::api::rbac::v1::Role, roles;
    RoleBinding, role_bindings { fn fill_in(&mut self, _serial: u32) { account_subjects(&mut self.subjects); } };
    ClusterRoleBinding, cluster_role_bindings { fn fill_in(&mut self, _serial: u32) { account_subjects(&mut self.subjects); } };
    Deployment, deployments {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
        fn keep_status(&mut self, live: &Self) { self.status.clone_from(&live.status); }
        fn same_spec(&self, live: &Self) -> bool { self.spec == live.spec }
    };
    Service, services {
        fn fill_in(&mut self, serial: u32) {
            self.fill_in_defaults();
            let spec = self.spec.get_or_insert_default();
            let address = spec.cluster_ip.get_or_insert_with(|| format!("10.96.{}.{}", serial / 200, serial % 200 + 1)).clone();
            spec.cluster_ips.get_or_insert_with(|| vec![address]);
            spec.ip_families.get_or_insert_with(|| vec!["IPv4".into()]);
            spec.ip_family_policy.get_or_insert_with(|| "SingleStack".into());
        }
    };
    types::PodDisruptionBudget, pod_disruption_budgets;
    types::NetworkPolicy, network_policies;
    types::HorizontalPodAutoscaler, horizontal_pod_autoscalers {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
        fn keep_status(&mut self, live: &Self) { self.status.clone_from(&live.status); }
    };
    types::ScaledObject, scaled_objects {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
        fn keep_status(&mut self, live: &Self) { self.status.clone_from(&live.status); }
    };
    types::LeaderWorkerSet, leader_worker_sets {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
        fn keep_status(&mut self, live: &Self) { self.status.clone_from(&live.status); }
        fn same_spec(&self, live: &Self) -> bool { self.spec == live.spec }
    };
    types::ResourceClaimTemplate, resource_claim_templates {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
    };
    InferencePool, inference_pools {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
        fn keep_status(&mut self, live: &Self) { self.status.clone_from(&live.status); }
        fn same_spec(&self, live: &Self) -> bool { self.spec == live.spec }
    };
    inferencepool_x::InferencePool, inference_pools_x {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
        fn keep_status(&mut self, live: &Self) { self.status.clone_from(&live.status); }
        fn same_spec(&self, live: &Self) -> bool { self.spec == live.spec }
    };
    HTTPRoute, http_routes {
        fn fill_in(&mut self, _serial: u32) { self.fill_in_defaults(); }
        fn keep_status(&mut self, live: &Self) { self.status.clone_from(&live.status); }
        fn same_spec(&self, live: &Self) -> bool { self.spec == live.spec }
    };
}

impl ClusterModel {
    /// The children in a namespace, by the names of their files in the recordings.
    pub(super) fn children(&self, namespace: &str, found: &mut BTreeMap<String, Value>) {
        fn of<K: Child + serde::Serialize>(
            world: &ClusterModel,
            namespace: &str,
            kind: &str,
            found: &mut BTreeMap<String, Value>,
        ) {
            for object in K::observed(&world.snapshot).in_namespace(Namespace(namespace)) {
                if is_child(object.metadata()) {
                    let name = object.metadata().name.as_deref().unwrap_or_default();
                    found.insert(format!("{kind}-{name}.yaml"), serde_json::to_value(object).unwrap());
                }
            }
        }
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
                $(of::<types::$kind>(self, namespace, &file_prefix(stringify!($kind)), found);)*
            };
        }
        crate::kinds!(children each);
        of::<ClusterRoleBinding>(self, "", "clusterrolebinding", found);
    }
}

/// The name of a kind in the file names of recordings.
fn file_prefix(kind: &str) -> String {
    if kind == "InferencePoolX" { "inferencepool.x-k8s.io".to_owned() } else { kind.to_lowercase() }
}

/// Whether an object is a child. Inputs have no owner, and not the name of a child without an owner either.
fn is_child(metadata: &ObjectMeta) -> bool {
    let name = metadata.name.as_deref().unwrap_or_default();
    let unowned =
        name.ends_with("-epp-auth-rb") || name == "global-ca-bundle" || metadata.namespace.is_none();
    unowned || metadata.owner_references.is_some()
}
