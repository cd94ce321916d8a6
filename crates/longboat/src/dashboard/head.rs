//! What the list of services says about each of them. Pure functions.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
    jiff::Timestamp,
};
use longboat_api::{engine::Engine, labels, v1alpha2::LLMInferenceService};
use longboat_dashboard::{Gpus, Head};
use longboat_key::{Key, Name, Namespace};
use longboat_node::ENGINE_ANNOTATION;
use longboat_plan::is_gpu;

use crate::tree::{Environment, Mark, TreeObjects, lines};

/// What pods and workloads of a service add up to.
#[derive(Default)]
struct Totals {
    engine: Option<String>,
    ready: i32,
    replicas: i32,
    gpus: i64,
    /// The sum of the start times of all GPUs, in seconds since 1970.
    starts: f64,
}

/// Returns the entries of all services, sorted by name. Each object is read once, because there may be thousands.
pub(super) fn of(seen: &TreeObjects, environment: Environment) -> Vec<Head> {
    let mut totals: BTreeMap<Key, Totals> = BTreeMap::new();
    for deployment in &seen.deployments {
        let Some(totals) = workload(&mut totals, &deployment.metadata) else { continue };
        let status = deployment.status.as_ref();
        totals.replicas += deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        totals.ready += status.and_then(|status| status.ready_replicas).unwrap_or_default();
    }
    for set in &seen.sets {
        let Some(totals) = workload(&mut totals, &set.metadata) else { continue };
        totals.replicas += set.spec.replicas.unwrap_or(1);
        totals.ready += set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    }
    for pod in &seen.pods {
        let Some(totals) = workload(&mut totals, &pod.metadata) else { continue };
        totals.engine = totals.engine.take().or_else(|| engine(pod));
        add_gpus(totals, pod);
    }
    let by_name: BTreeMap<Key, _> =
        seen.services.iter().map(|service| (Key::of(service.as_ref()), service)).collect();
    let names: Vec<Key> = by_name.keys().cloned().collect();
    let lines = lines::heads(seen, &names, environment);
    let entries = by_name.into_iter().zip(lines).map(|((key, service), line)| {
        let totals = totals.remove(&key).unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "nobody has so many GPUs")]
        let since = totals.starts / totals.gpus as f64;
        Head {
            service: line.subject,
            text: line.text,
            mark: word(line.mark),
            models: models(service),
            engine: totals.engine,
            ready: totals.ready,
            replicas: totals.replicas,
            gpus: (totals.gpus > 0).then_some(Gpus { count: totals.gpus, since }),
        }
    });
    entries.collect()
}

/// Returns the totals of the service of which an object runs or is the model server.
fn workload<'a>(totals: &'a mut BTreeMap<Key, Totals>, object: &ObjectMeta) -> Option<&'a mut Totals> {
    let labels = object.labels.as_ref()?;
    labels.get(labels::COMPONENT)?.starts_with(labels::component::WORKLOAD).then_some(())?;
    let key = Key::new(Namespace(object.namespace.as_deref()?), Name(labels.get(labels::NAME)?.as_str()));
    Some(totals.entry(key).or_default())
}

/// Returns the names that clients may use in requests: first the model, then its adapters.
fn models(service: &LLMInferenceService) -> Vec<String> {
    let model = &service.spec.model;
    let name = model.name.as_ref().or(service.metadata.name.as_ref());
    let adapters =
        model.lora.iter().flat_map(|lora| &lora.adapters).filter_map(|adapter| adapter.name.as_ref());
    name.into_iter().chain(adapters).cloned().collect()
}

/// Returns the engine of a pod: the one that a local cluster says it runs, or the one that its command starts.
fn engine(pod: &Pod) -> Option<String> {
    let note = pod.metadata.annotations.as_ref().and_then(|all| all.get(ENGINE_ANNOTATION));
    // The annotation has the reason after a colon.
    let local = note.and_then(|note| note.split(':').next());
    let main = pod.spec.as_ref()?.containers.iter().find(|container| container.name == "main");
    let started = || main.and_then(Engine::of_command).map(|engine| engine.name);
    local.or_else(started).map(str::to_owned)
}

fn add_gpus(totals: &mut Totals, pod: &Pod) {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Running"));
    let Some(started) = status.and_then(|status| status.start_time.as_ref()) else { return };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let count: i64 = containers.map(gpus).sum();
    totals.gpus += count;
    #[expect(clippy::cast_precision_loss, reason = "nobody has so many GPUs")]
    let count = count as f64;
    totals.starts += count * seconds(started.0);
}

/// Returns the number of GPUs of a container. Kubernetes requires whole numbers, and limits that equal requests.
fn gpus(container: &Container) -> i64 {
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref().or(resources.requests.as_ref()));
    let amounts = limits.into_iter().flatten().filter(|(name, _)| is_gpu(name));
    amounts.filter_map(|(_, Quantity(amount))| amount.parse::<i64>().ok()).sum()
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in a float")]
fn seconds(time: Timestamp) -> f64 {
    time.as_second() as f64
}

/// The name of a mark in the page.
pub(super) fn word(mark: Mark) -> &'static str {
    match mark {
        Mark::Good => "good",
        Mark::Waiting => "waiting",
        Mark::Bad => "bad",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn pods_and_workloads_of_a_service_are_added_up() {
        let labels = |component: &str| json!({labels::NAME: "a", labels::COMPONENT: component});
        let pod = |start: &str, component: &str, phase: &str| -> Arc<Pod> {
            let resources = json!({"limits": {"nvidia.com/gpu": "2", "cpu": "4", "rdma/ib": "1"}});
            let command = json!(["sh", "-c", "vllm serve /mnt/models"]);
            let main = json!({"name": "main", "command": command, "resources": resources});
            let pod = json!({
                "metadata": {"name": "p", "namespace": "ns", "labels": labels(component)}, "spec": {"containers": [main]},
                "status": {"phase": phase, "startTime": start},
            });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let deployment = |component: &str, replicas: Value| {
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": component, "namespace": "ns", "labels": labels(component)},
                    "spec": {"replicas": replicas, "selector": {}, "template": {}}, "status": {"readyReplicas": 1},
                }))
                .unwrap(),
            )
        };
        let service = |name: &str| {
            let lora = json!({"adapters": [{"name": "sql", "uri": "hf://a/sql"}]});
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": name, "namespace": "ns"}, "spec": {"model": {"uri": "hf://a/b", "lora": lora}},
                }))
                .unwrap(),
            )
        };
        let seen = TreeObjects {
            services: vec![service("b"), service("a")],
            deployments: vec![
                deployment(labels::component::WORKLOAD, json!(3)),
                deployment(labels::component::WORKLOAD_PREFILL, json!(1)),
                deployment(labels::component::SCHEDULER, json!(9)),
            ],
            sets: Vec::new(),
            pods: vec![
                pod("1970-01-01T01:00:00Z", labels::component::WORKLOAD, "Running"),
                pod("1970-01-01T03:00:00Z", labels::component::WORKLOAD_WORKER, "Running"),
                pod("1970-01-01T03:00:00Z", labels::component::WORKLOAD, "Pending"),
                pod("1970-01-01T03:00:00Z", labels::component::SCHEDULER, "Running"),
            ],
        };
        let heads = of(&seen, Environment::Cluster);
        let head = |name: &str, engine: Option<&str>, ready, replicas, gpus| Head {
            service: format!("ns/{name}"),
            text: "waiting for the controller".to_owned(),
            mark: "waiting",
            models: vec![name.to_owned(), "sql".to_owned()],
            engine: engine.map(str::to_owned),
            ready,
            replicas,
            gpus,
        };
        let gpus = Gpus { count: 4, since: 7200.0 };
        assert_eq!(heads, [head("a", Some("vLLM"), 2, 4, Some(gpus)), head("b", None, 0, 0, None)]);
    }
}
