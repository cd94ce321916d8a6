//! EndpointSlices: the addresses of the pods behind a Service.
//!
//! Kubernetes: pkg/controller/endpointslice. The port names of a Service may resolve to different port numbers on different
//! pods. A Service has one slice for each such set of port numbers, which is nearly always one. The names of slices are
//! derived from these numbers, not random: the controller finds them after a restart, and a slice keeps its pods whatever
//! other pods there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use longboat_api::shared_picker::{MANAGED_BY, SERVICE_NAME};
use longboat_key::{Key, Name, Namespace};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::owners::control_by;
use super::pods::{has_ended, ready_since};
use super::queue::{self, Again, Reconcile, triggers};
use super::selector;
use super::setup::Caches;
use super::writes::{merge, tolerate};

const MANAGER: &str = "endpointslice-controller.k8s.io";

struct Slices {
    client: Client,
    caches: Caches,
}

pub(super) async fn run(client: Client, caches: Caches, cancel: CancellationToken) {
    let slices = triggers(&caches.slices, |slice: &EndpointSlice| {
        is_ours(slice).then(|| {
            let service = slice.labels().get(SERVICE_NAME).map(String::as_str).unwrap_or_default();
            Key::new(Namespace::of(&slice.metadata), Name(service))
        })
    });
    let all = caches.services.clone();
    let pods = triggers(&caches.pods, move |pod: &Pod| {
        let namespace = pod.metadata.namespace.clone();
        let mut services = all.all();
        services.retain(|service| service.metadata.namespace == namespace && selects(service, pod));
        services.iter().map(|service| Key::of(service.as_ref())).collect::<Vec<_>>()
    });
    caches.pods.ready().await;
    caches.slices.ready().await;
    let services = caches.services.clone();
    queue::run(Slices { client, caches }, services, stream::select(slices, pods), cancel).await;
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
}

fn selects(service: &Service, pod: &Pod) -> bool {
    let spec = service.spec.as_ref();
    selector::matches(spec.and_then(|spec| spec.selector.as_ref()), pod.metadata.labels.as_ref())
}

impl Reconcile<Service> for Slices {
    const NAME: &'static str = "endpointslice";

    // A deleted Service, or one without a selector, has no slices. The garbage collector deletes the slices that it owned.
    async fn reconcile(&mut self, key: &Key, service: &Service) -> Again {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &key.namespace);
        let mut existing = self.caches.slices.all();
        existing.retain(|slice| {
            is_ours(slice)
                && slice.metadata.namespace.as_deref() == Some(&key.namespace)
                && slice.labels().get(SERVICE_NAME).map(String::as_str) == Some(&key.name)
        });
        let wanted = desired(service, &self.caches.pods.all());
        for slice in &wanted {
            let name = slice.name_any();
            match existing.iter().find(|live| live.name_any() == name) {
                // If it exists, the cache is behind; its next change triggers another reconcile.
                None => {
                    tolerate(api.create(&PostParams::default(), slice).await, &[409])?;
                }
                Some(live) if !same(live, slice) => {
                    let patch = json!({
                        "metadata": {"labels": slice.metadata.labels, "ownerReferences": slice.metadata.owner_references,
                            "resourceVersion": live.metadata.resource_version},
                        "endpoints": slice.endpoints,
                        "ports": slice.ports,
                    });
                    merge(&api, &name, patch).await?;
                }
                Some(_) => {}
            }
        }
        for live in existing {
            if !wanted.iter().any(|slice| slice.name_any() == live.name_any()) {
                tolerate(api.delete(&live.name_any(), &DeleteParams::default()).await, &[404])?;
            }
        }
        Ok(None)
    }
}

/// Whether a live slice has the desired content. Labels that others have added do not count.
fn same(live: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    live.endpoints == wanted.endpoints
        && live.ports.iter().flatten().eq(wanted.ports.iter().flatten())
        && live.metadata.owner_references == wanted.metadata.owner_references
        && wanted.labels().iter().all(|(key, value)| live.labels().get(key) == Some(value))
}

/// Returns the desired slices of a Service.
fn desired(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSlice> {
    let spec = service.spec.clone().unwrap_or_default();
    if spec.selector.as_ref().is_none_or(BTreeMap::is_empty) || spec.type_.as_deref() == Some("ExternalName")
    {
        return Vec::new();
    }
    let mut groups: Vec<(Vec<EndpointPort>, Vec<Endpoint>)> = Vec::new();
    let mut selected: Vec<_> = pods
        .iter()
        .filter(|pod| pod.metadata.namespace == service.metadata.namespace && selects(service, pod))
        .collect();
    selected.sort_by_key(|pod| pod.name_any());
    for pod in selected {
        let Some(endpoint) = endpoint(service, pod) else { continue };
        let ports = ports(service, pod);
        match groups.iter_mut().find(|(known, _)| *known == ports) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => groups.push((ports, vec![endpoint])),
        }
    }
    if groups.is_empty() {
        groups.push((Vec::new(), Vec::new()));
    }
    groups.into_iter().map(|(ports, endpoints)| slice(service, ports, endpoints)).collect()
}

fn slice(service: &Service, ports: Vec<EndpointPort>, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let name = service.name_any();
    let digest = Sha256::digest(json!([service.uid(), ports]).to_string());
    let suffix = format!("{digest:x}");
    let mut labels: BTreeMap<_, _> = service.labels().clone();
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert("service.kubernetes.io/headless".to_owned(), String::new());
    }
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{}", &suffix[..5])),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![control_by(service)]),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".to_owned(),
        endpoints,
        ports: Some(ports),
    }
}

fn endpoint(service: &Service, pod: &Pod) -> Option<Endpoint> {
    let status = pod.status.as_ref()?;
    if has_ended(pod) {
        return None;
    }
    let ip = status.pod_ip.clone().filter(|ip| !ip.is_empty())?;
    let publish_all = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let serving = ready_since(pod).is_some();
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let spec = pod.spec.as_ref();
    let target = ObjectReference { api_version: None, ..pod.object_ref(&()) };
    Some(Endpoint {
        addresses: vec![ip],
        conditions: Some(EndpointConditions {
            ready: Some(publish_all || serving && !terminating),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        // The name counts only within the subdomain, which is the Service that the pod names.
        hostname: spec
            .filter(|spec| spec.subdomain == service.metadata.name)
            .and_then(|spec| spec.hostname.clone()),
        node_name: spec.and_then(|spec| spec.node_name.clone()),
        target_ref: Some(target),
        ..Endpoint::default()
    })
}

/// Returns the Service's ports with their numbers on this pod. Omits a port whose name the pod does not have.
fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let spec = service.spec.as_ref();
    let ports = spec.into_iter().flat_map(|spec| spec.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = match &port.target_port {
                None | Some(IntOrString::Int(0)) => Some(port.port),
                Some(IntOrString::Int(number)) => Some(*number),
                Some(IntOrString::String(name)) => named_port(pod, name),
            };
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(number?),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn named_port(pod: &Pod, name: &str) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let mut ports =
        spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> Service {
        serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "ns", "uid": "u", "labels": {"l": "1"}},
            "spec": {"selector": {"app": "x"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "m", "port": 9090}]}}))
        .unwrap()
    }

    fn pod(name: &str, ready: bool, port: i32) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "x"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": format!("127.64.0.{port}"),
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}}))
            .unwrap(),
        )
    }

    #[test]
    fn a_service_has_its_pods_with_resolved_ports() {
        let pods = [pod("b", true, 8), pod("a", false, 8), pod("c", true, 9)];
        let slices = desired(&service(), &pods);
        assert_eq!(slices.len(), 2, "one slice for each resolution of the port names");
        let first = &slices[0];
        assert_eq!(first.labels()[SERVICE_NAME], "s");
        assert_eq!(first.labels()["l"], "1");
        let seen: Vec<_> = first
            .endpoints
            .iter()
            .map(|endpoint| {
                let target = endpoint.target_ref.as_ref().unwrap().name.clone().unwrap();
                (target, endpoint.conditions.as_ref().unwrap().ready.unwrap())
            })
            .collect();
        assert_eq!(seen, [("a".to_owned(), false), ("b".to_owned(), true)]);
        let ports: Vec<_> =
            first.ports.iter().flatten().map(|port| (port.name.as_deref(), port.port)).collect();
        assert_eq!(ports, [(Some("http"), Some(8)), (Some("m"), Some(9090))]);
        assert_eq!(desired(&service(), &pods), slices, "names are stable");
    }

    #[test]
    fn a_slice_keeps_its_pods_when_another_pod_resolves_ports_differently() {
        let before = desired(&service(), &[pod("b", true, 8)]);
        let after = desired(&service(), &[pod("a", true, 9), pod("b", true, 8)]);
        assert_eq!(after.len(), 2);
        assert!(after.contains(&before[0]));
    }

    #[test]
    fn a_published_pod_that_is_not_ready_serves_not_and_its_hostname_is_for_its_subdomain() {
        let mut all = service();
        all.spec.as_mut().unwrap().publish_not_ready_addresses = Some(true);
        let mut named = (*pod("a", false, 8)).clone();
        named.spec.as_mut().unwrap().hostname = Some("h".into());
        let first = |pod: &Pod| desired(&all, &[Arc::new(pod.clone())])[0].endpoints[0].clone();
        let endpoint = first(&named);
        let conditions = endpoint.conditions.unwrap();
        assert_eq!((conditions.ready, conditions.serving), (Some(true), Some(false)));
        assert_eq!(endpoint.hostname, None);
        named.spec.as_mut().unwrap().subdomain = Some("s".into());
        assert_eq!(first(&named).hostname.as_deref(), Some("h"));
    }

    #[test]
    fn a_pod_that_terminates_serves_but_is_not_ready() {
        let mut leaving = (*pod("a", true, 8)).clone();
        leaving.metadata.deletion_timestamp = Some(crate::controllers::writes::now());
        let slices = desired(&service(), &[Arc::new(leaving)]);
        let conditions = slices[0].endpoints[0].conditions.clone().unwrap();
        assert_eq!(
            (conditions.ready, conditions.serving, conditions.terminating),
            (Some(false), Some(true), Some(true))
        );
    }

    #[test]
    fn a_service_without_pods_has_an_empty_slice_and_one_without_selector_none() {
        assert_eq!(desired(&service(), &[]).len(), 1);
        let mut manual = service();
        manual.spec.as_mut().unwrap().selector = None;
        assert!(desired(&manual, &[]).is_empty());
    }
}
