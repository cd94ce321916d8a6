//! Sends requests and reads whatever the server answers.

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use longboat_apiserver::{ApiServer, Options};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Sends a request. Returns the code and the answer, which is null if it is not JSON.
pub(crate) async fn ask(
    client: &kube::Client,
    method: &str,
    path: &str,
    kind: &str,
    body: impl Into<Vec<u8>>,
) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let body: Vec<u8> = body.into();
    let answer = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

/// Creates an object. It must succeed.
pub(crate) async fn create(client: &kube::Client, path: &str, object: &Value) -> Value {
    let (code, answer) = ask(client, "POST", path, "application/json", object.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

/// Serves over a socket until the token is cancelled.
pub(crate) async fn serve(options: Options) -> (ApiServer, std::net::SocketAddr, CancellationToken) {
    let server = ApiServer::new(options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.serve(listener, None, shutdown).await }
    });
    (server, address, shutdown)
}
