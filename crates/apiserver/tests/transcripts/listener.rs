//! The socket: who gets in, and what happens to those who do not behave.

use std::time::Duration;

use longboat_apiserver::{ApiServer, Options};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

async fn listening(options: Options) -> (std::net::SocketAddr, CancellationToken) {
    let server = ApiServer::new(options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    tokio::spawn({
        let shutdown = shutdown.clone();
        async move { server.serve(listener, None, shutdown).await }
    });
    (address, shutdown)
}

async fn ask(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read =
        tokio::time::timeout(Duration::from_secs(10), stream.read(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test]
async fn a_listener_with_a_token_lets_only_its_bearer_in() {
    let (address, shutdown) =
        listening(Options { token: Some("sesame".to_owned()), ..Options::default() }).await;
    let get = |token: &str| format!("GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n{token}\r\n");
    assert!(ask(address, &get("")).await.starts_with("HTTP/1.1 401"));
    assert!(ask(address, &get("Authorization: Bearer nope\r\n")).await.starts_with("HTTP/1.1 401"));
    assert!(ask(address, &get("Authorization: Bearer sesame\r\n")).await.starts_with("HTTP/1.1 200"));
    assert!(ask(address, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    shutdown.cancel();
}

#[tokio::test]
async fn nonsense_is_refused_and_watches_end_with_the_server() {
    let (address, shutdown) = listening(Options::default()).await;
    assert!(ask(address, "nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let mut watch = TcpStream::connect(address).await.unwrap();
    watch.write_all(b"GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 4096];
    assert!(watch.read(&mut answer).await.unwrap() > 0);
    shutdown.cancel();
    let ended = async { while watch.read(&mut answer).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
}
