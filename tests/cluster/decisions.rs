//! Reading the decisions of a picker through the API server, with the rights of the caller.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    process::Command,
};

use longboat_api::decisions::{AUDIENCE, TOKEN_HEADER};
use longboat_extproc::{Action, Client, Event, Headers, Reply, names::DESTINATION};
use serde_json::{Value, json};

use crate::{
    api::block,
    binary::longboat,
    definitions::install_api,
    program::{Ended, Running, run},
    server::{Server, User, free_ports},
    wait::until,
};

const NAMESPACE: &str = "team";
const ACCOUNT: &str = "qwen-epp-sa";

/// Returns an address of this machine that is not a loopback address: the API server does not connect to pods at those.
/// Without one, the test is reported as not run.
pub(crate) fn address() -> Option<String> {
    let address = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let found = address().filter(|address| !address.is_loopback() && !address.is_unspecified());
    if found.is_none() {
        longboat_golden::skipped("an address of this machine besides 127.0.0.1");
    }
    found.map(|address| address.to_string())
}

/// Requests a token of a service account, for `audience` or for the API server itself.
fn token(server: &Server, account: &str, audience: Option<&str>) -> String {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": audience.into_iter().collect::<Vec<_>>(), "expirationSeconds": 3600},
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    server.api.post(&path, &request).ok()["status"]["token"].as_str().unwrap().to_owned()
}

/// Creates a service account with these RBAC rules. Returns the path of its kubeconfig.
fn user(server: &Server, name: &str, rules: &Value) -> String {
    let namespaced = |group: &str, plural: &str| format!("{group}/namespaces/{NAMESPACE}/{plural}");
    let metadata = json!({"name": name});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    server.api.post(&namespaced("/api/v1", "serviceaccounts"), &account).ok();
    let group = "/apis/rbac.authorization.k8s.io/v1";
    let version = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules});
    server.api.post(&namespaced(group, "roles"), &role).ok();
    let binding = json!({
        "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    });
    server.api.post(&namespaced(group, "rolebindings"), &binding).ok();
    let path = server.folder.join(format!("{name}.kubeconfig"));
    server.write_kubeconfig(&path, &User::Token(&token(server, name, None)));
    path.to_str().unwrap().to_owned()
}

/// Creates the InferencePool of the service and one ready pod in it.
fn pool(server: &Server, address: &str) {
    let crds = longboat_api::crd::foreign();
    let crd = crds.iter().find(|crd| crd["metadata"]["name"] == "inferencepools.inference.networking.k8s.io");
    install_api(&server.api, crd.unwrap());
    let pool = json!({
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "qwen"},
        "spec": {"selector": {"matchLabels": {"app": "engine"}}, "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "qwen-epp-service", "port": {"number": 9002}}},
    });
    let path = format!("/apis/inference.networking.k8s.io/v1/namespaces/{NAMESPACE}/inferencepools");
    server.api.post(&path, &pool).ok();
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine-0", "labels": {"app": "engine"}},
        "spec": {"serviceAccountName": ACCOUNT, "containers": [{"name": "main", "image": "vllm"}]},
    });
    server.api.post(&pods, &pod).ok();
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}]}});
    server.api.merge(&format!("{pods}/engine-0/status"), &status).ok();
}

/// Asks the picker for an endpoint, as a proxy does, and retries until the picker chooses one.
fn pick(port: u16, id: &str) -> String {
    let client = Client::new(
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Some(longboat_tls::insecure_client_config(&[b"h2"])),
    );
    let mut headers = Headers::new();
    for (name, value) in [
        (":method", "POST"),
        (":path", "/v1/chat/completions"),
        ("content-type", "application/json"),
        ("x-request-id", id),
    ] {
        headers.push(name, value.to_owned());
    }
    let body = json!({"model": "qwen", "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    until("the picker has an endpoint", || {
        block(async {
            let mut exchange = client.open().await.ok()?;
            exchange
                .send(Event::RequestHeaders { headers: headers.clone(), end_of_stream: false })
                .await
                .ok()?;
            exchange
                .send(Event::RequestBody { body: body.clone().into(), end_of_stream: true })
                .await
                .ok()?;
            match exchange.receive().await.ok()?? {
                Reply { action: Action::RequestHeaders(changes), .. } => {
                    changes.get(DESTINATION).map(str::to_owned)
                }
                _ => None,
            }
        })
    })
}

#[test]
fn decisions_are_for_those_whose_rights_reach_the_picker() {
    let Some(server) = Server::start() else { return };
    let Some(address) = address() else { return };
    let api = &server.api;
    api.make_namespace(NAMESPACE);
    let read = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]});
    let proxy = json!({"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]});
    let issue = json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]});
    let pools = json!({"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"],
        "verbs": ["get", "list", "watch"]});
    let picker = user(&server, ACCOUNT, &json!([read, pools]));
    pool(&server, &address);
    // The binding that the controller creates.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    });
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).ok();

    let [grpc, health, metrics] = free_ports();
    let mut command = Command::new(longboat());
    command
        .args(["epp", "--pool-name=qwen", "--pool-namespace=team", "--decisions=4"])
        .arg(format!("--grpc-port={grpc}"))
        .arg(format!("--grpc-health-port={health}"))
        .arg(format!("--metrics-port={metrics}"))
        .env("KUBECONFIG", &picker);
    let mut running = Running::start(&mut command);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{address}:{metrics}/debug/decisions");
    let asked = |header: &str, value: &str| {
        block(async { Some(client.get(&url).header(header, value).send().await.ok()?.status().as_u16()) })
    };
    let status = until("the picker listens", || {
        assert!(!running.has_ended(), "{}{}", running.stdout(), running.stderr());
        asked("accept", "*/*")
    });
    assert_eq!(status, 401, "nobody gets in without a token");
    let reader = user(&server, "reader", &json!([read, proxy, issue]));
    let onlooker = user(&server, "onlooker", &json!([read, proxy]));
    let stranger = user(&server, "stranger", &json!([read]));
    for (account, audience, status) in [
        (ACCOUNT, Some(AUDIENCE), 200),
        // A token for the API server must not be sent to a picker, so the picker refuses it.
        (ACCOUNT, None, 401),
        (ACCOUNT, Some("somebody-else"), 401),
        ("reader", Some(AUDIENCE), 403),
    ] {
        let token = token(&server, account, audience);
        assert_eq!(asked(TOKEN_HEADER, &token), Some(status), "{account} {audience:?}");
    }
    assert_eq!(asked(TOKEN_HEADER, "nonsense"), Some(401));
    let bearer = format!("Bearer {}", token(&server, ACCOUNT, Some(AUDIENCE)));
    assert_eq!(asked("authorization", &bearer), Some(401), "it is no token for metrics");

    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "qwen-picker", "labels": {
            "app.kubernetes.io/component": "llminferenceservice-router-scheduler",
            "app.kubernetes.io/name": "qwen",
        }},
        "spec": {"serviceAccountName": ACCOUNT, "containers": [{
            "name": "main", "image": "longboat", "ports": [{"name": "metrics", "containerPort": metrics}],
        }]},
    });
    api.post(&pods, &pod).ok();
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
    api.merge(&format!("{pods}/qwen-picker/status"), &status).ok();
    let why = |kubeconfig: &str, id: &str| -> Ended {
        run(Command::new(longboat()).args(["why", id, "-n", NAMESPACE]).env("KUBECONFIG", kubeconfig))
    };
    // The picker was reached; it has seen no such request.
    let said = why(&reader, "nobody");
    assert!(said.stderr.contains("no picker has a decision for request `nobody`"), "{said:#?}");
    let endpoint = pick(grpc, "a-request");
    assert_eq!(endpoint, format!("{address}:8000"));
    let said = why(&reader, "a-request");
    assert!(said.stdout.contains("engine-0"), "{said:#?}");
    let said = why(&onlooker, "a-request");
    assert!(said.stderr.contains("the right to `create` `serviceaccounts/token`"), "{said:#?}");
    let said = why(&stranger, "a-request");
    assert!(said.stderr.contains("the API server answered 403"), "{said:#?}");
}
