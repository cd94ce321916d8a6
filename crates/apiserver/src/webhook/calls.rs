//! Tests with real webhook calls over HTTPS.

use std::{convert::Infallible, net::Ipv4Addr};

use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longboat_tls::{LeafRequest, self_signed, server_config};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{ApiServer, Options};

/// A webhook server with a self-signed certificate; it stops when dropped.
struct Hooks {
    url: String,
    ca: String,
    _serving: JoinSet<()>,
}

impl Hooks {
    async fn start() -> Self {
        longboat_tls::install_default_provider();
        let pair = self_signed(&LeafRequest {
            common_name: "hooks".to_owned(),
            organization: String::new(),
            dns_names: Vec::new(),
            ips: vec![Ipv4Addr::LOCALHOST.into()],
            days: 1,
            client_auth: false,
        })
        .unwrap();
        let tls = TlsAcceptor::from(server_config(&pair, &[b"http/1.1"]).unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let tls = tls.clone();
                connections.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    // the client may close the connection at any time
                    let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                });
            }
        });
        Self { url, ca: BASE64_STANDARD.encode(&pair.certificate_pem), _serving: serving }
    }

    fn client(&self, path: &str) -> Value {
        json!({"url": format!("{}/{path}", self.url), "caBundle": self.ca})
    }

    fn configuration(&self, kind: &str, name: &str, path: &str, more: &Value) -> Value {
        let mut hook = json!({
            "name": format!("{name}.example.test"), "clientConfig": self.client(path),
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        });
        for (key, value) in more.as_object().unwrap() {
            hook[key] = value.clone();
        }
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
               "webhooks": [hook]})
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    match path.as_str() {
        "/label" => {
            let change = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = BASE64_STANDARD.encode(change.to_string()).into();
        }
        "/list" => {
            let change = json!([{"op": "replace", "path": "", "value": [1]}]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = BASE64_STANDARD.encode(change.to_string()).into();
        }
        "/deny" => {
            response["allowed"] = false.into();
            response["status"] = json!({"code": 403, "reason": "Forbidden", "message": "not today"});
        }
        "/broken" => {
            return Ok(Response::builder().status(500).body(Full::from("boom")).unwrap());
        }
        "/convert" => {
            let mut objects = review["request"]["objects"].clone();
            for object in objects.as_array_mut().unwrap() {
                object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
                object["spec"] = match object["spec"]["color"].take() {
                    Value::Null => json!({"color": object["spec"]["colour"]}),
                    color => json!({"colour": color}),
                };
            }
            response = json!({"uid": review["request"]["uid"], "result": {"status": "Success"},
                              "convertedObjects": objects});
        }
        // What a broken webhook answers, for the path of each.
        _ => {
            if let Some(answer) = broken(&path, &review["request"]) {
                return Ok(Response::new(Full::from(answer)));
            }
        }
    }
    let answer = json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response});
    Ok(Response::new(Full::from(answer.to_string())))
}

/// The answer of a conversion webhook that is broken in the way that `path` names.
fn broken(path: &str, request: &Value) -> Option<String> {
    let mut object = request["objects"][0].clone();
    object["apiVersion"] = request["desiredAPIVersion"].clone();
    let mut objects = vec![object.clone()];
    match path.strip_prefix("/convert-")? {
        "text" => return Some("<html>".to_owned()),
        "null" => return Some("null".to_owned()),
        "list" => return Some("[]".to_owned()),
        "string" => return Some("\"yes\"".to_owned()),
        "other-kind" => {
            return Some(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}).to_string());
        }
        "response-list" => return Some(review_answer(&json!([]))),
        "none" => objects.clear(),
        "more" => objects.push(object),
        "null-object" => objects[0] = Value::Null,
        "name" => objects[0]["metadata"]["name"] = "other".into(),
        "metadata" => objects[0]["metadata"] = "none".into(),
        "labels" => objects[0]["metadata"]["labels"] = json!([1]),
        "label-number" => objects[0]["metadata"]["labels"] = json!({"a": 1}),
        "label-value" => objects[0]["metadata"]["labels"] = json!({"a": "b c"}),
        "annotation-null" => objects[0]["metadata"]["annotations"] = json!({"a": null}),
        _ => return None,
    }
    Some(review_answer(
        &json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}),
    ))
}

fn review_answer(response: &Value) -> String {
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response})
        .to_string()
}

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let form = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", form)
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = server.client("default").send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

const CONFIGS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test]
async fn webhooks_change_refuse_and_fail() {
    let hooks = Hooks::start().await;
    let server = ApiServer::new(Options::default()).unwrap();
    let mutating = hooks.configuration("MutatingWebhookConfiguration", "label", "label", &json!({}));
    let (code, _) =
        send(&server, "POST", &format!("{CONFIGS}/mutatingwebhookconfigurations"), &mutating).await;
    assert_eq!(code, 201);
    let (_, created) = send(&server, "POST", MAPS, &map("a")).await;
    assert_eq!(created["metadata"]["labels"], json!({"seen": "yes"}));

    let path = format!("{CONFIGS}/validatingwebhookconfigurations");
    let validating = |name: &str, path: &str, more: Value| {
        hooks.configuration("ValidatingWebhookConfiguration", name, path, &more)
    };
    let conditions = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    for (configuration, code, message) in [
        (
            validating("deny", "deny", conditions("object.metadata.labels.seen == 'yes'")),
            403,
            "admission webhook \"deny.example.test\" denied the request: not today",
        ),
        (validating("unasked", "deny", conditions("request.operation == 'UPDATE'")), 201, ""),
        (
            validating("failing", "broken", json!({})),
            500,
            "Internal error occurred: failed calling webhook \"failing.example.test\": failed to call webhook: an error on the server (\"boom\") has prevented the request from succeeding",
        ),
        (validating("ignored", "broken", json!({"failurePolicy": "Ignore"})), 201, ""),
        (
            validating("erring", "deny", conditions("object.data.x == 'y'")),
            403,
            "configmaps \"erring\" is forbidden: expression 'object.data.x == 'y'' resulted in error: no such key: data",
        ),
    ] {
        let name = configuration["metadata"]["name"].as_str().unwrap();
        assert_eq!(send(&server, "POST", &path, &configuration).await.0, 201);
        let (got, answer) = send(&server, "POST", MAPS, &map(name)).await;
        assert_eq!((got, answer["message"].as_str().unwrap_or_default()), (code, message));
        send(&server, "DELETE", &format!("{path}/{name}"), &json!({})).await;
    }
}

/// The definition of a kind with two versions.
fn definition(converter: &Value) -> Value {
    let version = |name: &str, storage: bool, field: &str| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
               "properties": {"spec": {"type": "object", "properties": {field: {"type": "string"}}}}}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cons.example.test"},
        "spec": {
            "group": "example.test", "scope": "Namespaced", "names": {"plural": "cons", "kind": "Con"},
            "versions": [version("v1", true, "color"), version("v2", false, "colour")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": converter,
            }},
        },
    })
}

#[tokio::test]
async fn custom_resources_are_converted_by_their_webhook() {
    let hooks = Hooks::start().await;
    let server = ApiServer::new(Options::default()).unwrap();
    let crd = definition(&hooks.client("convert"));
    let (code, _) =
        send(&server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
    assert_eq!(code, 201);
    let con = json!({"apiVersion": "example.test/v2", "kind": "Con", "metadata": {"name": "a"},
                     "spec": {"colour": "red"}});
    let (code, created) = send(&server, "POST", "/apis/example.test/v2/namespaces/default/cons", &con).await;
    assert_eq!((code, &created["spec"]), (201, &json!({"colour": "red"})));
    let (_, first) =
        send(&server, "GET", "/apis/example.test/v1/namespaces/default/cons/a", &json!({})).await;
    assert_eq!(first["spec"], json!({"color": "red"}));
    assert_eq!(first["metadata"]["uid"], created["metadata"]["uid"]);

    let rules = json!([{"apiGroups": ["example.test"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}]);
    let rules = json!({"rules": rules});
    let list = hooks.configuration("MutatingWebhookConfiguration", "list", "list", &rules);
    send(&server, "POST", &format!("{CONFIGS}/mutatingwebhookconfigurations"), &list).await;
    let mut other = con;
    other["metadata"]["name"] = "b".into();
    let (code, refused) =
        send(&server, "POST", "/apis/example.test/v2/namespaces/default/cons", &other).await;
    let message = "Internal error occurred: the patch of webhook \"list.example.test\" leaves no object";
    assert_eq!((code, &refused["message"]), (500, &json!(message)));
}

#[tokio::test]
async fn what_a_broken_conversion_webhook_answers_is_refused_and_loses_no_object() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const CONS: &str = "/apis/example.test/v2/namespaces/default/cons";
    let hooks = Hooks::start().await;
    let server = ApiServer::new(Options::default()).unwrap();
    let sent = "conversion webhook for example.test/v2, Kind=Con";
    send(&server, "POST", DEFINITIONS, &definition(&hooks.client("convert"))).await;
    let con = |name: &str| json!({"apiVersion": "example.test/v2", "kind": "Con", "metadata": {"name": name}, "spec": {"colour": "red"}});
    assert_eq!(send(&server, "POST", CONS, &con("a")).await.0, 201);
    for (path, why) in [
        ("text", " failed: couldn't get version/kind; json parse error: expected value at line 1 column 1"),
        (
            "null",
            " failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind=",
        ),
        (
            "list",
            " failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind=",
        ),
        (
            "string",
            " failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind=",
        ),
        (
            "other-kind",
            " failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got \
             admission.k8s.io/v1, Kind=AdmissionReview",
        ),
        ("response-list", " failed: webhook response was absent"),
        ("none", " returned 0 objects, expected 1"),
        ("more", " returned 2 objects, expected 1"),
        (
            "null-object",
            " returned invalid converted object at index 0: invalid groupVersion (expected example.test/v1, received )",
        ),
        ("name", " returned invalid object: must have the same name: b != other"),
        ("metadata", " returned invalid object: must have the same name: b != "),
        (
            "labels",
            " returned invalid object: metadata.labels must be a mapping, but is [1] in converted object",
        ),
        (
            "label-number",
            " returned invalid object: metadata.labels[a] must be a string, but is 1 in converted object",
        ),
        (
            "label-value",
            " returned invalid object: metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or \
             consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            "annotation-null",
            " returned invalid object: metadata.annotations[a] must be a string, but is null in converted object",
        ),
    ] {
        let broken = json!({"spec": {"conversion": {"webhook": {"clientConfig": hooks.client(&format!("convert-{path}"))}}}});
        let (changed, _) = send(&server, "PATCH", &format!("{DEFINITIONS}/cons.example.test"), &broken).await;
        assert_eq!(changed, 200, "{path}");
        let (code, refused) = send(&server, "POST", CONS, &con("b")).await;
        assert_eq!(
            (code, refused["message"].as_str()),
            (500, Some(format!("{sent}{why}").as_str())),
            "{path}"
        );
        let deleted = send(&server, "DELETE", &format!("{CONS}/a"), &json!({})).await;
        assert_eq!(deleted.0, 500, "{path}: {}", deleted.1);
    }
    let sound = json!({"spec": {"conversion": {"webhook": {"clientConfig": hooks.client("convert")}}}});
    send(&server, "PATCH", &format!("{DEFINITIONS}/cons.example.test"), &sound).await;
    let (_, list) = send(&server, "GET", CONS, &json!({})).await;
    let kept: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|con| (&con["metadata"]["name"], &con["spec"]))
        .collect();
    assert_eq!(kept, [(&json!("a"), &json!({"colour": "red"}))]);
}
