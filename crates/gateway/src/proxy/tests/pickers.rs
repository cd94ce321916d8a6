//! Requests that a picker decides, and the end of a picker.

use super::{super::headers, *};

#[tokio::test]
async fn a_pools_answer_streams_through_the_picker_chunk_by_chunk() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "30ms"]).await;
    let script = Script { destination: simulator.to_string(), ..Script::default() };
    let picker = picker(&shutdown, script.clone()).await;
    let bench = bench(Some(picker), simulator, &[], "FailClose").await;
    let response = bench.ask("/pool", true).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-went-into-resp-headers"], "true");
    let mut chunks = response.bytes_stream();
    let first = chunks.next().await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&first).contains("[DONE]"), "the first chunk holds the whole answer");
    let mut bytes = first.len();
    let mut last = first;
    while let Some(chunk) = chunks.next().await {
        last = chunk.unwrap();
        bytes += last.len();
    }
    assert!(last.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(bytes, *script.response_bytes.lock());
    assert_eq!(*script.seen_destination.lock(), None, "a client must not choose the endpoint");
}

#[tokio::test]
async fn a_picker_that_changes_nothing_need_not_send_the_answer_back() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let script = Script { destination: simulator.to_string(), keeps: true, ..Script::default() };
    let picker = picker(&shutdown, script.clone()).await;
    let bench = bench(Some(picker), simulator, &[], "FailClose").await;
    for stream in [false, true] {
        *script.response_bytes.lock() = 0;
        let answer = bench.ask("/pool", stream).await.text().await.unwrap();
        assert_eq!(answer.len(), *script.response_bytes.lock(), "{answer}");
        assert!(answer.ends_with(if stream { "data: [DONE]\n\n" } else { "}" }), "{answer}");
    }
}

#[tokio::test]
async fn a_dead_choice_of_the_picker_costs_no_request() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let script = Script { destination: "127.0.0.1:1".into(), ..Script::default() };
    let picker = picker(&shutdown, script).await;
    let bench = bench(Some(picker), simulator, &[], "FailClose").await;
    let response = bench.ask("/pool", false).await;
    assert_eq!(response.status(), 200);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["usage"]["completion_tokens"], 12);
}

#[tokio::test]
async fn without_a_picker_the_failure_mode_decides() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let open = bench(None, simulator, &[], "FailOpen").await;
    assert_eq!(open.ask("/pool", false).await.status(), 200);
    let closed = bench(None, simulator, &[], "FailClose").await;
    assert_eq!(closed.ask("/pool", false).await.status(), 503);
    let gone: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let unreachable = bench(Some(gone), simulator, &[], "FailOpen").await;
    assert_eq!(unreachable.ask("/pool", false).await.status(), 200);
}

#[tokio::test]
async fn the_pickers_refusal_is_the_answer() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let picker = picker(&shutdown, Script { refuse: Some(429), ..Script::default() }).await;
    let bench = bench(Some(picker), simulator, &[], "FailOpen").await;
    let response = bench.ask("/pool", false).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["content-type"], "application/json");
    let error = json!({"message": "no", "type": "Too Many Requests", "param": null, "code": 429});
    assert_eq!(response.json::<Value>().await.unwrap(), json!({"error": error}));
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_work_behind_the_picker() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "200ms"]).await;
    let script = Script { destination: simulator.to_string(), ..Script::default() };
    let picker = picker(&shutdown, script).await;
    let bench = bench(Some(picker), simulator, &[], "FailClose").await;
    let mut chunks = bench.ask("/pool", true).await.bytes_stream();
    chunks.next().await.unwrap().unwrap();
    drop(chunks);
    for _ in 0..200 {
        let page = bench
            .client
            .get(format!("http://{simulator}/metrics"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        if page.lines().any(|line| line.starts_with("vllm:num_requests_running") && line.ends_with(" 0")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the abandoned request is still running");
}

/// Creates a picker that dies with the returned token, together with its connections.
async fn mortal(script: Script) -> (SocketAddr, CancellationToken) {
    let life = CancellationToken::new();
    (picker(&life, script).await, life)
}

#[tokio::test]
async fn a_response_goes_on_when_the_picker_dies_under_it() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "20ms"]).await;
    for mode in ["FailOpen", "FailClose"] {
        for rename in [None, Some("another")] {
            let script = Script { destination: simulator.to_string(), rename, ..Script::default() };
            let (picker, life) = mortal(script).await;
            let bench = bench(Some(picker), simulator, &[], mode).await;
            let mut chunks = bench.ask("/pool", true).await.bytes_stream();
            let mut text = String::new();
            while text.matches("data: ").count() < 3 {
                text += std::str::from_utf8(&chunks.next().await.unwrap().unwrap()).unwrap();
            }
            life.cancel();
            while let Some(chunk) = chunks.next().await {
                text += std::str::from_utf8(&chunk.unwrap()).unwrap();
            }
            assert!(text.ends_with("data: [DONE]\n\n"), "{mode}: {text}");
            let tokens = text.matches(r#""content":""#).count();
            assert!((12..=14).contains(&tokens), "{mode}: every chunk once: {text}");
        }
    }
}

#[tokio::test]
async fn a_request_is_decided_without_the_picker_when_it_dies_while_it_decides() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    for (mode, status) in [("FailOpen", 200), ("FailClose", 503)] {
        let script = Script { undecided: true, ..Script::default() };
        let (stuck, (picker, life)) = (script.stuck.clone(), mortal(script).await);
        let bench = bench(Some(picker), simulator, &[], mode).await;
        let killer = async {
            stuck.notified().await;
            life.cancel();
        };
        let (response, ()) = tokio::join!(bench.ask("/pool", false), killer);
        assert_eq!(response.status(), status, "{mode}");
    }
}

#[tokio::test]
async fn another_picker_decides_when_the_first_one_dies() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    // All pickers of a Service have the same port and different addresses.
    let good = Script { destination: simulator.to_string(), ..Script::default() };
    let good = picker(&shutdown, good).await;
    let gone = SocketAddr::new("127.0.0.9".parse().unwrap(), good.port());
    for _ in 0..4 {
        let bench = bench_pickers(&[gone, good], simulator).await;
        assert_eq!(bench.ask("/pool", false).await.status(), 200);
    }
}

#[tokio::test]
async fn what_only_a_picker_may_say_does_not_pass() {
    let shutdown = CancellationToken::new();
    let seen: Arc<Mutex<Option<http::HeaderMap>>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let echo = listener.local_addr().unwrap();
    let sink = seen.clone();
    let connection = move |stream, _| {
        let sink = sink.clone();
        async move {
            let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                *sink.lock() = Some(request.headers().clone());
                async { Ok::<_, std::convert::Infallible>(http::Response::new(String::from("ok"))) }
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        }
    };
    let end = shutdown.clone();
    tokio::spawn(async move { longboat_accept::until(&end, listener, 8, connection).await });
    let bench = bench(None, echo, &[echo], "FailOpen").await;
    for path in ["/pool", "/svc"] {
        let url = format!("{}{path}/v1/completions", bench.url);
        let request = headers::routing_headers().fold(bench.client.post(url), |request, name| {
            request.header(name, "203.0.113.1:1").header("connection", "close")
        });
        assert_eq!(request.body("{}").send().await.unwrap().status(), 200);
        let arrived = seen.lock().take().unwrap();
        assert!(headers::routing_headers().all(|name| !arrived.contains_key(name)), "{path}: {arrived:?}");
    }
}

#[tokio::test]
async fn a_picker_learns_the_status_of_a_request_that_no_endpoint_answers() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--time-to-first-token", "30s"]).await;
    let script = Script { destination: simulator.to_string(), ..Script::default() };
    let late = picker(&shutdown, script.clone()).await;
    let bench = bench(Some(late), simulator, &[], "FailClose").await;
    let response = bench.ask("/hurried/pool", false).await;
    assert_eq!((response.status().as_u16(), script.seen_status.lock().as_deref()), (504, Some("504")));
    assert!(response.text().await.unwrap().contains("the request timeout of the route"));

    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let script = Script { destination: nobody.to_string(), ..Script::default() };
    let dead = picker(&shutdown, script.clone()).await;
    let bench = self::bench(Some(dead), nobody, &[], "FailClose").await;
    let response = bench.ask("/pool", false).await;
    assert_eq!((response.status().as_u16(), script.seen_status.lock().as_deref()), (502, Some("502")));
}
