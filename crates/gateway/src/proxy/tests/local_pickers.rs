//! Pickers in the gateway's process: no picker listens anywhere.

use kube::{
    Client,
    api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use longboat_apiserver::{ApiServer, Options};
use longboat_epp::host::Host;
use longboat_key::{Key, Name, Namespace};

use super::*;
use crate::{
    RoutingInputs, fuzzing,
    picking::{self, Picking},
};

/// A cluster with the pool `ns/pool`, whose pods this test makes.
struct Cluster {
    client: Client,
}

impl Cluster {
    /// Creates the cluster, with this `endpointPickerRef` of the pool.
    async fn new(shutdown: &CancellationToken, port: u16, picker: Value) -> Self {
        let server = ApiServer::new(Options::default()).unwrap();
        let (loops, ends) = (server.clone(), shutdown.clone());
        tokio::spawn(async move { loops.run_loops(ends).await });
        let cluster = Self { client: server.client("ns") };
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})).await;
        for mut crd in longboat_api::crd::foreign() {
            // Releases of the API after the vendored one let a pool have no picker.
            for version in crd["spec"]["versions"].as_array_mut().unwrap() {
                let required = version.pointer_mut("/schema/openAPIV3Schema/properties/spec/required");
                if let Some(required) = required.and_then(Value::as_array_mut) {
                    required.retain(|field| field != "endpointPickerRef");
                }
            }
            cluster.create(crd).await;
        }
        let mut pool = json!({
            "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
            "metadata": {"name": "pool", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": port}]},
        });
        if !picker.is_null() {
            pool["spec"]["endpointPickerRef"] = picker;
        }
        cluster.create(pool).await;
        cluster
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
        if object.pointer("/metadata/namespace").is_some() {
            Api::namespaced_with(self.client.clone(), "ns", &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    async fn create(&self, object: Value) {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        self.api(&object).create(&PostParams::default(), &typed).await.unwrap();
    }

    async fn ready_pod(&self, name: &str, ip: &str, labels: Value, container: Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "labels": labels},
            "spec": {"containers": [container]},
        });
        self.create(pod.clone()).await;
        let status = json!({"status": {"podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}});
        self.api(&pod).patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    async fn model(&self, ip: &str) {
        self.ready_pod("model", ip, json!({"app": "x"}), json!({"name": "main", "image": "x"})).await;
    }

    /// Adds a pod whose container would run a picker with these flags.
    async fn picker(&self, ip: &str, flags: &[&str]) {
        let command = ["/app/epp", "--pool-name=pool", "--pool-namespace", "ns"];
        let container = json!({"name": "main", "image": "x", "command": command, "args": flags});
        let labels = json!({"app.kubernetes.io/component": longboat_api::labels::component::SCHEDULER});
        self.ready_pod("picker", ip, labels, container).await;
    }

    async fn delete_picker(&self) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns"}});
        self.api(&pod).delete("picker", &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

fn named() -> Value {
    json!({"name": "epp", "port": {"number": 9002}})
}

impl Bench {
    /// Picks in the gateway from now on.
    fn pick(&self, cluster: &Cluster, picking: Picking) {
        let local = self.local.clone();
        tokio::spawn(picking::run(cluster.client.clone(), picking, local, self.shutdown.clone()));
    }

    /// Sends requests until one gets this status.
    async fn until(&self, status: u16) -> reqwest::Response {
        loop {
            let response = self.ask("/pool", false).await;
            if response.status() == status {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A port that nobody listens on.
async fn free_port(ip: &str) -> u16 {
    TcpListener::bind((ip, 0)).await.unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_names_no_picker_is_picked_for_in_the_gateway() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "30ms"]).await;
    let cluster = Cluster::new(&shutdown, simulator.port(), Value::Null).await;
    let bench = bench(None, simulator, &[], "FailClose").await;
    bench.pick(&cluster, Picking::Pods);
    // The picker knows no endpoint yet, and says so as a remote one does.
    loop {
        let refused = bench.until(503).await.text().await.unwrap();
        if refused.contains("inference error: ServiceUnavailable") {
            break;
        }
    }
    cluster.model("127.0.0.1").await;
    bench.until(200).await;
    let response = bench.ask("/pool", true).await;
    assert_eq!(response.headers()["x-went-into-resp-headers"], "true");
    let mut chunks = response.bytes_stream();
    let first = chunks.next().await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&first).contains("[DONE]"), "the first chunk holds the whole answer");
    let mut last = first;
    while let Some(chunk) = chunks.next().await {
        last = chunk.unwrap();
    }
    assert!(last.ends_with(b"data: [DONE]\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_address_of_the_pod_are_the_metrics_and_decisions_of_the_gateway() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let cluster = Cluster::new(&shutdown, simulator.port(), named()).await;
    cluster.model("127.0.0.1").await;
    let (ip, metrics) = ("127.0.0.77", free_port("127.0.0.77").await);
    let metrics_port = format!("--metrics-port={metrics}");
    cluster.picker(ip, &[&metrics_port, "--grpc-health-port=0", "--max-request-body-size=1Ki"]).await;
    // The EndpointSlice names the pod, where nobody speaks ext_proc.
    let pod = SocketAddr::new(ip.parse().unwrap(), 9002);
    let bench = bench_pickers(&[pod], simulator).await;
    bench.pick(&cluster, Picking::Gateway);
    let response = bench.until(200).await;
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    response.bytes().await.unwrap();
    let page = |path: String| {
        let client = bench.client.clone();
        async move {
            client.get(format!("http://{ip}:{metrics}{path}")).send().await.unwrap().text().await.unwrap()
        }
    };
    let decisions: Value = serde_json::from_str(&page(format!("/debug/decisions?id={id}")).await).unwrap();
    assert_eq!(decisions["decisions"][0]["destination"], json!([simulator.to_string()]));
    assert!(page("/metrics".into()).await.contains("inference_objective_request_total{"));

    // The limits are those of the picker's flags.
    let long = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(2000)}]});
    let url = format!("{}/pool/v1/chat/completions", bench.url);
    let refused = bench.client.post(&url).json(&long).send().await.unwrap();
    assert_eq!(refused.status(), 413);
    assert!(refused.text().await.unwrap().contains("longer than 1024 bytes"));

    // Without the pod, its picker is gone too.
    cluster.delete_picker().await;
    bench.until(503).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_the_picker_of_the_pod_is_asked_where_the_gateway_has_none() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let cluster = Cluster::new(&shutdown, simulator.port(), named()).await;
    cluster.model("127.0.0.1").await;
    let script = Script { destination: simulator.to_string(), ..Script::default() };
    let remote = picker(&shutdown, script.clone()).await;
    let bench = bench_pickers(&[remote], simulator).await;
    let mut host = Host::new(cluster.client.clone(), bench.local.clone(), None);
    let pools = [Key::new(Namespace("ns"), Name("pool"))].into();
    let mut follow = |flags: &[&str]| host.follow(picking::of_cluster(&with_picker(flags), &pools));
    let is_asked = || async {
        let before = *script.response_bytes.lock();
        bench.until(200).await.bytes().await.unwrap();
        *script.response_bytes.lock() > before
    };
    // A configuration that does not load, so the picker's own process says why.
    follow(&["--config-text", "plugins: [{type: no-such-plugin}]"]);
    assert!(is_asked().await);
    // With a configuration that loads, the gateway asks nobody.
    follow(&[]);
    while is_asked().await {}
    // Another one takes over, and nobody is asked meanwhile.
    let former = bench.local.serving(None);
    follow(&["--max-request-body-size=1Ki"]);
    loop {
        assert!(!is_asked().await);
        let serving = bench.local.serving(None);
        if let [only] = &serving[..]
            && !Arc::ptr_eq(only, &former[0])
        {
            break;
        }
    }
    host.ended().await;
    assert!(is_asked().await);
}

/// The pool `ns/pool`, and a Deployment that would run its picker with these flags.
fn with_picker(flags: &[&str]) -> RoutingInputs {
    let labels = json!({"app": "epp"});
    let command = ["/app/epp", "--pool-name=pool", "--pool-namespace", "ns"];
    let container = json!({"name": "main", "command": command, "args": flags});
    let mut all = fuzzing::inputs();
    for object in [
        json!({"kind": "InferencePool", "metadata": {"name": "pool"}, "spec": {"endpointPickerRef": named()}}),
        json!({"kind": "Service", "metadata": {"name": "epp"}, "spec": {"selector": labels}}),
        json!({"kind": "Deployment", "metadata": {"name": "epp"}, "spec": {"selector": {}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container]},
        }}}),
    ] {
        fuzzing::add(&mut all, object).unwrap();
    }
    all
}
