//! Tests of the socket: authentication, and clients that misbehave.

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
    let get = |token: &str| format!("GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
    assert!(ask(address, &get("")).await.starts_with("HTTP/1.1 401"));
    assert!(ask(address, &get("Authorization: Bearer nope\r\n")).await.starts_with("HTTP/1.1 401"));
    assert!(ask(address, &get("Authorization: Bearer sesame\r\n")).await.starts_with("HTTP/1.1 200"));
    assert!(
        ask(address, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.starts_with("HTTP/1.1 200")
    );
    shutdown.cancel();
}

#[tokio::test]
async fn nonsense_is_refused_and_watches_end_with_the_server() {
    let (address, shutdown) = listening(Options::default()).await;
    assert!(ask(address, "nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let mut watch = TcpStream::connect(address).await.unwrap();
    watch.write_all(b"GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 4096];
    assert!(watch.read(&mut answer).await.unwrap() > 0);
    shutdown.cancel();
    let ended = async { while watch.read(&mut answer).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
}

#[tokio::test]
async fn requests_that_are_not_for_this_server_are_refused() {
    let (address, shutdown) = listening(Options::default()).await;
    let port = address.port();
    for (head, code) in [
        (format!("Host: 127.0.0.1:{port}\r\n"), 200),
        ("Host: evil.example\r\n".to_owned(), 403),
        (format!("Host: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n"), 403),
        (format!("Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"), 200),
        (String::new(), 400),
        ("Host: localhost\r\nHost: localhost\r\n".to_owned(), 400),
        ("Host: localhost\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n".to_owned(), 400),
        ("Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n".to_owned(), 400),
        ("Host: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n".to_owned(), 400),
    ] {
        let answer = ask(address, &format!("GET /api/v1/namespaces HTTP/1.1\r\n{head}\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{head}\n{answer}");
        assert!(code != 403 || answer.contains(r#""reason":"Forbidden""#), "{answer}");
    }
    // the second of two requests on one connection
    let fine =
        "POST /apis/authorization.k8s.io/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
    let smuggling = "GET /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    // a request to upgrade to an unknown protocol does not end the checks on this connection
    let upgrade = "GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    for first in [fine, upgrade] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{first}{smuggling}").as_bytes()).await.unwrap();
        let mut answers = String::new();
        let reading = tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut answers));
        reading.await.unwrap().unwrap();
        let codes: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(codes, ["404", "400"], "{answers}");
    }
    shutdown.cancel();
}
