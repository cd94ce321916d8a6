//! The objects that the gateway watches.

use std::{
    collections::{BTreeMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{self, ConfigMap, Container, Pod, PodSpec, Probe, Secret, Service, ServicePort},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use longboat_api::{
    foreign::{
        backendtlspolicy::BackendTLSPolicy, gateway::Gateway, gatewayclass::GatewayClass,
        httproute::HTTPRoute, inferencepool::InferencePool, leaderworkerset::LeaderWorkerSet,
        listenerset::ListenerSet, referencegrant::ReferenceGrant, scaledobject::ScaledObject,
    },
    labels::{NAME, PART_OF, PART_OF_VALUE, ROLE, role},
    shared_picker::SERVICE_NAME,
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Key, Name, Namespace};

/// The input for routing and status.
#[derive(Debug, Clone, Default)]
pub struct RoutingInputs {
    /// GatewayClasses of any controller.
    pub classes: Vec<Arc<GatewayClass>>,
    /// Gateways of any class.
    pub gateways: Vec<Arc<Gateway>>,
    /// Listeners that are added to Gateways.
    pub listener_sets: Vec<Arc<ListenerSet>>,
    /// Permissions to refer to objects of other namespaces.
    pub grants: Vec<Arc<ReferenceGrant>>,
    /// Secrets with certificates.
    pub secrets: Vec<Arc<Secret>>,
    /// The last usable versions of those of them that cannot be used as they are.
    pub former_secrets: Vec<Arc<Secret>>,
    /// Secrets with API keys, of which only the hashes are here.
    pub api_keys: Vec<Arc<Secret>>,
    /// How to connect to Services with TLS.
    pub tls_policies: Vec<Arc<BackendTLSPolicy>>,
    /// ConfigMaps, some of which have CA certificates for such connections.
    pub config_maps: Vec<Arc<ConfigMap>>,
    /// HTTPRoutes.
    pub routes: Vec<Arc<HTTPRoute>>,
    /// InferencePools of the v1 group.
    pub pools: Vec<Arc<InferencePool>>,
    /// Namespaces, for listeners that select routes by namespace label.
    pub namespaces: Vec<Arc<v1::Namespace>>,
    /// Services.
    pub services: Vec<Arc<Service>>,
    /// The EndpointSlices of the Services.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Pods. The ready ones are the endpoints of a pool when no picker can be called.
    pub pods: Vec<Arc<Pod>>,
    /// LLMInferenceServices, for requests that name a model and no service.
    pub inference: Vec<Arc<LLMInferenceService>>,
    /// Workloads, for requests that wait until one is scaled up from zero.
    pub deployments: Vec<Arc<Deployment>>,
    /// The same for groups of pods.
    pub leader_worker_sets: Vec<Arc<LeaderWorkerSet>>,
    /// What scales workloads.
    pub autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
    /// What KEDA scales.
    pub scaled_objects: Vec<Arc<ScaledObject>>,
}

/// Whether an object with this metadata has that key.
pub(crate) fn has_key(metadata: &ObjectMeta, key: &Key) -> bool {
    Namespace::of(metadata) == key.namespace.as_deref() && Name::of(metadata) == key.name.as_deref()
}

// === impl RoutingInputs ===

impl RoutingInputs {
    /// Returns a port of a Service, or `None` if the Service or the port does not exist.
    pub(crate) fn service_port(&self, name: &Key, port: i32) -> Option<&ServicePort> {
        let service = self.services.iter().find(|service| has_key(&service.metadata, name))?;
        let ports = service.spec.as_ref()?.ports.as_deref()?;
        ports.iter().find(|candidate| candidate.port == port)
    }

    /// Returns the ready addresses behind a port of a Service, or `None` if the Service or the port does not exist.
    pub(crate) fn service_endpoints(&self, name: &Key, port: i32) -> Option<Vec<SocketAddr>> {
        let service_port = self.service_port(name, port)?;
        let mut endpoints = Vec::new();
        for slice in self.slices.iter().filter(|slice| owned_by(slice, name)) {
            let number = slice.ports.iter().flatten().find(|candidate| {
                candidate.name.as_deref().unwrap_or_default()
                    == service_port.name.as_deref().unwrap_or_default()
            });
            let Some(number) = number.and_then(|port| port.port).and_then(|port| u16::try_from(port).ok())
            else {
                continue;
            };
            for endpoint in &slice.endpoints {
                // As the API says, an unknown state means ready.
                if endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false)) {
                    endpoints.extend(
                        endpoint
                            .addresses
                            .iter()
                            .filter_map(|ip| Some(SocketAddr::new(ip.parse().ok()?, number))),
                    );
                }
            }
        }
        // While slices are rewritten, an endpoint may be in two of them.
        endpoints.sort_unstable();
        endpoints.dedup();
        Some(endpoints)
    }

    /// Returns the addresses of a pool's ready pods, on its first port. Prefill pods are included only if there are no other
    /// pods: a direct request would take their time from requests that a picker sends to them.
    pub(crate) fn pool_endpoints(&self, pool: &InferencePool) -> Vec<SocketAddr> {
        let Some(port) = pool.spec.target_ports.first().and_then(|port| u16::try_from(port.number).ok())
        else {
            return Vec::new();
        };
        let (prefill, mut serving): (Vec<_>, Vec<_>) =
            self.ready_pods(pool).partition(|pod| is_prefill(pod.metadata.labels.as_ref()));
        if serving.is_empty() {
            serving = prefill;
        }
        let address =
            |pod: &Arc<Pod>| Some(SocketAddr::new(pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?, port));
        let mut endpoints: Vec<_> = serving.into_iter().filter_map(address).collect();
        endpoints.sort_unstable();
        endpoints
    }

    /// Returns the addresses of a pool's pods that serve TLS on a port of the pool. An InferencePool has no field for this, but
    /// the probes of its pods go to the same port. Reads what [`only_tls_probes`] leaves of a pod.
    pub(crate) fn pool_tls_endpoints(&self, pool: &InferencePool) -> HashSet<SocketAddr> {
        let served = |port: &i32| pool.spec.target_ports.iter().any(|target| target.number == *port);
        let of_pod = |pod: &Arc<Pod>| {
            let ip: IpAddr = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
            let ports = tls_ports(pod.spec.as_ref()?).filter(served);
            let address = |port| Some(SocketAddr::new(ip, u16::try_from(port).ok()?));
            Some(ports.filter_map(address).collect::<Vec<_>>())
        };
        self.pods_of(pool).filter_map(of_pod).flatten().collect()
    }

    /// Whether a pod of the pool is ready that answers requests itself.
    pub(crate) fn has_serving_pod(&self, pool: &InferencePool) -> bool {
        self.ready_pods(pool).any(|pod| !is_prefill(pod.metadata.labels.as_ref()))
    }

    fn ready_pods(&self, pool: &InferencePool) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods_of(pool).filter(|pod| ready(pod))
    }

    fn pods_of(&self, pool: &InferencePool) -> impl Iterator<Item = &Arc<Pod>> {
        let selector = &pool.spec.selector.match_labels;
        self.pods
            .iter()
            .filter(|pod| pod.metadata.namespace == pool.metadata.namespace)
            .filter(|pod| selects(selector, pod.metadata.labels.as_ref()))
    }
}

/// Returns what [`RoutingInputs::pool_tls_endpoints`] reads of a pod, or `None` if its probes call no port with TLS.
pub(crate) fn only_tls_probes(spec: PodSpec) -> Option<PodSpec> {
    tls_ports(&spec).next()?;
    let all = spec.containers.into_iter().chain(spec.init_containers.into_iter().flatten());
    let containers = all
        .map(|container| Container {
            name: container.name,
            ports: container.ports,
            readiness_probe: container.readiness_probe,
            liveness_probe: container.liveness_probe,
            startup_probe: container.startup_probe,
            ..Container::default()
        })
        .collect();
    Some(PodSpec { containers, ..PodSpec::default() })
}

/// Returns the ports that the probes of a pod call with TLS. A liveness probe may not have run yet, so where probes disagree about
/// a port, also those of two containers, those that made the pod ready are right.
fn tls_ports(spec: &PodSpec) -> impl Iterator<Item = i32> {
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let probes: [fn(&Container) -> Option<&Probe>; 3] = [
        |container| container.readiness_probe.as_ref(),
        |container| container.startup_probe.as_ref(),
        |container| container.liveness_probe.as_ref(),
    ];
    let all =
        probes.into_iter().flat_map(|probe| containers().map(move |container| (container, probe(container))));
    let mut schemes = BTreeMap::new();
    for (container, probe) in all {
        let Some(call) = probe.and_then(|probe| probe.http_get.as_ref()) else { continue };
        let port = match &call.port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let port = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
                port.map(|port| port.container_port)
            }
        };
        if let Some(port) = port {
            schemes.entry(port).or_insert(call.scheme.as_deref());
        }
    }
    schemes.into_iter().filter(|(_, scheme)| *scheme == Some("HTTPS")).map(|(port, _)| port)
}

/// Whether pods with these labels only run prefill for other pods.
pub(crate) fn is_prefill(labels: Option<&BTreeMap<String, String>>) -> bool {
    labels.and_then(|labels| labels.get(ROLE)).is_some_and(|value| value == role::PREFILL)
}

/// Returns the LLMInferenceService to which an object belongs.
pub(crate) fn service_of(metadata: &ObjectMeta) -> Option<Key> {
    let labels = metadata.labels.as_ref()?;
    labels.get(PART_OF).filter(|value| *value == PART_OF_VALUE)?;
    Some(Key::new(Namespace::of(metadata), Name(labels.get(NAME)?)))
}

fn owned_by(slice: &EndpointSlice, service: &Key) -> bool {
    let label = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
    Namespace::of(&slice.metadata) == service.namespace.as_deref()
        && label.is_some_and(|label| **label == *service.name)
}

/// Whether labels satisfy an exact-match selector. An empty selector selects nothing, so that a pool without a selector does
/// not select all pods of its namespace.
pub(crate) fn selects(
    selector: &BTreeMap<String, String>,
    labels: Option<&BTreeMap<String, String>>,
) -> bool {
    !selector.is_empty()
        && selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

fn ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod.status.as_ref().and_then(|status| status.conditions.as_ref()).is_some_and(|list| {
            list.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
}
