//! Responses that are easily broken on their way: trailers, and statuses and methods whose messages have no body.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    traffic::{Bench, gateway, route},
    *,
};

/// A gateway that sends all requests to one back end.
async fn bench(back_end: SocketAddr, protocol: Option<&str>) -> Bench {
    Bench::start(false, |port| {
        let mut all = vec![gateway(&json!([{"name": "http", "port": port, "protocol": "HTTP"}]))];
        all.extend(service("svc", back_end, protocol));
        all.push(route("all", &json!({"backendRefs": [{"name": "svc", "port": 80}]})));
        all
    })
    .await
}

/// A gRPC server. Without a message, its trailers are its only headers.
async fn grpc_server() -> SocketAddr {
    fn answer(request: &Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
        let status = |code| (HeaderName::from_static("grpc-status"), HeaderValue::from_static(code));
        let mut response = if request.uri().path() == "/message" {
            let message = Frame::data(Bytes::from_static(b"\0\0\0\0\x01x"));
            let frames = [message, Frame::trailers(HeaderMap::from_iter([status("0")]))].map(Ok);
            Response::new(StreamBody::new(futures::stream::iter(frames)).boxed())
        } else {
            let mut response = Response::new(Empty::new().boxed());
            response.headers_mut().extend([status("12")]);
            response
        };
        let accepts = request.headers().get(header::TE).cloned();
        response.headers_mut().extend(accepts.map(|accepts| (HeaderName::from_static("x-te"), accepts)));
        response
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(&request)));
            let builder = Builder::new(TokioExecutor::new());
            tokio::spawn(async move { drop(builder.serve_connection(TokioIo::new(stream), service).await) });
        }
    });
    address
}

#[tokio::test]
async fn grpc_calls_have_their_trailers_with_a_message_and_without() {
    let bench = bench(grpc_server().await, Some("kubernetes.io/h2c")).await;
    let stream = TokioIo::new(TcpStream::connect(bench.socket).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let mut call = async |path: &str| {
        let request = Request::post(format!("http://a.example{path}")).header(header::TE, "trailers");
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.headers()["x-te"], "trailers", "gRPC servers refuse calls without it");
        let of_head = response.headers().get("grpc-status").cloned();
        let body = response.into_body().collect().await.unwrap();
        let of_trailers = body.trailers().and_then(|trailers| trailers.get("grpc-status")).cloned();
        (of_head, of_trailers, body.to_bytes())
    };
    let code = |code| Some(HeaderValue::from_static(code));
    assert_eq!(call("/message").await, (None, code("0"), Bytes::from_static(b"\0\0\0\0\x01x")));
    assert_eq!(call("/none").await, (code("12"), None, Bytes::new()));
}

/// A server that answers each request with the text of its connection.
async fn server_of(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while let Ok(1..) = stream.read(&mut bytes).await {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn messages_end_where_their_status_and_method_say() {
    for (method, answer, status, length) in [
        (
            "GET",
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "200",
            Some("2"),
        ),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200", Some("5")),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304", None),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "204", None),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", "204", None),
        (
            "GET",
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "204",
            None,
        ),
    ] {
        let bench = bench(server_of(answer).await, None).await;
        let mut stream = TcpStream::connect(bench.socket).await.unwrap();
        // The second request is on the same connection.
        for _ in 0..2 {
            let request = format!("{method} / HTTP/1.1\r\nHost: a.example\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            let found = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            assert!(head.starts_with(&format!("http/1.1 {status} ")), "{answer}: {head}");
            assert_eq!(found, length, "{answer}: {head}");
            if status == "200" && method == "GET" {
                stream.read_exact(&mut [0; 2]).await.unwrap();
            }
        }
    }
}
