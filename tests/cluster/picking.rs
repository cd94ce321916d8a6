//! A Gateway whose pods pick endpoints themselves: no pod of a picker runs, and the decisions are in the gateway.

use std::process::Command;

use longboat_api::decisions::{AUDIENCE, TOKEN_HEADER};
use serde_json::{Value, json};

use crate::{
    api::{Api, block, status_of},
    binary::longboat,
    decisions::address,
    gateways::{DEPLOYMENT, GROUP, NAMESPACE, install_gateways, says, start_pod},
    installation::prepared,
    program::{Running, run},
    server::{Server, free_ports},
    wait::until,
};

/// The engine has a loopback address of its own, where the pool's port is free.
const ENGINE: &str = "127.87.0.1";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?labelSelector=longboat.dev%2Fgateway%3Dmodels-longboat";

fn core(plural: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
}

/// Creates a Gateway with these parameters.
fn make_gateway(api: &Api, port: u16, picking: &str) {
    let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parameters"},
        "data": {"serviceType": "ClusterIP", "replicas": "1", "picking": picking}});
    api.apply(&format!("{}/parameters?fieldManager=test&force=true", core("configmaps")), &parameters).ok();
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "models"},
        "spec": {
            "gatewayClassName": "longboat",
            "infrastructure": {"parametersRef": {"group": "", "kind": "ConfigMap", "name": "parameters"}},
            "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}],
        },
    });
    api.apply(&format!("{GROUP}/namespaces/{NAMESPACE}/gateways/models?fieldManager=test"), &gateway).ok();
}

/// Creates a service whose requests go through the Gateway, and a priority for some of them.
fn make_service(api: &Api) {
    let template = json!({"containers": [{"name": "main", "args": ["--decisions=16"]}]});
    let service = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "one"},
        "spec": {
            "model": {"uri": "hf://org/model", "name": "m"},
            "router": {"route": {}, "gateway": {"refs": [{"name": "models", "namespace": NAMESPACE}]},
                "scheduler": {"template": template}},
        },
    });
    let path = format!("/apis/serving.kserve.io/v1alpha2/namespaces/{NAMESPACE}/llminferenceservices");
    api.post(&path, &service).ok();
}

/// Creates a pod that is ready, and whose processes the test runs.
fn make_pod(api: &Api, name: &str, ip: &str, labels: &Value, spec: &Value) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec});
    api.post(&core("pods"), &pod).ok();
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True"}]}});
    api.merge(&format!("{}/{name}/status", core("pods")), &status).ok();
}

/// Starts an engine, whose pod is in the pool of the service.
fn start_engine(api: &Api) -> Running {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // The server has no controller that would make it.
    api.post(&core("serviceaccounts"), &account);
    let labels = json!({"app.kubernetes.io/name": "one", "app.kubernetes.io/part-of": "llminferenceservice",
        "kserve.io/component": "workload"});
    make_pod(api, "engine-0", ENGINE, &labels, &json!({"containers": [{"name": "main", "image": "vllm"}]}));
    Running::start(Command::new(longboat()).args(["sim", "--model", "m", "--host", ENGINE, "--port", "8000"]))
}

/// The account of the Gateway's pods reads what a picker reads, and writes nothing of it.
fn check_rights(api: &Api, picks: bool) {
    for (verb, group, resource, allowed) in [
        ("watch", "llm-d.ai", "inferenceobjectives", picks),
        ("list", "inference.networking.x-k8s.io", "inferencemodelrewrites", picks),
        ("create", "authentication.k8s.io", "tokenreviews", picks),
        ("get", "llm-d.ai", "inferenceobjectives", false),
        ("patch", "llm-d.ai", "inferenceobjectives", false),
        ("create", "coordination.k8s.io", "leases", false),
    ] {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{NAMESPACE}:models-longboat"),
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes":
                    {"verb": verb, "group": group, "resource": resource, "namespace": NAMESPACE},
            },
        });
        let answer = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).ok();
        assert_eq!(answer["status"]["allowed"] == true, allowed, "{verb} {resource}.{group}");
    }
}

/// Sends a request with this id until it is answered. Returns whether a picker has seen it: the pool fails open.
fn ask(url: &str, id: &str) -> bool {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]});
    until("the request is answered", || {
        block(async {
            let sent = client.post(url).header("x-request-id", id).json(&body).send().await.ok()?;
            (sent.status() == 200).then(|| sent.headers().contains_key("x-went-into-resp-headers"))
        })
    })
}

/// A token of the account of the Gateway's pods, for readers of decisions.
fn reader(server: &Server) -> String {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": 3600},
    });
    let path = format!("{}/models-longboat/token", core("serviceaccounts"));
    server.api.post(&path, &request).ok()["status"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_gateway_picks_for_a_service_whose_picker_has_no_pod() {
    let Some(server) = prepared() else { return };
    let Some(address) = address() else { return };
    let api = &server.api;
    let mut controller = install_gateways(&server);
    let [http, monitoring] = free_ports();
    make_gateway(api, http, "gateway");
    says(api, "Accepted=True Accepted");
    let template = until("the Gateway has pods", || {
        let deployment = api.get(DEPLOYMENT);
        (deployment.status == 200).then(|| deployment.ok()["spec"]["template"].clone())
    });
    check_rights(api, true);
    let mut pod = start_pod(&server, &address, monitoring);
    let mut spec = template["spec"].clone();
    spec["containers"][0]["ports"][0]["containerPort"] = monitoring.into();
    make_pod(api, "models-0", &address, &template["metadata"]["labels"], &spec);

    make_service(api);
    let mut engine = start_engine(api);
    let url = format!("http://{address}:{http}/{NAMESPACE}/one/v1/chat/completions");
    until("the gateway picks", || {
        assert!(!pod.has_ended() && !engine.has_ended(), "{}{}", pod.stderr(), engine.stderr());
        ask(&url, "early")
    });
    assert!(ask(&url, "a-request"));
    let decision =
        run(Command::new(longboat()).args(["why", "a-request"]).env("KUBECONFIG", &server.kubeconfig)).ok();
    assert!(decision.contains("engine-0"), "{decision}");
    let scheduler = "labelSelector=app.kubernetes.io%2Fcomponent%3Dllminferenceservice-router-scheduler";
    let pickers = api.get(&format!("{}?{scheduler}", core("pods"))).ok();
    assert_eq!(pickers["items"], json!([]), "no picker could have answered");

    // Pages of pickers are for those who may read them.
    let page = |path: &str| format!("http://{address}:{monitoring}{path}");
    for path in ["/debug/decisions".to_owned(), format!("/pools/{NAMESPACE}/one-inference-pool/metrics")] {
        assert_eq!(status_of(&page(&path)), Some(401), "{path}");
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let decisions = |token: &str| {
        block(async {
            client.get(page("/debug/decisions")).header(TOKEN_HEADER, token).send().await.unwrap()
        })
    };
    assert_eq!(decisions("made-up").status(), 401);
    let token = reader(&server);
    let capacity = || block(decisions(&token).json::<Value>()).unwrap()["capacity"].clone();
    assert_eq!(capacity(), 16);

    // A picker with other flags takes over, and no request goes without one.
    let service = "/apis/serving.kserve.io/v1alpha2/namespaces/kserve/llminferenceservices/one";
    let template = json!({"containers": [{"name": "main", "args": ["--decisions=8"]}]});
    api.merge(service, &json!({"spec": {"router": {"scheduler": {"template": template}}}})).ok();
    until("the new picker is alone", || {
        assert!(ask(&url, "changed"), "nobody has picked");
        capacity() == 8
    });

    // Without the parameter, the right is gone.
    make_gateway(api, http, "pods");
    until("the Gateway has only the rights of every Gateway", || {
        (api.get(BINDINGS).ok()["items"].as_array()?.len() == 1).then_some(())
    });
    check_rights(api, false);
    controller.assert_running();
    drop(pod);
    assert!(controller.end("-TERM").success());
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
