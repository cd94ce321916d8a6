use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, time::timeout};

use super::*;
use crate::{body, companion::FAILURES};

const BODY: &[u8] = br#"{"model":"m","prompt":"hi"}"#;

/// A tokenizer that always gives this answer. With `None`, it never answers.
async fn tokenizer(status: u16, answer: Option<&'static str>) -> (String, Arc<AtomicUsize>) {
    longboat_tls::install_default_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let service = service_fn(|request: Request<hyper::body::Incoming>| {
                    count.fetch_add(1, Ordering::SeqCst);
                    async move {
                        assert_eq!(request.uri().path(), "/v1/completions/render");
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        assert_eq!(&body[..], br#"{"model":"other","prompt":"hi"}"#);
                        let Some(answer) = answer else { std::future::pending().await };
                        let response =
                            Response::builder().status(status).body(Full::new(Bytes::from(answer)));
                        Ok::<_, std::convert::Infallible>(response.unwrap())
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (url, asked)
}

fn renderer(url: &str, patience: Duration) -> Renderer {
    Renderer::new(
        TokenizerSettings {
            url: url.to_owned(),
            model: "other".to_owned(),
            timeout: patience,
            multimodal_timeout: patience,
        },
        "ns",
    )
    .unwrap()
}

fn ask(renderer: &Renderer, bodies: &Arc<Budget>) -> Option<Lookup> {
    let parsed = body::parse(Api::Completions, BODY, &body::Reading::default()).unwrap();
    let body = Bytes::from_static(BODY);
    renderer.ask(&Question { api: Api::Completions, parsed: &parsed, body: &body, bodies })
}

async fn answer(answer: &'static str, status: u16, memory: usize) -> Result<Tokens, TokenError> {
    let (url, _) = tokenizer(status, Some(answer)).await;
    let bodies = Budget::new(memory);
    let asked = ask(&renderer(&url, Duration::from_secs(20)), &bodies).unwrap();
    let answer = asked.answer.await;
    if answer.is_err() {
        assert_eq!(bodies.held(), 0, "what was read is given back");
    }
    answer
}

#[tokio::test]
async fn tokens_are_read_and_their_memory_is_counted() {
    let tokens =
        answer(r#"[{"model":"other","token_ids":[1,258]},{"token_ids":[]}]"#, 200, 1000).await.unwrap();
    assert_eq!(tokens.prompts, [Prompt::from(vec![1, 0, 0, 0, 2, 1, 0, 0]), Prompt::from(Vec::new())]);
    assert!(tokens.media.is_empty());
    let chat = r#"{"token_ids":[7],"features":{"mm_hashes":{"image":["h","h"]},"mm_placeholders":{}}}"#;
    let chat = answer(chat, 200, 1000).await.unwrap();
    assert_eq!(chat.media, [longboat_scheduler::Media::new(longboat_scheduler::Modality::Image, b"\"h\"")]);
    assert!(matches!(answer(r#"[{"token_ids":[-1]}]"#, 200, 1000).await, Err(TokenError::Malformed(_))));
    assert!(matches!(answer("{}", 404, 1000).await, Err(TokenError::Companion(AnswerError::Status(404)))));
    let long: &'static str = Box::leak(" ".repeat(1 << 17).into_boxed_str());
    assert!(matches!(answer(long, 200, 1 << 20).await, Err(TokenError::Companion(AnswerError::TooLong(_)))));
    // There is memory for the request, but not for the answer.
    let few = BODY.len() + 8;
    let full = answer(r#"[{"token_ids":[1]}]"#, 200, few).await;
    assert!(matches!(full, Err(TokenError::Full(limit)) if limit == few));
}

#[tokio::test]
async fn a_tokenizer_that_does_not_answer_is_left_alone_for_a_while() {
    let (url, asked) = tokenizer(200, None).await;
    let bodies = Budget::new(1000);
    let renderer = renderer(&url, Duration::from_millis(20));
    for _ in 0..FAILURES {
        let lookup = ask(&renderer, &bodies).unwrap();
        assert!(timeout(lookup.patience, lookup.answer).await.is_err());
    }
    assert!(ask(&renderer, &bodies).is_none(), "calls are paused");
    // On a busy machine a question may be given up before it has come.
    assert!(asked.load(Ordering::SeqCst) <= 3, "nobody asks while calls are paused");
    assert_eq!(bodies.held(), 0);
    renderer.health.end_pause();
    let call = ask(&renderer, &bodies);
    assert!(call.is_some() && ask(&renderer, &bodies).is_none(), "one request tries, the others do not wait");
    drop(call);
    assert_eq!(renderer.health.failures(), FAILURES, "a client that left says nothing about it");
}

#[tokio::test]
async fn nothing_is_asked_where_the_tokens_are_known_or_cannot_be() {
    longboat_tls::install_default_provider();
    let renderer = renderer("http://127.0.0.1:1", Duration::from_secs(1));
    let bodies = Budget::new(1000);
    for (api, body) in [
        (Api::Completions, &br#"{"model":"m","prompt":[1,2]}"#[..]),
        (Api::Completions, br#"{"model":"m","prompt":[[1],[2]]}"#),
        (Api::Messages, br#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#),
    ] {
        let parsed = body::parse(api, body, &body::Reading::default()).unwrap();
        let body = Bytes::from_static(body);
        let question = Question { api, parsed: &parsed, body: &body, bodies: &bodies };
        assert!(renderer.ask(&question).is_none());
    }
    assert!(matches!(
        Renderer::new(TokenizerSettings { url: "http://".into(), ..renderer.settings.clone() }, "ns"),
        Err(Error::Tokenizer { .. })
    ));
}
