//! Invalid requests, and the shutdown of the server.

use std::time::Duration;

use futures::StreamExt;
use http::Version;
use longboat_controller::webhook::{Limits, Settings};
use longboat_testkit::TestCluster;
use reqwest::{Body, Client, Method, Response};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use super::{MUTATE, Replica, VALIDATE, client, install, review, short, trusted};
use crate::setup::service;

/// How long to wait for what the server does by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Creates a replica with small limits, and a client that trusts it.
async fn reached(settings: Settings) -> (TestCluster, Replica, Client) {
    let world = TestCluster::empty().await;
    let replica = Replica::with(&world, settings, None).await;
    install(&world, &replica).await;
    replica.ready(&world).await;
    let client = client(&trusted(&world).await);
    (world, replica, client)
}

async fn post(replica: &Replica, client: &Client, path: &str, body: impl Into<Body>) -> Response {
    let request = client.post(replica.url(path)).header("content-type", "application/json");
    request.body(body).send().await.unwrap()
}

#[tokio::test]
async fn requests_that_make_no_sense_get_an_answer_that_does() {
    let (_world, replica, client) = reached(Settings::default()).await;
    for (body, what) in [
        ("", "not an AdmissionReview"),
        ("{", "not an AdmissionReview"),
        ("[]", "not an AdmissionReview"),
        ("{}", "expected an AdmissionReview"),
        (r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}"#, "admission.k8s.io/v2"),
        (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "no request"),
    ] {
        let answer = post(&replica, &client, VALIDATE, body).await;
        assert_eq!(answer.status(), 400, "{body}");
        let text = answer.text().await.unwrap();
        assert!(text.contains(what), "{body}: {text}");
    }
    let answer = post(&replica, &client, "/validate", "{}").await;
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains(MUTATE));
    let answer = client.request(Method::GET, replica.url(MUTATE)).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["allow"].to_str().unwrap()), (405, "POST"));
    let answer = client.post(replica.url(MUTATE)).body("{}").send().await.unwrap();
    assert_eq!(answer.status(), 415);
    // The server still works.
    let answer = post(&replica, &client, MUTATE, review(&service("llm", json!({}))).to_string()).await;
    assert_eq!(answer.json::<Value>().await.unwrap()["response"]["allowed"], true);
}

#[tokio::test]
async fn a_repeated_leading_slash_is_one() {
    let (_world, replica, client) = reached(Settings::default()).await;
    let body = review(&service("llm", json!({}))).to_string();
    let answer = post(&replica, &client, &format!("//{}", MUTATE.trim_start_matches('/')), body).await;
    let answer: Value = answer.json().await.unwrap();
    assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("7"), &json!(true)));
}

#[tokio::test]
async fn both_versions_of_http_are_served() {
    let (world, replica, newer) = reached(Settings::default()).await;
    let body = || review(&service("llm", json!({}))).to_string();
    assert_eq!(post(&replica, &newer, MUTATE, body()).await.version(), Version::HTTP_2);
    let tls = longboat_tls::client_config(&trusted(&world).await, &[b"http/1.1"]).unwrap();
    let older = Client::builder().tls_backend_preconfigured((*tls).clone()).build().unwrap();
    assert_eq!(post(&replica, &older, MUTATE, body()).await.version(), Version::HTTP_11);
}

#[tokio::test]
async fn http2_can_be_turned_off() {
    let settings = Settings { enable_http2: Some(false), ..Settings::default() };
    let (_world, replica, client) = reached(settings).await;
    let body = review(&service("llm", json!({}))).to_string();
    assert_eq!(post(&replica, &client, MUTATE, body).await.version(), Version::HTTP_11);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_read() {
    let limits =
        Limits { admission_body: 10_000, conversion_body: 20_000, bodies: 30_000, ..Limits::default() };
    let (_world, replica, client) = reached(Settings { limits, ..Settings::default() }).await;
    assert_eq!(post(&replica, &client, MUTATE, vec![b' '; 10_001]).await.status(), 413);
    assert_eq!(post(&replica, &client, MUTATE, vec![b' '; 10_000]).await.status(), 400);
    assert_eq!(post(&replica, &client, "/convert", vec![b' '; 20_001]).await.status(), 413);
    // Without a length, the size only shows while the body is received.
    let pieces = futures::stream::iter((0..100).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1000])));
    assert_eq!(post(&replica, &client, MUTATE, Body::wrap_stream(pieces)).await.status(), 413);
}

#[tokio::test]
async fn large_reviews_are_answered_too() {
    let (_world, replica, client) = reached(Settings::default()).await;
    let mut object = service("llm", json!({}));
    object["metadata"]["annotations"] = json!({"note": "x".repeat(1 << 20)});
    let answer = post(&replica, &client, MUTATE, review(&object).to_string()).await;
    assert_eq!(answer.json::<Value>().await.unwrap()["response"]["allowed"], true);
}

#[tokio::test]
async fn a_list_of_old_objects_is_converted_at_once_and_in_order() {
    let (_world, replica, client) = reached(Settings::default()).await;
    let objects: Vec<Value> = (0..500)
        .map(|index| {
            let mut object = service(&format!("llm-{index}"), json!({}));
            object["apiVersion"] = json!("serving.kserve.io/v1alpha1");
            object
        })
        .collect();
    let ask = |desired: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "8", "desiredAPIVersion": desired, "objects": objects},
        })
        .to_string()
    };
    let answer: Value =
        post(&replica, &client, "/convert", ask("serving.kserve.io/v1alpha2")).await.json().await.unwrap();
    assert_eq!(answer["response"]["result"]["status"], "Success");
    let converted = answer["response"]["convertedObjects"].as_array().unwrap();
    let names: Vec<_> = converted.iter().map(|object| &object["metadata"]["name"]).collect();
    let sent: Vec<_> = objects.iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(names, sent);
    assert!(converted.iter().all(|object| object["apiVersion"] == "serving.kserve.io/v1alpha2"));

    let answer: Value =
        post(&replica, &client, "/convert", ask("serving.kserve.io/v9")).await.json().await.unwrap();
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["result"]["status"]),
        (&json!("8"), &json!("Failure"))
    );
    let answer = post(&replica, &client, "/convert", r#"{"kind":"ConversionReview"}"#).await;
    assert_eq!(answer.status(), 400);
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_is_let_go() {
    let (_world, replica, client) = reached(Settings { limits: short(), ..Settings::default() }).await;
    let endless = futures::stream::unfold(true, async |first| {
        if !first {
            std::future::pending::<()>().await;
        }
        Some((Ok::<_, std::io::Error>("{"), false))
    });
    assert_eq!(post(&replica, &client, MUTATE, Body::wrap_stream(endless)).await.status(), 408);
    // A connection without a handshake is closed soon, too.
    let mut silent = TcpStream::connect(replica.webhooks).await.unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, silent.read(&mut [0])).await.unwrap().unwrap(), 0);
}

/// Opens a connection that speaks this protocol.
async fn connect(world: &TestCluster, replica: &Replica, alpn: &[u8]) -> TlsStream<TcpStream> {
    let tls = longboat_tls::client_config(&trusted(world).await, &[alpn]).unwrap();
    let stream = TcpStream::connect(replica.webhooks).await.unwrap();
    let name = std::net::IpAddr::from([127, 0, 0, 1]).into();
    tokio_rustls::TlsConnector::from(tls).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn a_connection_without_requests_is_closed() {
    let limits = Limits { idle: Duration::from_millis(300), ..Limits::default() };
    let (world, replica, _client) = reached(Settings { limits, ..Settings::default() }).await;
    for alpn in [&b"h2"[..], b"http/1.1"] {
        let mut stream = connect(&world, &replica, alpn).await;
        // The connection must be closed, and it does not matter how.
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_of_http2_is_told_that_its_idle_connection_closes() {
    let limits = Limits { idle: Duration::from_millis(300), ..Limits::default() };
    let (world, replica, _client) = reached(Settings { limits, ..Settings::default() }).await;
    let mut stream = connect(&world, &replica, b"h2").await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let goaway = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.expect("a frame GOAWAY comes before the end");
            let [_, high, low, kind, ..] = head;
            if kind == 7 {
                return;
            }
            let mut payload = vec![0; usize::from(u16::from_be_bytes([high, low]))];
            stream.read_exact(&mut payload).await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, goaway).await.unwrap();
}

#[tokio::test]
async fn heads_that_have_no_end_take_bounded_memory_together() {
    let limits = Limits { heads: 64 << 10, ..Limits::default() };
    let (world, replica, client) = reached(Settings { limits, ..Settings::default() }).await;
    let mut begun = futures::stream::FuturesUnordered::new();
    for _ in 0..3 {
        let mut stream = connect(&world, &replica, b"http/1.1").await;
        let head = format!("POST {MUTATE} HTTP/1.1\r\nX: {}", "x".repeat(30 << 10));
        stream.write_all(head.as_bytes()).await.unwrap();
        begun.push(async move { stream.read(&mut [0]).await.unwrap_or_default() });
    }
    let closed = tokio::time::timeout(PATIENCE, begun.next()).await;
    assert_eq!(closed.expect("one of three is closed"), Some(0));
    let answer = post(&replica, &client, MUTATE, review(&service("llm", json!({}))).to_string()).await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn bodies_that_are_announced_and_do_not_come_stop_no_others() {
    let limits =
        Limits { admission_body: 10_000, conversion_body: 20_000, bodies: 30_000, ..Limits::default() };
    let (world, replica, client) = reached(Settings { limits, ..Settings::default() }).await;
    let mut begun = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(&world, &replica, b"http/1.1").await;
        let head = "POST /convert HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 20000\r\n\
                    Expect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = [0; 12];
        let asked = tokio::time::timeout(PATIENCE, stream.read_exact(&mut said)).await;
        asked.expect("the server waits for this body").unwrap();
        assert_eq!(&said, b"HTTP/1.1 100");
        stream.write_all(b"{").await.unwrap();
        begun.push(stream);
    }
    let asking = post(&replica, &client, MUTATE, review(&service("llm", json!({}))).to_string());
    let answer = tokio::time::timeout(PATIENCE, asking).await.expect("an answer");
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn bodies_that_need_more_memory_than_there_is_are_refused_and_not_made_to_wait_for_each_other() {
    let limits =
        Limits { admission_body: 10_000, conversion_body: 20_000, bodies: 30_000, ..Limits::default() };
    let (_world, replica, client) = reached(Settings { limits, ..Settings::default() }).await;
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let end = std::sync::Arc::new(tokio::sync::Notify::new());
    let begin = |bytes: usize| {
        let (arrived, end) = (arrived.clone(), end.clone());
        let pieces = futures::stream::unfold(0, move |step| {
            let (arrived, end) = (arrived.clone(), end.clone());
            async move {
                if step == 1 {
                    let _ = arrived.send(());
                    end.notified().await;
                }
                let piece = if step == 0 { vec![b' '; bytes] } else { b"{}".to_vec() };
                (step < 2).then_some((Ok::<_, std::io::Error>(piece), step + 1))
            }
        });
        post(&replica, &client, "/convert", Body::wrap_stream(pieces))
    };
    let first = async {
        let answer = begin(15_000).await;
        assert_eq!(answer.status(), 400, "it has arrived, and is no review");
    };
    let second = async {
        arrivals.recv().await;
        // The first body may be on its way still, so the second one is as long as both may be together.
        while post(&replica, &client, "/convert", vec![b' '; 20_000]).await.status() != 503 {}
        end.notify_one();
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(first, second) }).await.expect("both are answered");
}

#[tokio::test]
async fn a_request_with_two_lengths_is_refused() {
    let (world, replica, _client) = reached(Settings::default()).await;
    let mut stream = connect(&world, &replica, b"http/1.1").await;
    let head = format!(
        "POST {MUTATE} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The end of the request is uncertain, so the server closes the connection without the ceremony of TLS.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("Content-Length cannot be used together"), "{answer}");
}

#[tokio::test]
async fn a_request_that_has_begun_is_answered_at_the_end() {
    let (_world, replica, client) = reached(Settings::default()).await;
    let text = review(&service("llm", json!({}))).to_string();
    let (head, tail) = (text[..10].to_owned(), text[10..].to_owned());
    let (sent, stopped) = (tokio::sync::Notify::new(), std::sync::Arc::new(tokio::sync::Notify::new()));
    let resume = stopped.clone();
    let sent = std::sync::Arc::new(sent);
    let begun = sent.clone();
    let halves = futures::stream::unfold(Some((0, head, tail)), move |state| {
        let (begun, resume) = (begun.clone(), resume.clone());
        async move {
            let (step, head, tail) = state?;
            if step == 0 {
                Some((Ok::<_, std::io::Error>(head), Some((1, String::new(), tail))))
            } else {
                begun.notify_one();
                resume.notified().await;
                Some((Ok(tail), None))
            }
        }
    });
    let url = replica.url(MUTATE);
    let asking = tokio::spawn(async move {
        let request = client.post(url).header("content-type", "application/json");
        request.body(Body::wrap_stream(halves)).send().await.unwrap().json::<Value>().await.unwrap()
    });
    sent.notified().await;
    // Waits until the server has received the head of the request.
    tokio::time::sleep(Duration::from_millis(100)).await;
    replica.stop.cancel();
    tokio::time::sleep(Duration::from_millis(100)).await;
    stopped.notify_one();
    assert_eq!(asking.await.unwrap()["response"]["allowed"], true);
    replica.task.await.unwrap();
}

#[tokio::test]
async fn probes_tell_what_is_missing() {
    let (_world, replica, _client) = reached(Settings::default()).await;
    assert_eq!(replica.probe("/healthz").await, (200, "ok".to_owned()));
    let (status, report) = replica.probe("/readyz?verbose").await;
    assert_eq!(status, 200);
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines.len(), 7, "{report}");
    assert!(lines.iter().all(|line| line.starts_with("[+]") && line.ends_with(" ok")), "{report}");
    assert_eq!(replica.probe("/livez").await.0, 404);
}
