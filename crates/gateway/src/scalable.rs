//! The back ends whose workloads a scaler may take to zero replicas: their requests wait until it starts one. Pure functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{Resource, api::autoscaling::v2::HorizontalPodAutoscaler};
use longboat_api::{
    annotations::WAIT_AT_ZERO,
    foreign::{
        gatewayclass::GatewayClass,
        inferencepool::InferencePool,
        reference::BackendObjectReference,
        scaledobject::{PAUSED, ScaledObject},
    },
    v1alpha2::KedaTrigger,
};
use longboat_autoscale::{History, Labels as SampleLabels, Query, Sample};
use longboat_key::{Key, Name, Namespace};

use crate::{
    CLASS_NAME, CONTROLLER_NAME, RoutingInputs,
    observed::{has_key, is_prefill, selects, service_of},
};

/// The number of requests that wait in the gateway for a replica. The picker's queue has the same name.
pub const QUEUE_SERIES: &str = "llm_d_epp_flow_control_queue_size";

/// The counters of the picker that count requests which wait for a replica, too.
const COUNTERS_AT_ZERO: [&str; 4] = [
    "llm_d_epp_request_total",
    "llm_d_epp_request_error_total",
    "inference_objective_request_total",
    "inference_objective_request_error_total",
];

/// Beginnings of the names of series that engines and pickers have. Without a replica, none but the above grows.
const SERIES_OF_REPLICAS: [&str; 4] = ["vllm:", "sglang:", "llm_d_", "inference_"];

/// Annotations with which KEDA does not scale.
const KEDA_PAUSED: [&str; 2] = [PAUSED, "autoscaling.keda.sh/paused-replicas"];

type Labels = BTreeMap<String, String>;

/// A workload that can be scaled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScaleTarget {
    /// `Deployment` or `LeaderWorkerSet`.
    pub kind: String,
    /// Its name.
    pub key: Key,
}

/// What a route refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BackendName {
    /// Whether it is an InferencePool, and not a Service.
    pub(crate) is_pool: bool,
    pub(crate) key: Key,
}

/// A back end with workloads that may have no replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalableBackend {
    pub(crate) name: BackendName,
    /// The workloads.
    pub(crate) targets: Vec<ScaleTarget>,
    /// Whether no endpoint can answer now.
    pub(crate) is_idle: bool,
}

/// The workloads that may have no replica, by namespace, with the labels of their pods.
#[derive(Debug, Default)]
pub(crate) struct ScalableWorkloads(BTreeMap<String, Vec<(ScaleTarget, Labels)>>);

/// Whether requests that wait in this gateway start no replica: KEDA takes the workload to zero, and all triggers read only what
/// its replicas and its picker measure.
pub fn never_wakes(idle: Option<i32>, least: Option<i32>, triggers: &[KedaTrigger]) -> bool {
    let reads_replicas = |trigger: &KedaTrigger| {
        let query = trigger.metadata.as_ref().and_then(|all| all.get("query")).map_or("", String::as_str);
        trigger.type_ == "prometheus" && is_blind(query)
    };
    goes_to_zero(idle, least) && !triggers.is_empty() && triggers.iter().all(reads_replicas)
}

/// Whether a query is not above zero while requests wait and there is no replica. A query whose other series or functions are not
/// known is taken for one that is.
fn is_blind(query: &str) -> bool {
    if !SERIES_OF_REPLICAS.iter().any(|name| query.contains(name)) {
        return false;
    }
    let growing = || std::iter::once(QUEUE_SERIES).chain(COUNTERS_AT_ZERO);
    let names_none = || !growing().any(|name| query.contains(name));
    let Ok(parsed) = Query::parse(query) else { return names_none() };
    if !parsed.names().iter().all(|series| SERIES_OF_REPLICAS.iter().any(|name| series.starts_with(name))) {
        return names_none();
    }
    // A sum with a series that does not exist has no result. `or vector(0)` at its end makes that zero, whatever waits.
    let mut history = History::default();
    for (second, value) in [(0, 0.0), (1, 1.0)] {
        let sample = |name: &str| Sample { name: name.to_owned(), labels: SampleLabels::new(), value };
        history.add(Duration::from_secs(second), growing().map(sample).collect(), Duration::from_mins(1));
    }
    !parsed.evaluate(&history).is_ok_and(|value| value.is_some_and(|value| value > 0.0))
}

/// Whether this gateway serves Gateways of a class. One that is not known is ours by its name.
pub fn is_own_class(name: &str, class: Option<&GatewayClass>) -> bool {
    class.map_or(name == CLASS_NAME, |class| class.spec.controller_name == CONTROLLER_NAME)
}

/// Like KEDA, this takes zero for an absent minimum.
fn goes_to_zero(idle: Option<i32>, least: Option<i32>) -> bool {
    idle == Some(0) || least.unwrap_or(0) <= 0
}

// === impl BackendName ===

impl std::fmt::Display for BackendName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", if self.is_pool { "InferencePool" } else { "Service" }, self.key)
    }
}

// === impl ScalableWorkloads ===

impl ScalableWorkloads {
    pub(crate) fn new(observed: &RoutingInputs) -> Self {
        let mut scaled: BTreeSet<ScaleTarget> = BTreeSet::new();
        scaled.extend(observed.autoscalers.iter().filter_map(|object| of_autoscaler(object)));
        scaled.extend(observed.scaled_objects.iter().filter_map(|object| of_scaled_object(object)));
        let asks = |annotations: Option<&Labels>| {
            annotations.and_then(|all| all.get(WAIT_AT_ZERO)).is_some_and(|value| value == "true")
        };
        let services: BTreeSet<Key> = observed
            .inference
            .iter()
            .filter(|service| asks(service.metadata.annotations.as_ref()))
            .map(|service| Key::of(service.as_ref()))
            .collect();
        let deployments = observed.deployments.iter().map(|object| {
            let template = object.spec.as_ref().map(|spec| &spec.template);
            ("Deployment", &object.metadata, template)
        });
        let sets = observed.leader_worker_sets.iter().map(|object| {
            let group = &object.spec.leader_worker_template;
            // Without a template of its own, a leader has that of the workers. Only leaders answer requests.
            let template = group.leader_template.as_ref().unwrap_or(&group.worker_template);
            ("LeaderWorkerSet", &object.metadata, Some(template))
        });
        let mut workloads: BTreeMap<String, Vec<(ScaleTarget, Labels)>> = BTreeMap::new();
        for (kind, metadata, template) in deployments.chain(sets) {
            let namespace = metadata.namespace.clone().unwrap_or_default();
            let key = Key::new(Namespace(&namespace), Name(metadata.name.as_deref().unwrap_or_default()));
            let target = ScaleTarget { kind: kind.to_owned(), key };
            let by_hand = || {
                asks(metadata.annotations.as_ref())
                    || service_of(metadata).is_some_and(|service| services.contains(&service))
            };
            if !scaled.contains(&target) && !by_hand() {
                continue;
            }
            let labels = template.and_then(|template| template.metadata.as_ref()?.labels.clone());
            workloads.entry(namespace).or_default().push((target, labels.unwrap_or_default()));
        }
        Self(workloads)
    }

    /// Returns the back end to which a reference leads, if its pods come from such workloads.
    pub(crate) fn behind(
        &self,
        observed: &RoutingInputs,
        namespace: Namespace<&str>,
        reference: &BackendObjectReference,
    ) -> Option<Arc<ScalableBackend>> {
        let within = reference.namespace.as_deref().map_or(namespace, Namespace);
        let workloads = self.0.get(within.0)?;
        let key = Key::new(within, Name(&reference.name));
        let is_pool = reference.group.as_deref() == Some(InferencePool::GROUP);
        let (selector, is_idle) = if is_pool {
            let pool = observed.pools.iter().find(|pool| has_key(&pool.metadata, &key))?;
            (&pool.spec.selector.match_labels, !observed.has_serving_pod(pool))
        } else {
            let service = observed.services.iter().find(|service| has_key(&service.metadata, &key))?;
            let endpoints = observed.service_endpoints(&key, reference.port?)?;
            (service.spec.as_ref()?.selector.as_ref()?, endpoints.is_empty())
        };
        let selected = workloads.iter().filter(|(_, labels)| selects(selector, Some(labels)));
        // Prefill pods answer no requests of clients, so starting them alone helps nobody.
        let (prefill, serving): (Vec<_>, Vec<_>) = selected.partition(|(_, labels)| is_prefill(Some(labels)));
        if serving.is_empty() {
            return None;
        }
        let targets = serving.into_iter().chain(prefill).map(|(target, _)| target.clone()).collect();
        Some(Arc::new(ScalableBackend { name: BackendName { is_pool, key }, targets, is_idle }))
    }
}

fn of_autoscaler(object: &HorizontalPodAutoscaler) -> Option<ScaleTarget> {
    let spec = object.spec.as_ref().filter(|spec| spec.min_replicas == Some(0))?;
    let target = &spec.scale_target_ref;
    let key = Key::new(Namespace::of(&object.metadata), Name(&target.name));
    Some(ScaleTarget { kind: target.kind.clone(), key })
}

fn of_scaled_object(object: &ScaledObject) -> Option<ScaleTarget> {
    let spec = &object.spec;
    let annotations = object.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| KEDA_PAUSED.iter().any(|key| all.contains_key(*key))) {
        return None;
    }
    if !goes_to_zero(spec.idle_replica_count, spec.min_replica_count) {
        return None;
    }
    // Like KEDA, this takes a Deployment for an absent kind.
    let target = &spec.scale_target_ref;
    let kind = if target.kind.is_empty() { "Deployment" } else { &target.kind };
    let key = Key::new(Namespace::of(&object.metadata), Name(&target.name));
    Some(ScaleTarget { kind: kind.to_owned(), key })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn deployment(name: &str, role: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "ns",
                "labels": {"app.kubernetes.io/name": "llm", "app.kubernetes.io/part-of": "llminferenceservice"}},
            "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": "x", "llm-d.ai/role": role}}}},
        })
    }

    fn inputs() -> RoutingInputs {
        RoutingInputs {
            deployments: vec![
                object(deployment("decode", "decode")),
                object(deployment("prefill", "prefill")),
            ],
            pools: vec![object(json!({
                "metadata": {"name": "pool", "namespace": "ns"},
                "spec": {"selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": 8000}]},
            }))],
            ..RoutingInputs::default()
        }
    }

    /// The names of the scalable workloads behind the pool, and whether it is idle.
    fn behind(observed: &RoutingInputs) -> Option<(String, bool)> {
        let reference = serde_json::from_value(
            json!({"group": InferencePool::GROUP, "kind": "InferencePool", "name": "pool"}),
        )
        .unwrap();
        let found = ScalableWorkloads::new(observed).behind(observed, Namespace("ns"), &reference)?;
        let names: Vec<_> = found.targets.iter().map(|target| target.key.name.to_string()).collect();
        Some((names.join(" "), found.is_idle))
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
    fn scaled_object(target: &str, spec: Value, annotations: Value) -> Arc<ScaledObject> {
        let mut all = json!({
            "metadata": {"name": "s", "namespace": "ns", "annotations": annotations},
            "spec": {"scaleTargetRef": {"name": target}, "triggers": []},
        });
        all["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object(all)
    }

    #[test]
    fn requests_wait_only_where_a_scaler_can_start_a_pod_that_answers_them() {
        let with =
            |scaler: Arc<ScaledObject>| behind(&RoutingInputs { scaled_objects: vec![scaler], ..inputs() });
        let yes = Some(("decode".to_owned(), true));
        assert_eq!(behind(&inputs()), None, "nothing scales it");
        assert_eq!(with(scaled_object("decode", json!({}), json!({}))), yes);
        assert_eq!(with(scaled_object("decode", json!({"minReplicaCount": 1}), json!({}))), None);
        assert_eq!(
            with(scaled_object("decode", json!({"minReplicaCount": 1, "idleReplicaCount": 0}), json!({}))),
            yes
        );
        assert_eq!(with(scaled_object("prefill", json!({}), json!({}))), None, "prefill pods answer nobody");
        for key in KEDA_PAUSED {
            assert_eq!(with(scaled_object("decode", json!({}), json!({key: "true"}))), None, "{key}");
        }
        let autoscaler = |least: i32| {
            let spec = json!({"minReplicas": least, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "decode"}});
            let autoscalers =
                vec![object(json!({"metadata": {"name": "h", "namespace": "ns"}, "spec": spec}))];
            behind(&RoutingInputs { autoscalers, ..inputs() })
        };
        assert_eq!((autoscaler(0), autoscaler(1)), (yes, None));
    }

    #[test]
    fn a_workload_never_wakes_if_its_triggers_read_only_its_replicas() {
        let triggers = |queries: &[&str]| -> Vec<KedaTrigger> {
            let trigger = |query: &&str| json!({"type": "prometheus", "metadata": {"query": query}});
            queries.iter().map(|query| serde_json::from_value(trigger(query)).unwrap()).collect()
        };
        let running = "sum(rate(llm_d_epp_ready_endpoints[1m]))";
        let requests = "sum(rate(llm_d_epp_request_total{service_name=\"llm\"}[1m]))";
        let waiting = "sum(llm_d_epp_flow_control_queue_size)";
        assert!(never_wakes(Some(0), Some(1), &triggers(&[running, "sum(vllm:num_requests_waiting)"])));
        assert!(never_wakes(None, None, &triggers(&[running])));
        assert!(!never_wakes(None, Some(1), &triggers(&[running])));
        assert!(!never_wakes(Some(0), Some(1), &triggers(&[running, waiting])));
        assert!(!never_wakes(Some(0), Some(1), &triggers(&[running, requests])));
        assert!(!never_wakes(Some(0), Some(1), &triggers(&["sum(rate(shop_visitors[1m]))"])));
        // Without a replica, the first series does not exist, and so does no sum with it.
        let pool = "sum(llm_d_epp_flow_control_queue_size{inference_pool=\"p\"})";
        let all = |or: &str| format!("(sum(vllm:num_requests_running){or}) + {pool} or vector(0)");
        assert!(never_wakes(Some(0), Some(1), &triggers(&[&all("")])));
        assert!(!never_wakes(Some(0), Some(1), &triggers(&[&all(" or vector(0)")])));
        assert!(!never_wakes(Some(0), Some(1), &triggers(&[&format!("clamp_max({pool}, 5)")])));
        let mut cron = triggers(&[running]);
        cron[0].type_ = "cron".to_owned();
        assert!(!never_wakes(Some(0), Some(1), &cron));
    }

    #[test]
    fn a_person_can_ask_for_it_at_the_service() {
        let service = |value: &str| {
            let service = json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "llm", "namespace": "ns", "annotations": {"longboat.dev/wait-at-zero": value}},
                "spec": {"model": {"uri": "hf://a/b"}},
            });
            behind(&RoutingInputs { inference: vec![object(service)], ..inputs() })
        };
        assert_eq!(service("true"), Some(("decode prefill".to_owned(), true)));
        assert_eq!(service("false"), None);
    }

    #[test]
    fn a_pool_with_a_ready_pod_that_answers_is_not_idle() {
        let pod = |role: &str| {
            object(json!({
                "metadata": {"name": role, "namespace": "ns", "labels": {"app": "x", "llm-d.ai/role": role}},
                "status": {"podIP": "127.0.0.2", "conditions": [{"type": "Ready", "status": "True"}]},
            }))
        };
        let idle = |pods| {
            let scaled_objects = vec![scaled_object("decode", json!({}), json!({}))];
            behind(&RoutingInputs { pods, scaled_objects, ..inputs() }).unwrap().1
        };
        assert!(idle(vec![pod("prefill")]), "prefill alone answers nobody");
        assert!(!idle(vec![pod("prefill"), pod("decode")]));
    }
}
