//! Clients and engines that break the protocol, leave early, or never finish.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    connectors::ways,
    fixture::{CHAT, SidecarFixture, start, way},
    peer::{Peer, Then, asked, exchanged, json_answer, sent, until},
};

#[tokio::test]
async fn a_body_that_breaks_is_the_clients_fault_whether_it_is_held_or_passed_on() {
    let world = SidecarFixture::start(&way("nixlv2", &[]), &[], &[]).await;
    let prefill = format!("x-prefiller-host-port: {}\r\n", world.prefill.address);
    let trailers = "a: b\r\n".repeat(2000);
    let long = "b".repeat(1 << 20);
    for steering in ["", &prefill] {
        for (framing, body, why) in [
            ("Transfer-Encoding: chunked", "2\r\n{}\r\nzz\r\n\r\n", "size"),
            ("Transfer-Encoding: chunked", "2\r\n{}xx", "chunk"),
            ("Transfer-Encoding: chunked", "fffffffffffffffff\r\n", "overflow"),
            ("Transfer-Encoding: chunked", &format!("2;{long}\r\n{{}}\r\n0\r\n\r\n"), "extensions"),
            ("Transfer-Encoding: chunked", &format!("2\r\n{{}}\r\n0\r\n{trailers}\r\n"), "trailers"),
            ("Transfer-Encoding: chunked", &format!("2\r\n{{}}\r\n0\r\na: {long}\r\n\r\n"), "trailers"),
            ("Transfer-Encoding: chunked", "5\r\n{}", "ended early"),
            ("Content-Length: 10", "{}", "ended early"),
        ] {
            let head = format!("POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n{steering}{framing}\r\n\r\n");
            let answer = sent(world.sidecar, &format!("{head}{body}"), why == "ended early").await;
            let told = &answer[..answer.len().min(600)];
            assert!(answer.starts_with("HTTP/1.1 400 "), "{why}, {steering}: {told}");
            assert!(answer.contains("cannot read the body of the request"), "{why}, {steering}: {told}");
            assert!(answer.contains(why), "{why}, {steering}: {told}");
        }
    }
}

#[tokio::test]
async fn what_a_prefiller_answers_costs_one_request_at_most() {
    let decode = Peer::start(json_answer("{}"), Then::Wait).await;
    let (sidecar, _end) = start(decode.address.port(), []).await;
    let long = "x".repeat(17 << 20);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (answer, then, told) in [
        (json_answer("<html>"), Then::Close, "is not a JSON object"),
        (json_answer("[]"), Then::Close, "is not a JSON object"),
        (json_answer(&format!("{{\"kv_transfer_params\":\"{long}\"}}")), Then::Close, "is longer than"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}".into(), Then::Wait, "is longer than"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}".into(), Then::Close, "ended early"),
        (chunked.into(), Then::Repeat(format!("10000\r\n{}\r\n", "x".repeat(0x10000))), "is longer than"),
        (
            "HTTP/1.1 200 OK\r\n".into(),
            Then::Repeat(format!("X: {}\r\n", "y".repeat(1000))),
            "did not answer",
        ),
        ("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".into(), Then::Wait, "101"),
        ("SSH-2.0-OpenSSH\r\n".into(), Then::Close, "did not answer"),
    ] {
        let prefill = Peer::start(answer, then).await;
        let answer = exchanged(sidecar, &asked(Some(prefill.address), "{}")).await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(told), "{told}: {answer}");
        assert_eq!(decode.asked(), 0, "{told}: the decoder was asked");
    }
    // Values that are only passed on are not parsed.
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let prefill = Peer::start(json_answer(&format!("{{\"kv_transfer_params\":{deep}}}")), Then::Wait).await;
    let answer = exchanged(sidecar, &asked(Some(prefill.address), "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = exchanged(sidecar, &asked(Some(prefill.address), &format!("{{\"messages\":{deep}}}"))).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_prefiller_that_never_answers_has_a_time_after_which_the_decoder_may_do_both() {
    let prefill = Peer::start(String::new(), Then::Wait).await;
    let decode = Peer::start(json_answer("{}"), Then::Close).await;
    let flags = |more: &[&str]| {
        [&["--prefill-timeout=200ms"], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let (sidecar, _end) = start(decode.address.port(), flags(&[])).await;
    let answer = exchanged(sidecar, &asked(Some(prefill.address), "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(
        answer.contains(&prefill.address.to_string()) && answer.contains("--prefill-timeout"),
        "{answer}"
    );
    assert_eq!(decode.asked(), 0);
    until("the prefiller is left", &prefill.left, 1).await;
    let (sidecar, _end) = start(decode.address.port(), flags(&["--decode-on-prefill-failure"])).await;
    let answer = exchanged(sidecar, &asked(Some(prefill.address), "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    until("the prefiller is left", &prefill.left, 2).await;
}

#[tokio::test]
async fn what_an_encoder_answers_costs_one_request_at_most() {
    let decode = Peer::start(json_answer("{}"), Then::Close).await;
    let flags = ["--ec-connector=ec-nixl", "--prefill-timeout=200ms"].map(str::to_owned);
    let (sidecar, _end) = start(decode.address.port(), flags).await;
    let image = "{\"type\":\"image_url\",\"image_url\":{\"url\":\"a\"}}";
    let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":[{image},{image}]}}]}}");
    for (answer, then, told) in [
        (json_answer("<html>"), Then::Close, "is not a JSON object"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}".into(), Then::Close, "ended early"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}".into(), Then::Wait, "is longer than"),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".into(), Then::Close, "answered 500"),
        (String::new(), Then::Wait, "--prefill-timeout"),
    ] {
        let encoder = Peer::start(answer, then).await;
        let head = asked(None, &body).replacen(
            "Host: localhost",
            &format!("Host: localhost\r\nx-encoder-hosts-ports: {}", encoder.address),
            1,
        );
        let answer = exchanged(sidecar, &head).await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(told), "{told}: {answer}");
        assert_eq!(decode.asked(), 0, "{told}: the decoder was asked");
    }
}

#[tokio::test]
async fn an_engine_that_leaves_http_is_a_bad_gateway() {
    let answer = "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_owned();
    let decode = Peer::start(answer, Then::Wait).await;
    let (sidecar, _end) = start(decode.address.port(), []).await;
    let answer = exchanged(sidecar, &asked(None, "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("101"), "{answer}");
}

#[tokio::test]
async fn a_stream_that_the_decoder_breaks_does_not_end_well_for_the_client() {
    let prefill = Peer::start(json_answer("{\"kv_transfer_params\":{}}"), Then::Close).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let event = "data: {\"choices\":[{\"finish_reason\":null}]}\n\n";
    let first = format!("{head}{:x}\r\n{event}\r\n", event.len());
    for end in ["", "zz\r\n", "50\r\ndata: {"] {
        let decode = Peer::start(format!("{first}{end}"), Then::Close).await;
        for way in ways().into_iter().filter(|way| !way.name.contains("chunks") && way.name != "mooncake") {
            let flags = way.sidecar.iter().map(|flag| (*flag).to_owned());
            let (sidecar, _end) = start(decode.address.port(), flags).await;
            let request = asked(Some(prefill.address), "{\"messages\":[],\"stream\":true}");
            let answer = exchanged(sidecar, &request).await;
            assert!(answer.contains(event), "{} {end}: {answer}", way.name);
            assert!(!answer.ends_with("0\r\n\r\n"), "{} {end}: {answer}", way.name);
        }
    }
}

#[tokio::test]
async fn an_engine_sees_that_a_client_leaves_in_the_midst_of_its_body() {
    let decode = Peer::start(String::new(), Then::Wait).await;
    let (sidecar, _end) = start(decode.address.port(), []).await;
    let mut client = TcpStream::connect(("127.0.0.1", sidecar)).await.unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
    client.write_all(format!("{head}{}", json!({})).as_bytes()).await.unwrap();
    until("the engine is asked", &decode.asked, 1).await;
    drop(client);
    until("the engine is left", &decode.left, 1).await;
}

/// Sends these bytes and returns the status codes of all responses, up to the end of the connection.
async fn raw(port: u16, bytes: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers).await;
    let answers = String::from_utf8_lossy(&answers).into_owned();
    answers.split("HTTP/1.").skip(1).map(|answer| answer[2..5].to_owned()).collect()
}

#[tokio::test]
async fn a_request_with_several_meanings_is_refused_and_what_follows_it_is_not_read() {
    let world = SidecarFixture::start(&way("nixlv2", &[]), &[], &[]).await;
    let smuggled = "0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (length, chunked) = (format!("Content-Length: {}", smuggled.len()), "Transfer-Encoding: chunked");
    let fine = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /v1/models HTTP/1.0\r\n\r\n";
    for path in [CHAT, "/v1/models", "/health"] {
        for lines in [
            format!("Host: localhost\r\n{length}\r\n{chunked}"),
            format!("Host: localhost\r\n{chunked}\r\n{length}"),
            // A head that is longer than the part that the gateway examines.
            format!("Host: localhost\r\n{length}\r\nX: {}\r\n{chunked}", "x".repeat(700 << 10)),
            "Host: localhost\r\nHost: b".to_owned(),
            "X: a".to_owned(),
            "Host: localhost@b".to_owned(),
        ] {
            let asked = format!("{fine}POST {path} HTTP/1.1\r\n{lines}\r\n\r\n{smuggled}{fine}");
            assert_eq!(
                raw(world.sidecar, &asked).await,
                ["200", "400"],
                "{path}: {}",
                &lines[..lines.len().min(60)]
            );
        }
        let coded = "Host: localhost\r\nTransfer-Encoding: gzip, chunked";
        let asked = format!("{fine}POST {path} HTTP/1.1\r\n{coded}\r\n\r\n{smuggled}{fine}");
        assert_eq!(raw(world.sidecar, &asked).await, ["200", "501"], "{path}");
        let other = format!("GET http://b{path} HTTP/1.1\r\nHost: localhost\r\n\r\n{fine}");
        // The host in the target counts (RFC 9112 §3.2.2).
        assert_eq!(raw(world.sidecar, &other).await, ["403"], "{path}");
    }
    assert!(world.prefill.computed().await < 1.0 && world.decode.computed().await < 1.0);
    let asked = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{chunked}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{last}"
    );
    assert_eq!(
        raw(world.sidecar, &asked).await,
        ["400", "200"],
        "the engine refuses it, and the next one is read"
    );
}

#[tokio::test]
async fn a_request_that_one_chunk_answers_reaches_the_engine_byte_for_byte() {
    let decode = Peer::start(json_answer("{}"), Then::Close).await;
    let (sidecar, _end) = start(decode.address.port(), ["--decode-chunk-size=8".to_owned()]).await;
    // White space, a repeated name and a number beyond 2^53 would change if the body were written anew.
    let body = "{ \"messages\" : [ ],\n\"max_tokens\": 4, \"max_tokens\": 5, \"seed\": 9007199254740993 }";
    exchanged(sidecar, &asked(None, body)).await;
    let seen = decode.last();
    assert!(seen.ends_with(body), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let (sidecar, _end) = start(1, []).await;
    for sent in ["", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0"] {
        let mut stream = TcpStream::connect(("127.0.0.1", sidecar)).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let closed = tokio::time::timeout(Duration::from_hours(1), stream.read_to_end(&mut read)).await;
        assert!(closed.is_ok(), "{sent:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_asks_whether_the_machine_of_a_prefiller_is_there() {
    let prefill = Peer::start(String::new(), Then::Wait).await;
    let (sidecar, _end) = start(1, []).await;
    let request = asked(Some(prefill.address), "{}");
    let _waiting = tokio::spawn(async move { exchanged(sidecar, &request).await });
    until("the prefiller is asked", &prefill.asked, 1).await;
    // The sixth field is the timer that runs: 2 is the one of keepalive.
    let peer = format!("0100007F:{:04X}", prefill.address.port());
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
    panic!("no connection to the prefiller has keepalive");
}

#[tokio::test]
async fn a_client_that_begins_no_handshake_does_not_hold_up_the_end() {
    let (sidecar, end) = start(1, ["--secure-proxy".to_owned()]).await;
    let mut silent = TcpStream::connect(("127.0.0.1", sidecar)).await.unwrap();
    // Connections are accepted in their order, so the silent one is, too.
    assert_eq!(raw(sidecar, "no TLS").await, [""; 0]);
    drop(end);
    let closed = tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "the sidecar waits for the handshake");
}
