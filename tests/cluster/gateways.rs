//! Gateways that Longboat serves itself: the controller makes their objects and statuses, and a pod's process serves requests,
//! each with exactly the rights of an installation.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use longboat_tls::{CertificateAuthority, LeafRequest};
use reqwest::{Certificate, Client};
use serde_json::{Value, json};

use crate::{
    api::{Api, block, status_of, text_of},
    binary::longboat,
    cluster::kubectl,
    decisions::address,
    installation::{credentials, install, prepared},
    program::Running,
    replica::Replica,
    server::{Server, User, free_ports},
    tools,
    wait::until,
};

pub(crate) const GROUP: &str = "/apis/gateway.networking.k8s.io/v1";
pub(crate) const NAMESPACE: &str = "kserve";
const HOST: &str = "models.example";
pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kserve/deployments/models-longboat";

fn gateway(api: &Api) -> Value {
    api.get(&format!("{GROUP}/namespaces/{NAMESPACE}/gateways/models")).ok()
}

/// Waits for a condition of the Gateway, as `type=status reason`.
pub(crate) fn says(api: &Api, expected: &str) -> Value {
    until(expected, || {
        let gateway = gateway(api);
        let mut conditions = gateway["status"]["conditions"].as_array()?.iter();
        let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let line = |condition: &Value| {
            format!("{}={} {}", text(condition, "type"), text(condition, "status"), text(condition, "reason"))
        };
        conditions.any(|condition| line(condition) == expected).then_some(gateway)
    })
}

/// Writes a certificate for the listener, and returns its CA.
fn certify(api: &Api) -> Certificate {
    let authority = CertificateAuthority::new("issuer of a test").unwrap();
    let request = LeafRequest {
        common_name: HOST.into(),
        dns_names: vec![HOST.into()],
        days: 1,
        ..LeafRequest::default()
    };
    let pair = authority.issue(&request).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": "models-tls"},
        "data": {
            "tls.crt": BASE64_STANDARD.encode(&pair.certificate_pem),
            "tls.key": BASE64_STANDARD.encode(&pair.key_pem),
        },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/models-tls");
    api.apply(&format!("{path}?fieldManager=test"), &secret).ok();
    Certificate::from_pem(authority.pem().as_bytes()).unwrap()
}

/// A back end. A response to `/stream` ends when `finish` is set.
fn back_end(listener: TcpListener, finish: Arc<AtomicBool>) {
    fn answer(stream: &TcpStream, finish: &AtomicBool) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut path) = (String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            if path.is_empty() {
                path.clone_from(&line);
            }
            line.clear();
        }
        let mut stream = stream;
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nfirst\r\n",
        )?;
        while path.contains("/stream") && !finish.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
        }
        stream.write_all(b"4\r\nlast\r\n0\r\n\r\n")
    }
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let finish = finish.clone();
            thread::spawn(move || drop(answer(&stream, &finish)));
        }
    });
}

/// Creates a Service with this endpoint, a pool whose picker does not exist with the same one, and a route to both.
fn make_back_ends(api: &Api, endpoint: SocketAddr) {
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    });
    api.post(&format!("{core}/services"), &service).ok();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "echo-1", "labels": {"kubernetes.io/service-name": "echo"}},
        "ports": [{"name": "http", "port": endpoint.port()}],
        "endpoints": [{"addresses": [endpoint.ip()], "conditions": {"ready": true}}],
    });
    api.post(&format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"), &slice).ok();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // The server has no controller that would make it.
    api.post(&format!("{core}/serviceaccounts"), &account);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine-0", "labels": {"app": "engine"}},
        "spec": {"containers": [{"name": "main", "image": "vllm"}]},
    });
    api.post(&format!("{core}/pods"), &pod).ok();
    let ip = endpoint.ip();
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True"}]}});
    api.merge(&format!("{core}/pods/engine-0/status"), &status).ok();
    let pool = json!({
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "pool"},
        "spec": {"selector": {"matchLabels": {"app": "engine"}}, "targetPorts": [{"number": endpoint.port()}],
            "endpointPickerRef": {"name": "none", "port": {"number": 9002}, "failureMode": "FailOpen"}},
    });
    api.post(&pools(), &pool).ok();
    let rule = |path: &str, back_end: Value| json!({"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": [back_end]});
    let in_pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"});
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "models"},
        "spec": {"parentRefs": [{"name": "models"}], "rules": [
            rule("/pool", in_pool), rule("/", json!({"name": "echo", "port": 80})),
        ]},
    });
    api.post(&format!("{GROUP}/namespaces/{NAMESPACE}/httproutes"), &route).ok();
}

fn pools() -> String {
    format!("/apis/inference.networking.k8s.io/v1/namespaces/{NAMESPACE}/inferencepools")
}

/// Writes a Secret with an API key.
fn make_key(api: &Api, namespace: &str, key: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "team", "labels": {"longboat.dev/api-key": "true"}},
        "stringData": {"key": key, "requestsPerDay": "1000"},
    });
    api.apply(&format!("/api/v1/namespaces/{namespace}/secrets/team?fieldManager=test"), &secret).ok();
}

/// The status of a request with this API key.
fn status_with_key(url: &str, key: &str) -> Option<u16> {
    block(async {
        let client = Client::builder().no_proxy().build().unwrap();
        Some(client.get(url).bearer_auth(key).send().await.ok()?.status().as_u16())
    })
}

/// What the pod knows of services and their workloads: it keeps the requests for a replica of those that wait at zero, and
/// checks the API keys of those that need some.
fn check_services(api: &Api, plain: &str, monitoring: u16) {
    let labels = json!({"app": "engine"});
    let workload = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "engine", "annotations": {"longboat.dev/wait-at-zero": "true"}},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "vllm"}]},
        }},
    });
    api.post(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"), &workload).ok();
    let series = "llm_d_epp_flow_control_queue_size{namespace=\"kserve\",inference_pool=\"pool\"} 0";
    until("the pool counts waiting requests", || {
        text_of(&format!("http://127.0.0.1:{monitoring}/metrics"))?.contains(series).then_some(())
    });

    let of_service =
        json!({"app.kubernetes.io/name": "keyed", "app.kubernetes.io/part-of": "llminferenceservice"});
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    api.merge(&format!("{core}/services/echo"), &json!({"metadata": {"labels": of_service}})).ok();
    let services = format!("/apis/serving.kserve.io/v1alpha2/namespaces/{NAMESPACE}/llminferenceservices");
    let keys = |value: &str| json!({"metadata": {"annotations": {"longboat.dev/api-keys": value}}});
    let keyed = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "keyed", "annotations": {
            "longboat.dev/api-keys": "required", "serving.kserve.io/stop": "true",
        }},
        "spec": {"model": {"uri": "hf://org/model"}},
    });
    api.post(&services, &keyed).ok();
    let status = |expected: u16| {
        until(&format!("the answer is {expected}"), || {
            status_of(&format!("{plain}/service")).filter(|status| *status == expected)
        })
    };
    status(401);
    // The controller hands the key to the pod, and takes it away again.
    let [first, second] = ["sk-first-0123456789abcdef", "sk-second-0123456789abcdef"];
    let with_key = |key: &str, expected: u16| {
        until(&format!("the answer to a key is {expected}"), || {
            status_with_key(&format!("{plain}/service"), key).filter(|status| *status == expected)
        })
    };
    make_key(api, NAMESPACE, first);
    with_key(first, 200);
    with_key(second, 401);
    make_key(api, NAMESPACE, second);
    with_key(second, 200);
    with_key(first, 401);
    // The key of a namespace that sends no traffic here stays where it is.
    api.make_namespace("aside");
    make_key(api, "aside", first);
    with_key(first, 401);
    let copy = api.get(&format!("{core}/secrets/models-longboat-api-keys")).ok();
    assert_eq!(copy["data"].as_object().unwrap().keys().collect::<Vec<_>>(), [NAMESPACE], "{copy:#}");
    let text = BASE64_STANDARD.decode(copy["data"][NAMESPACE].as_str().unwrap()).unwrap();
    assert!(!String::from_utf8(text).unwrap().contains("sk-"), "a copy has no keys");
    api.merge(&format!("{services}/keyed"), &keys("off")).ok();
    status(200);
    let own = format!("{GROUP}/namespaces/{NAMESPACE}/gateways/models");
    api.merge(&own, &keys("required")).ok();
    status(401);
    api.merge(&own, &keys("off")).ok();
    status(200);
}

/// Of Secrets, the Gateway's pods may read the certificate and the copy of API keys.
fn check_rights(server: &Server, account: &str) {
    let may = |verb: &str, namespace: &str, name: &str| {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{NAMESPACE}:{account}"),
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes":
                    {"verb": verb, "resource": "secrets", "namespace": namespace, "name": name},
            },
        });
        let answer = server.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).ok();
        answer["status"]["allowed"] == true
    };
    for verb in ["get", "list", "watch"] {
        assert!(may(verb, NAMESPACE, "models-tls") && may(verb, NAMESPACE, "models-longboat-api-keys"));
        for (namespace, name) in [(NAMESPACE, "team"), (NAMESPACE, ""), ("default", "team"), ("", "")] {
            assert!(!may(verb, namespace, name), "{verb} {namespace}/{name}");
        }
    }
    for verb in ["create", "update", "patch", "delete"] {
        assert!(!may(verb, NAMESPACE, "models-longboat-api-keys"), "{verb}");
    }
}

/// Starts the process of the Gateway's pod on this address, with the arguments and the account of its Deployment.
pub(crate) fn start_pod(server: &Server, address: &str, monitoring: u16) -> Running {
    let pod = server.api.get(DEPLOYMENT).ok()["spec"]["template"]["spec"].clone();
    let kubeconfig = server.folder.join("gateway.kubeconfig");
    let token = server.token(pod["serviceAccountName"].as_str().unwrap());
    server.write_kubeconfig(&kubeconfig, &User::Token(&token));
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["/longboat", "gateway"]));
    let arguments = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let mut command = Command::new(longboat());
    command
        .arg("gateway")
        .args(arguments)
        .args([format!("--listen-address={address}"), format!("--monitoring-port={monitoring}")])
        .env("KUBECONFIG", kubeconfig);
    Running::start(&mut command)
}

/// Installs the kinds, the class and the rights of Gateways, and starts the controller.
pub(crate) fn install_gateways(server: &Server) -> Replica {
    install(server);
    for path in ["crates/api/src/crd/gateway-kinds.yaml", "deploy/kustomize/components/gateway/gateway.yaml"]
    {
        let path = tools::root().join(path);
        let applied = || kubectl(server, &["apply", "--server-side", "-f", path.to_str().unwrap()]);
        until("kinds, class and rights are there", || applied().status.success());
    }
    let image = "--gateway-image=registry.example/longboat:v9";
    let mut controller = Replica::start(&credentials(server, "controller"), &["--leader-elect", image]);
    controller.ready();
    controller
}

#[test]
fn a_gateway_is_made_served_and_drained_with_the_rights_of_an_installation() {
    let Some(server) = prepared() else { return };
    let Some(address) = address() else { return };
    let api = &server.api;
    let mut controller = install_gateways(&server);

    let first = certify(api);
    let [http, https, monitoring] = free_ports();
    let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parameters"},
        "data": {"serviceType": "ClusterIP", "replicas": "1"}});
    api.post(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), &parameters).ok();
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "models"},
        "spec": {
            "gatewayClassName": "longboat",
            "infrastructure": {
                "labels": {"team": "models"},
                "parametersRef": {"group": "", "kind": "ConfigMap", "name": "parameters"},
            },
            "listeners": [
                {"name": "http", "port": http, "protocol": "HTTP"},
                {"name": "https", "port": https, "protocol": "HTTPS",
                    "tls": {"certificateRefs": [{"name": "models-tls"}]}},
            ],
        },
    });
    api.post(&format!("{GROUP}/namespaces/{NAMESPACE}/gateways"), &object).ok();
    says(api, "Accepted=True Accepted");
    says(api, "Programmed=False NoResources");
    let class = api.get(&format!("{GROUP}/gatewayclasses/longboat")).ok();
    assert_eq!(class["status"]["conditions"][0]["status"], "True", "{class:#}");

    check_rights(&server, "models-longboat");
    let mut pod = start_pod(&server, "127.0.0.1", monitoring);
    until("the pod is ready", || {
        assert!(!pod.has_ended(), "{}{}", pod.stdout(), pod.stderr());
        status_of(&format!("http://127.0.0.1:{monitoring}/readyz")).filter(|status| *status == 200)
    });
    // The server has no controllers that would run the pods.
    let available = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    api.merge(&format!("{DEPLOYMENT}/status"), &available).ok();
    let programmed = says(api, "Programmed=True Programmed");
    let service = api.get(&format!("/api/v1/namespaces/{NAMESPACE}/services/models-longboat")).ok();
    assert_eq!(service["metadata"]["labels"]["team"], "models");
    assert_eq!(programmed["status"]["addresses"][0]["value"], service["spec"]["clusterIP"]);

    let listener = TcpListener::bind((address.as_str(), 0)).unwrap();
    let endpoint = listener.local_addr().unwrap();
    let finish = Arc::new(AtomicBool::new(false));
    back_end(listener, finish.clone());
    make_back_ends(api, endpoint);
    let plain = format!("http://127.0.0.1:{http}");
    for path in ["/service", "/pool"] {
        let answer = || text_of(&format!("{plain}{path}")).filter(|text| text == "firstlast");
        until(&format!("{path} is answered"), answer);
    }
    // The pod may serve the route before the controller has counted it.
    until("the route is counted", || gateway(api)["status"]["listeners"][0]["attachedRoutes"] == 1);
    check_services(api, &plain, monitoring);
    let closed = json!({"spec": {"endpointPickerRef": {"failureMode": "FailClose"}}});
    api.merge(&format!("{}/pool", pools()), &closed).ok();
    until("without a picker, nobody serves a pool that fails closed", || {
        status_of(&format!("{plain}/pool")).filter(|status| *status >= 500)
    });

    // A rotated certificate is served without a restart.
    let encrypted = |authority: Certificate| {
        let builder = Client::builder().no_proxy().tls_certs_only([authority]);
        let client = builder.resolve(HOST, ([127, 0, 0, 1], https).into()).build().unwrap();
        until("the certificate is that of the authority", || {
            block(async {
                client.get(format!("https://{HOST}:{https}/")).send().await.ok()?.text().await.ok()
            })
        })
    };
    assert_eq!(encrypted(first), "firstlast");
    assert_eq!(encrypted(certify(api)), "firstlast");

    // A pod that ends lets streams end.
    let url = format!("{plain}/stream");
    let mut stream =
        block(async { Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap() });
    assert_eq!(block(stream.chunk()).unwrap().unwrap(), "first");
    assert!(Command::new("kill").args(["-TERM", &pod.pid().to_string()]).status().unwrap().success());
    until("the pod is not ready any more", || {
        status_of(&format!("http://127.0.0.1:{monitoring}/readyz")).filter(|status| *status == 503)
    });
    until("new connections are refused", || TcpStream::connect(("127.0.0.1", http)).is_err());
    assert!(!pod.has_ended());
    finish.store(true, Ordering::SeqCst);
    assert_eq!(block(stream.chunk()).unwrap().unwrap(), "last");
    assert_eq!(block(stream.chunk()).unwrap(), None);
    drop(stream);
    let ended = pod.end();
    assert!(ended.status.success(), "{ended:#?}");

    // Without a garbage collector, the controller removes everything.
    api.delete(&format!("{GROUP}/namespaces/{NAMESPACE}/gateways/models")).ok();
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?labelSelector=longboat.dev%2Fgateway%3Dmodels-longboat";
    until("nothing of the Gateway is left", || {
        let left = api.get(bindings).ok()["items"].as_array().map(Vec::len);
        left == Some(0) && api.get(DEPLOYMENT).status == 404
    });
    controller.assert_running();
    assert!(controller.end("-TERM").success());
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
