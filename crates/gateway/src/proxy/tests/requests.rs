//! Which requests pass, and where they go without a picker.

use http::Version;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::*;

#[tokio::test]
async fn a_service_is_reached_past_an_endpoint_that_is_gone() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    // Nothing listens on this address. The port is the same, as for all endpoints of a slice.
    let gone = SocketAddr::new("127.0.0.9".parse().unwrap(), simulator.port());
    let bench = bench(None, simulator, &[gone, simulator], "FailOpen").await;
    for _ in 0..8 {
        let response = bench.ask("/svc", false).await;
        assert_eq!(response.status(), 200);
    }
    assert_eq!(bench.client.get(format!("{}/nothing", bench.url)).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_model_is_reached_where_the_route_of_its_service_leads() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--served-model-name", "m", "odd"]).await;
    let bench = bench(None, simulator, &[simulator], "FailOpen").await;
    // The URL of this service already has the path of the API in it.
    let body = json!({"model": "odd", "max_tokens": 2, "messages": [{"role": "user", "content": "hello"}]});
    let asked = bench.client.post(format!("{}/v1/chat/completions", bench.url)).json(&body);
    let answer = asked.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
}

/// Starts a server that answers each request in HTTP/1.0 with the length of its body.
async fn counting_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).await.unwrap();
                    match line.to_ascii_lowercase().split_once("content-length:") {
                        Some((_, value)) => length = value.trim().parse().unwrap(),
                        None if line.trim().is_empty() => break,
                        None => {}
                    }
                }
                let read =
                    tokio::io::copy(&mut (&mut stream).take(length), &mut tokio::io::sink()).await.unwrap();
                let text = read.to_string();
                let answer = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_body_too_long_for_the_buffer_is_sent_all_the_same_and_the_answer_has_our_version() {
    let server = counting_server().await;
    let bench = bench(None, server, &[server], "FailOpen").await;
    for path in ["/mirrored", "/retried", "/svc"] {
        for length in [10, 65 << 20] {
            let asked = bench.client.post(format!("{}{path}/x", bench.url)).body(vec![0; length]);
            let answer = asked.send().await.unwrap();
            assert_eq!(
                (answer.status().as_u16(), answer.version()),
                (200, Version::HTTP_11),
                "{path} {length}"
            );
            assert_eq!(answer.text().await.unwrap(), length.to_string(), "{path}");
        }
    }
}

/// Sends these bytes, and returns the response up to the end of the connection.
async fn raw(bench: &Bench, bytes: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", bench.port)).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn requests_with_two_meanings_or_for_foreign_hosts_are_refused() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let bench = bench(None, simulator, &[simulator], "FailOpen").await;
    let with_coding = |coding: &str| {
        format!(
            "GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n"
        )
    };
    let smuggled = "0\r\n\r\nGET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (request, status) in [
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_owned(), "200"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://localhost:3000\r\nConnection: close\r\n\r\n".to_owned(), "200"),
        ("GET /svc/v1/models HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET /svc/v1/models HTTP/1.0\r\n\r\n".to_owned(), "200"),
        ("GET /svc/v1/models HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_owned(), "400"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: a@localhost\r\n\r\n".to_owned(), "400"),
        ("GET http://localhost/svc/v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned(), "200"),
        ("GET http://evil.example/svc/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "403"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), "403"),
        ("GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n".to_owned(), "403"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n".to_owned(), "403"),
        ("GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n".to_owned(), "403"),
        (
            format!(
                "POST /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{smuggled}",
                smuggled.len()
            ),
            "400",
        ),
        (with_coding("chunked"), "200"),
        (with_coding("gzip, chunked"), "501"),
        (with_coding("chunked\r\nTransfer-Encoding: chunked"), "501"),
    ] {
        let answer = raw(&bench, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) || answer.starts_with(&format!("HTTP/1.0 {status}")), "{request}\n{answer}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{request}\n{answer}");
    }
    // A valid request before such a request on the same connection is served; one after it is not.
    let fine = "GET /svc/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let ambiguous = "POST /svc/v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let answers = raw(&bench, &[fine, fine, ambiguous, fine].concat()).await;
    let codes: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(codes, ["200", "200", "400"], "{answers}");
}

#[tokio::test]
async fn clients_of_a_models_api_get_refusals_as_objects() {
    let bench = bench(None, "127.0.0.1:1".parse().unwrap(), &[], "FailClose").await;
    for (path, status, message) in [
        ("/svc/v1/chat/completions", 503, "no endpoint is ready"),
        ("/pool/v1/models", 503, "the pool has no ready endpoint picker"),
        ("/odd/chat/completions", 503, "no endpoint is ready"),
        ("/nobody/v1/embeddings", 404, "no HTTPRoute matches /nobody/v1/embeddings"),
        ("/v1/", 400, "the body must be a JSON object"),
    ] {
        let answer = bench.client.post(format!("{}{path}", bench.url)).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.headers()["content-type"], "application/json", "{path}");
        let error: Value = answer.json().await.unwrap();
        assert!(error["error"]["message"].as_str().unwrap().contains(message), "{path}: {error}");
    }
    let answer = bench.client.get(format!("{}/page", bench.url)).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(answer.text().await.unwrap(), "longboat gateway: no HTTPRoute matches /page\n");
}

#[tokio::test]
async fn a_body_that_is_wrong_is_the_clients_error_and_not_the_back_ends() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let bench = bench(None, simulator, &[simulator], "FailOpen").await;
    for path in ["/svc", "/svc/v1/chat/completions", "/pool/v1/chat/completions"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"
        );
        let answer = raw(&bench, &request).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(
            answer.contains("longboat gateway: the request body cannot be read to its end: "),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn the_root_says_what_is_served_and_routes_by_the_model_of_the_body() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &[]).await;
    let guard = Guard { origins: vec!["https://chat.example".into()], ..Guard::default() };
    let bench = bench_with(None, simulator, &[simulator], "FailOpen", guard).await;
    let get = |path: &str, accept: &'static str| {
        bench.client.get(format!("{}{path}", bench.url)).header("accept", accept).send()
    };
    let index: Value = get("/", "application/json").await.unwrap().json().await.unwrap();
    assert_eq!(index["services"][0]["url"], format!("{}/svc", bench.url));
    assert!(get("/", "*/*").await.unwrap().text().await.unwrap().contains("ns/qwen"));
    let models: Value = get("/v1/models", "*/*").await.unwrap().json().await.unwrap();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("m")));
    assert_eq!(get("/v1/models/m", "*/*").await.unwrap().status(), 200);
    assert_eq!(get("/v1/models/n", "*/*").await.unwrap().status(), 404);
    // Ports of other Gateways serve nothing but their routes.
    for path in ["/", "/v1/models", "/v1/models/m"] {
        let url = format!("{}{path}", bench.further_url);
        assert_eq!(bench.client.get(url).send().await.unwrap().status(), 404, "{path}");
    }

    let ask = |model: Value| {
        let body = json!({"messages": [{"role": "user", "content": "x".repeat(300_000)}], "max_tokens": 2, "model": model});
        let url = format!("{}/v1/chat/completions", bench.url);
        bench.client.post(url).header("origin", "https://chat.example").json(&body).send()
    };
    let response = ask(json!("m")).await.unwrap();
    assert_eq!(response.headers()["access-control-allow-origin"], "https://chat.example");
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["usage"]["completion_tokens"], 2);
    let response = ask(json!("nobody")).await.unwrap();
    assert_eq!(response.status(), 404);
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["code"], "model_not_found");
    assert_eq!(error["error"]["message"], "The model `nobody` does not exist: there is `m`, `odd`");
    for model in [json!(null), json!(5)] {
        assert_eq!(ask(model).await.unwrap().status(), 400);
    }
    let preflight = bench
        .client
        .request(reqwest::Method::OPTIONS, format!("{}/v1/chat/completions", bench.url))
        .header("origin", "https://chat.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type")
        .send()
        .await
        .unwrap();
    assert_eq!(preflight.status(), 204);
    assert_eq!(preflight.headers()["access-control-allow-headers"], "content-type");
}

/// A server that answers every request with these bytes, and then closes the connection.
async fn dying_server(shutdown: &CancellationToken, answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connection = move |mut stream: TcpStream, _| {
        let answer = answer.clone();
        async move {
            let mut request = vec![0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    };
    let end = shutdown.clone();
    tokio::spawn(async move { longboat_accept::until(&end, listener, 8, connection).await });
    address
}

#[tokio::test]
async fn a_stream_whose_server_dies_ends_with_an_error_event_after_the_last_whole_one() {
    let shutdown = CancellationToken::new();
    let message = "the model server ended in the middle of this answer: send the request again";
    let chat = r#"data: {"error":{"code":502,"message":"M","param":null,"type":"InternalServerError"}}"#;
    let named = concat!(
        "event: error\n",
        r#"data: {"code":"server_error","error":{"message":"M","type":"api_error"},"message":"M","param":null,"type":"error"}"#
    );
    for (streamed, end) in [
        (
            "data: {\"a\":1}\n\n+data: {\"b\":2}\n+\ndata: {\"c\"",
            format!("data: {{\"a\":1}}\n\ndata: {{\"b\":2}}\n\n{chat}\n\n"),
        ),
        ("event: delta\r\ndata: 1\r\n\r\nevent: del", format!("event: delta\r\ndata: 1\r\n\r\n{named}\n\n")),
        ("data: 1\n\ndata: [DONE]\n\n", "data: 1\n\ndata: [DONE]\n\n".to_owned()),
        ("", format!("{chat}\n\n")),
    ] {
        let chunks = streamed.split('+').filter(|chunk| !chunk.is_empty());
        let chunks = chunks.map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()));
        let body = chunks.collect::<Vec<_>>().concat();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let server = dying_server(&shutdown, format!("{head}{body}")).await;
        let bench = bench(None, server, &[server], "FailOpen").await;
        for path in ["/svc", "/pool"] {
            let text = bench.ask(path, true).await.text().await.unwrap();
            assert_eq!(text.replace(message, "M"), end, "{path}: {streamed}");
        }
    }
    // Any other response can only be torn.
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let server = dying_server(&shutdown, format!("{head}3\r\n{{\"a\r\n")).await;
    let bench = bench(None, server, &[server], "FailOpen").await;
    bench.ask("/svc", false).await.text().await.unwrap_err();
}

#[tokio::test]
async fn a_stream_whose_time_is_over_ends_with_an_error_event() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "100ms"]).await;
    let script = Script { destination: simulator.to_string(), ..Script::default() };
    let picker = picker(&shutdown, script).await;
    let bench = bench(Some(picker), simulator, &[simulator], "FailClose").await;
    let error = json!({"error": {
        "message": "the request timeout of the route expired", "type": "InternalServerError", "param": null, "code": 504,
    }});
    for path in ["/hurried/svc", "/hurried/pool"] {
        let text = bench.ask(path, true).await.text().await.unwrap();
        let events: Vec<_> = text.split_terminator("\n\n").collect();
        let last = events.last().and_then(|event| event.strip_prefix("data: ")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(last).unwrap(), error, "{path}: {text}");
        assert!(events.len() > 1 && text.ends_with("\n\n"), "{path}: {text}");
    }
}

/// A server that reads each request and then dies, and keeps the first lines of the requests.
async fn deadly_server(
    shutdown: &CancellationToken,
    address: &str,
    seen: Arc<Mutex<Vec<String>>>,
) -> SocketAddr {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connection = move |mut stream: TcpStream, _| {
        let seen = seen.clone();
        async move {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&request[..read]);
            seen.lock().extend(text.split_whitespace().next().map(str::to_owned));
        }
    };
    let end = shutdown.clone();
    tokio::spawn(async move { longboat_accept::until(&end, listener, 8, connection).await });
    address
}

#[tokio::test]
async fn a_request_that_could_take_effect_twice_is_not_repeated() {
    let shutdown = CancellationToken::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let first = deadly_server(&shutdown, "127.0.0.1:0", seen.clone()).await;
    let second = deadly_server(&shutdown, &format!("127.0.0.9:{}", first.port()), seen.clone()).await;
    let bench = bench(None, first, &[first, second], "FailOpen").await;
    for (method, body, expected) in
        [("GET", "", 2), ("DELETE", "", 2), ("POST", "", 1), ("POST", "{}", 1), ("PATCH", "", 1)]
    {
        let request = format!(
            "{method} /svc HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = raw(&bench, &request).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert_eq!(*seen.lock(), vec![method; expected], "{body:?}");
        seen.lock().clear();
    }
}

#[tokio::test]
async fn a_protocol_that_nobody_has_asked_for_is_a_bad_gateway() {
    let shutdown = CancellationToken::new();
    let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
    let server = dying_server(&shutdown, switched.to_owned()).await;
    let bench = bench(None, server, &[server], "FailOpen").await;
    for headers in ["", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"]
    {
        let request = format!(
            "GET /svc HTTP/1.1\r\nHost: localhost\r\n{headers}\r\nGET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(&bench, &request).await;
        let codes: Vec<_> = answer.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(codes, ["502", "200"], "{answer}");
    }
    let connect = raw(&bench, "CONNECT /svc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(connect.starts_with("HTTP/1.1 501 "), "{connect}");
}

#[tokio::test]
async fn the_length_of_an_answer_is_that_of_the_body_which_was_read() {
    let shutdown = CancellationToken::new();
    let both =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let server = dying_server(&shutdown, both.to_owned()).await;
    let bench = bench(None, server, &[server], "FailOpen").await;
    let answer = bench.ask("/svc", false).await;
    assert_eq!(answer.text().await.unwrap(), "hello");
    let coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let server = dying_server(&shutdown, coded.to_owned()).await;
    let bench = self::bench(None, server, &[server], "FailOpen").await;
    assert_eq!(bench.ask("/svc", false).await.status(), 502);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let bench = bench(None, "127.0.0.1:1".parse().unwrap(), &[], "FailOpen").await;
    let settings = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";
    let begun = [settings, "\0\0\u{5}\u{1}"].concat();
    for sent in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHos", settings, &begun] {
        let mut stream = TcpStream::connect(("127.0.0.1", bench.port)).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let closed = tokio::time::timeout(Duration::from_hours(1), stream.read_to_end(&mut read)).await;
        assert!(closed.is_ok(), "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_of_its_body_is_told_so_unless_it_has_an_answer() {
    // The system accepts connections, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let bench = bench(None, address, &[address], "FailOpen").await;
    let begun = "POST /svc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nho";
    let answer = raw(&bench, begun).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");

    // The connection of the first request comes first.
    silent.accept().await.unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", bench.port)).await.unwrap();
    client.write_all(begun.as_bytes()).await.unwrap();
    let (mut server, _) = silent.accept().await.unwrap();
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh").await.unwrap();
    let mut answer = vec![0; 4096];
    let read = client.read(&mut answer).await.unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 200 "));
    tokio::time::sleep(Duration::from_mins(10)).await;
    client.write_all(b"la").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"hola") {
        seen.push(server.read_u8().await.unwrap());
    }
    server.write_all(b"i").await.unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with('i'), "{rest}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_body_slowly_for_a_picker_is_told_so() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let bench = bench(None, address, &[address], "FailOpen").await;
    let mut client = TcpStream::connect(("127.0.0.1", bench.port)).await.unwrap();
    client.write_all(b"POST /pool HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 4096];
    let read = loop {
        client.write_all(b" ").await.unwrap();
        let pause = Duration::from_secs(30);
        if let Ok(read) = tokio::time::timeout(pause, client.read(&mut answer)).await {
            break read.unwrap();
        }
    };
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("within 300 s"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_route_holds_for_a_client_that_does_not_read() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let bench = bench(None, address, &[address], "FailOpen").await;
    let mut client = TcpStream::connect(("127.0.0.1", bench.port)).await.unwrap();
    client.write_all(b"GET /hurried/svc HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let (mut back_end, _) = server.accept().await.unwrap();
    back_end.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(1 << 16));
    let sending = async { while back_end.write_all(chunk.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(Duration::from_mins(5), sending).await.expect("the back end is free");
}

#[tokio::test]
async fn a_back_end_that_sends_informational_responses_without_an_end_has_failed() {
    let shutdown = CancellationToken::new();
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let answer = |count| format!("{}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", hints.repeat(count));
    let server = dying_server(&shutdown, answer(100)).await;
    let bench = bench(None, server, &[server], "FailOpen").await;
    assert_eq!(bench.ask("/svc", false).await.text().await.unwrap(), "hi");
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let flooding = tokio::spawn(async move {
        let (mut stream, _) = server.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        while stream.write_all(hints.as_bytes()).await.is_ok() {}
    });
    let bench = self::bench(None, address, &[address], "FailOpen").await;
    let response = bench.ask("/svc", false).await;
    assert_eq!(response.status(), 502);
    assert!(response.text().await.unwrap().contains("100 informational responses"));
    flooding.await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_asks_whether_the_machine_of_a_back_end_is_there() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--inter-token-latency", "1h"]).await;
    let bench = bench(None, simulator, &[simulator], "FailOpen").await;
    let _waiting = bench.ask("/svc", true).await;
    // The sixth field is the timer that runs: 2 is the one of keepalive.
    let peer = format!("0100007F:{:04X}", simulator.port());
    let has_timer = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.get(2) == Some(&peer.as_str()) && fields.get(5).is_some_and(|timer| timer.starts_with("02:"))
    };
    for _ in 0..2000 {
        if std::fs::read_to_string("/proc/self/net/tcp").unwrap().lines().any(has_timer) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no connection to the back end has keepalive");
}
