//! What engines see of a request, and what becomes of an answer when the sidecar is stopped.

use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    fixture::{CHAT, Engine, chat, start},
    peer::{Peer, Then, asked, exchanged, json_answer, until},
};

fn flags(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|flag| (*flag).to_owned()).collect()
}

#[tokio::test]
async fn headers_that_steer_the_sidecar_reach_nobody_behind_it() {
    let decode = Peer::start(json_answer("{}"), Then::Close).await;
    let prefill = Peer::start(json_answer("{\"kv_transfer_params\":{}}"), Then::Close).await;
    let (sidecar, _end) = start(decode.address.port(), []).await;
    let steering = format!(
        "x-prefiller-host-port: {}\r\nX-Encoder-Hosts-Ports: a:1\r\nx-kv-cache-source-host-port: a:1\r\n",
        prefill.address
    );
    for (method, path) in [("GET", "/v1/models"), ("POST", "/v1/embeddings"), ("POST", CHAT)] {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{steering}");
        let answer = exchanged(sidecar, &format!("{head}Content-Length: 2\r\n\r\n{{}}")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        let mut seen = vec![decode.last()];
        seen.extend((path == CHAT).then(|| prefill.last()));
        for seen in seen {
            let seen = seen.to_ascii_lowercase();
            for name in ["x-prefiller-host-port", "x-encoder-hosts-ports", "x-kv-cache-source-host-port"] {
                assert!(!seen.contains(name), "{path}: {seen}");
            }
        }
    }
    assert_eq!(prefill.asked(), 1, "only what an engine divides is divided");
}

#[tokio::test]
async fn a_prefill_is_asked_for_what_the_sidecar_can_read() {
    let decode = Peer::start(json_answer("{\"choices\":[]}"), Then::Close).await;
    let prefill = Peer::start(json_answer("{\"kv_transfer_params\":{}}"), Then::Close).await;
    for connector in ["nixlv2", "shared-storage", "offloading"] {
        let connector = format!("--kv-connector={connector}");
        let (sidecar, _end) = start(decode.address.port(), flags(&[&connector])).await;
        let request = asked(Some(prefill.address), &json!({"messages": [], "stream": true}).to_string());
        let request = request.replacen("Host: localhost", "Host: localhost\r\nAccept-Encoding: gzip", 1);
        let before = prefill.asked();
        exchanged(sidecar, &request).await;
        until("the prefiller is asked", &prefill.asked, before + 1).await;
        let seen = prefill.last();
        assert!(seen.contains("accept-encoding: identity"), "{connector}: {seen}");
        assert!(!seen.contains("\"stream\":true"), "{connector}: {seen}");
        assert!(decode.last().contains("\"stream\":true"), "{connector}: {}", decode.last());
    }
}

#[tokio::test]
async fn a_client_that_leaves_the_stream_of_a_decoder_that_is_asked_first_ends_only_its_request() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let decode = Peer::start(head.into(), Then::Wait).await;
    let prefill = Peer::start(json_answer("{}"), Then::Close).await;
    let (sidecar, _end) = start(decode.address.port(), flags(&["--kv-connector=shared-storage"])).await;
    let body = json!({"messages": [], "stream": true, "cache_hit_threshold": 0.5}).to_string();
    for left in 1..=2 {
        let mut client = TcpStream::connect(("127.0.0.1", sidecar)).await.unwrap();
        client.write_all(asked(Some(prefill.address), &body).as_bytes()).await.unwrap();
        until("the decoder is asked", &decode.asked, left).await;
        drop(client);
        until("the decoder is left", &decode.left, left).await;
    }
    assert_eq!(prefill.asked(), 0, "the decoder had not decided");
}

#[tokio::test]
async fn a_sidecar_that_is_stopped_lets_running_answers_end_and_takes_no_more() {
    let decode = Engine::start(&["--inter-token-latency", "100ms"]).await;
    let prefill = Engine::start(&[]).await;
    let (sidecar, end) = start(decode.address.port(), []).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = chat();
    request["stream"] = json!(true);
    let asking = client
        .post(format!("http://127.0.0.1:{sidecar}{CHAT}"))
        .header("x-prefiller-host-port", prefill.address.to_string())
        .json(&request);
    let mut answer = asking.send().await.unwrap();
    let mut said = answer.chunk().await.unwrap().unwrap().to_vec();
    drop(end);
    while let Some(more) = answer.chunk().await.unwrap() {
        said.extend_from_slice(&more);
    }
    let said = String::from_utf8(said).unwrap();
    assert!(said.ends_with("data: [DONE]\n\n"), "{said}");
    assert!(TcpStream::connect(("127.0.0.1", sidecar)).await.is_err(), "it still listens");
}
