//! Requests through `pods/proxy` and `services/proxy`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream;
use longboat_apiserver::{
    ApiServer, Options,
    pod_access::{LogOptions, LogStream, PodAccess, PodAccessError, PodRef, PortStream},
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::asking::{ask, create};

/// A node whose pods answer with the request that they got.
struct Mirror;

#[async_trait]
impl PodAccess for Mirror {
    async fn logs(&self, _: PodRef, _: LogOptions) -> Result<LogStream, PodAccessError> {
        Ok(Box::pin(stream::empty()) as LogStream)
    }

    async fn connect(&self, pod: PodRef, port: u16) -> Result<Box<dyn PortStream>, PodAccessError> {
        if port != 8000 {
            return Err(PodAccessError::Internal("nothing listens".to_owned()));
        }
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            let mut request = vec![0; 8192];
            let mut length = 0;
            loop {
                let end = if request.starts_with(b"POST") { &b"end"[..] } else { b"\r\n\r\n" };
                if request[..length].ends_with(end) {
                    break;
                }
                length += far.read(&mut request[length..]).await.unwrap();
            }
            let request = String::from_utf8_lossy(&request[..length]);
            let body = json!({"pod": pod.name, "request": request}).to_string();
            let head = format!(
                "HTTP/1.1 202 Accepted\r\nContent-Length: {}\r\nX-Own: 1\r\nKeep-Alive: 5\r\n\r\n",
                body.len()
            );
            far.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        });
        Ok(Box::new(near) as Box<dyn PortStream>)
    }
}

#[tokio::test]
async fn a_request_goes_to_a_ready_endpoint_of_the_service() {
    let server = ApiServer::new(Options::default()).unwrap();
    server.set_pod_access(Arc::new(Mirror));
    let client = server.client("default");
    let services = "/api/v1/namespaces/default/services";
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8000}, {"name": "dead", "port": 81}]);
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": ports}});
    for name in ["s", "idle", "bare"] {
        create(&client, services, &service(name)).await;
    }
    let slice = |service: &str, ready: bool| {
        json!({
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8000}, {"name": "dead", "port": 8001}],
            "endpoints": [
                {"addresses": ["127.0.0.2"], "conditions": {"ready": false}, "targetRef": {"kind": "Pod", "name": "no"}},
                {"addresses": ["127.0.0.4"], "conditions": {"ready": ready}},
                {"addresses": ["127.0.0.3"], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": "yes"}},
            ],
        })
    };
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    create(&client, slices, &slice("s", true)).await;
    create(&client, slices, &slice("idle", false)).await;

    let plain = "text/plain";
    for name in ["s:80", "s:http", "http:s:80"] {
        let path = format!("{services}/{name}/proxy/v1/a%2Fb?x=%41&y");
        let (code, answer) = ask(&client, "POST", &path, plain, "the end").await;
        assert_eq!((code, &answer["pod"]), (202, &json!("yes")), "{answer}");
        let request = answer["request"].as_str().unwrap().to_lowercase();
        assert!(request.starts_with("post /v1/a%2fb?x=%41&y http/1.1\r\n"), "{request}");
        assert!(
            request.ends_with("\r\n\r\nthe end") && request.contains("content-type: text/plain"),
            "{request}"
        );
        assert!(!request.contains("authorization"), "{request}");
    }
    for (name, code, message) in [
        ("s:82", 503, "no service port 82 found for service \"s\""),
        ("s:other", 503, "no endpoints available for service \"s\""),
        ("idle:80", 503, "no endpoints available for service \"idle\""),
        ("bare:80", 404, "services \"bare\" not found"),
        ("none", 404, "services \"none\" not found"),
        ("s:81", 500, "Internal error occurred: nothing listens"),
        ("ftp:s:80", 400, "invalid service request \"ftp:s:80\""),
    ] {
        let (given, answer) = ask(&client, "GET", &format!("{services}/{name}/proxy/"), plain, "").await;
        assert_eq!((given, &answer["message"]), (code, &Value::from(message)));
    }
    assert_eq!(ask(&client, "GET", &format!("{services}/s:80/proxy"), plain, "").await.0, 301);
}

#[tokio::test]
async fn a_request_goes_to_a_port_of_a_pod() {
    let server = ApiServer::new(Options::default()).unwrap();
    server.set_pod_access(Arc::new(Mirror));
    let client = server.client("default");
    let pods = "/api/v1/namespaces/default/pods";
    let container = json!({"name": "c", "image": "i", "ports": [{"containerPort": 8000}]});
    create(&client, pods, &json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}})).await;
    for name in ["p", "p:8000", ":p:8000"] {
        let (code, answer) = ask(&client, "GET", &format!("{pods}/{name}/proxy/"), "text/plain", "").await;
        assert_eq!((code, &answer["pod"]), (202, &json!("p")), "{answer}");
        assert!(answer["request"].as_str().unwrap().starts_with("GET / HTTP/1.1\r\n"), "{answer}");
    }
}
