//! Tokens of service accounts: whom the server lets in, and what it tells those who ask about a token.

use kube::Client;
use longboat_apiserver::Options;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::asking::{ask, create, serve};

const JSON: &str = "application/json";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const OWN: &str = "https://kubernetes.default.svc.cluster.local";

async fn token(client: &Client, spec: &Value) -> (u16, Value) {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    ask(client, "POST", &format!("{ACCOUNTS}/a/token"), JSON, body.to_string()).await
}

async fn issued(client: &Client, spec: &Value) -> String {
    let (code, answer) = token(client, spec).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn reviewed(client: &Client, token: &str, audiences: &Value) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
    create(client, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await["status"].clone()
}

/// The code that a request over the socket gets. Who is known gets 403, because the account has no rights.
async fn code(address: std::net::SocketAddr, token: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer["HTTP/1.1 ".len()..][..3].to_owned()
}

#[tokio::test]
async fn a_token_ends_with_what_it_is_bound_to_and_is_only_for_its_audience() {
    let (server, address, shutdown) =
        serve(Options { token: Some("sesame".to_owned()), ..Options::default() }).await;
    let client = server.client("default");
    create(&client, ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "a", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
    let uid = create(&client, PODS, &pod).await["metadata"]["uid"].clone();

    let plain = issued(&client, &json!({})).await;
    let other = issued(&client, &json!({"audiences": ["x", "y"]})).await;
    let of_pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    let bound = issued(&client, &json!({"boundObjectRef": of_pod})).await;
    let user = json!({"username": "system:serviceaccount:default:a", "groups": [
        "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]});
    let known = |audiences: Value| json!({"authenticated": true, "user": user, "audiences": audiences});
    let unknown = |why: &str| json!({"user": {}, "error": why});

    assert_eq!(reviewed(&client, &plain, &json!([])).await, known(json!([OWN])));
    assert_eq!(reviewed(&client, &bound, &Value::Null).await, known(json!([OWN])));
    assert_eq!(reviewed(&client, &other, &json!(["z", "y"])).await, known(json!(["y"])));
    assert_eq!(
        reviewed(&client, &other, &json!([])).await,
        unknown(&format!(r#"token audiences ["x" "y"] is invalid for the target audiences ["{OWN}"]"#))
    );
    assert_eq!(reviewed(&client, "sesame", &json!(["y"])).await, unknown("invalid bearer token"));
    for (token, expected) in
        [(&plain, "403"), (&bound, "403"), (&other, "401"), (&format!("{plain}x"), "401")]
    {
        assert_eq!(code(address, token).await, expected);
    }

    assert_eq!(ask(&client, "DELETE", &format!("{PODS}/p"), JSON, "").await.0, 200);
    assert_eq!(code(address, &bound).await, "401");
    assert_eq!(reviewed(&client, &bound, &json!([])).await, unknown(r#"pods "p" not found"#));
    assert_eq!(code(address, &plain).await, "403");

    assert_eq!(ask(&client, "DELETE", &format!("{ACCOUNTS}/a"), JSON, "").await.0, 200);
    assert_eq!(code(address, &plain).await, "401");
    create(&client, ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(code(address, &plain).await, "401");
    let error = reviewed(&client, &plain, &json!([])).await["error"].clone();
    let error = error.as_str().unwrap();
    assert!(
        error.starts_with("service account UID (") && error.contains(") does not match claim ("),
        "{error}"
    );
    shutdown.cancel();
}

#[tokio::test]
async fn a_request_for_a_token_is_checked() {
    let (server, _, shutdown) = serve(Options::default()).await;
    let client = server.client("default");
    create(&client, ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    create(&client, PODS, &pod).await;
    let pod = |name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name}});
    for (spec, code, message) in [
        (json!({"expirationSeconds": 60}), 422, "may not specify a duration less than 10 minutes"),
        (
            json!({"expirationSeconds": 1_u64 << 33}),
            422,
            "may not specify a duration larger than 2^32 seconds",
        ),
        (pod("none"), 404, "pods \"none\" not found"),
        (
            pod("p"),
            400,
            "cannot bind token for serviceaccount \"a\" to pod running with different serviceaccount name.",
        ),
        (
            json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}),
            400,
            "binds tokens to pods",
        ),
    ] {
        let (given, answer) = token(&client, &spec).await;
        let said = answer["message"].as_str().unwrap();
        assert!(given == code && said.contains(message), "{given} {said}");
    }
    let (_, answer) = token(&client, &json!({"expirationSeconds": 7200})).await;
    assert_eq!(answer["spec"]["audiences"], json!([OWN]));
    assert_eq!(answer["spec"]["expirationSeconds"], 7200);
    shutdown.cancel();
}
