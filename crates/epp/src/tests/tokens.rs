//! Requests that wait for their tokens.

use std::{sync::Arc, time::Duration};

use longboat_extproc::{Action, Event, names};
use longboat_scheduler::Prompt;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::support::{self, Stream};
use crate::{
    body::Api,
    companion::AnswerError,
    core::Core,
    monitoring::metrics_page,
    tokens::{Lookup, Question, TokenError, TokenSource, Tokens},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

type Reply = oneshot::Sender<Result<Tokens, TokenError>>;

/// A source that has no tokens for completions, and returns the tokens of chats when the test sends them.
#[derive(Debug)]
struct DelayedTokenSource {
    patience: Duration,
    asked: Mutex<Vec<Reply>>,
}

impl TokenSource for DelayedTokenSource {
    fn ask(&self, question: &Question<'_>) -> Option<Lookup> {
        if question.api != Api::ChatCompletions {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        self.asked.lock().push(sender);
        let answer = Box::pin(async { answer.await.unwrap() });
        Some(Lookup { patience: self.patience, answer })
    }
}

fn picker(patience: Duration) -> (Arc<Core>, Arc<DelayedTokenSource>) {
    let source = Arc::new(DelayedTokenSource { patience, asked: Mutex::default() });
    let mut core = support::core_of("");
    core.tokens = Some(Arc::clone(&source) as _);
    let core = Arc::new(core);
    support::with_endpoints(&core, 2);
    (core, source)
}

/// Sends a chat that waits for its tokens.
fn waiting(core: &Arc<Core>) -> Stream {
    let mut stream = Stream::open(core);
    let headers = support::request_headers("POST", CHAT, &[]);
    stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
    let (replies, finished) = stream.feed(Event::RequestBody { body: BODY.into(), end_of_stream: true });
    assert!(replies.is_empty() && !finished, "{replies:?}");
    stream
}

fn is_sent(replies: &[longboat_extproc::Reply]) -> bool {
    matches!(&replies[0].action, Action::RequestHeaders(changes) if changes.get(names::DESTINATION).is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_its_tokens_and_holds_up_no_other() {
    let (core, source) = picker(Duration::from_mins(10));
    let mut chat = waiting(&core);
    let other = Stream::open(&core).request("/v1/completions", &[], br#"{"model":"m","prompt":"hi"}"#, None);
    assert!(is_sent(&other));
    let held = core.bodies.hold(8).unwrap();
    let answer = source.asked.lock().remove(0);
    answer
        .send(Ok(Tokens {
            prompts: vec![Prompt::from(vec![1, 0, 0, 0, 2, 0, 0, 0])],
            media: Vec::new(),
            held,
        }))
        .unwrap();
    assert!(is_sent(&chat.wait()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_on_without_tokens_that_cannot_be_had_or_do_not_come() {
    let (core, source) = picker(Duration::from_mins(10));
    let mut chat = waiting(&core);
    source
        .asked
        .lock()
        .remove(0)
        .send(Err(TokenError::Companion(AnswerError::Unreachable("gone".to_owned()))))
        .unwrap();
    assert!(is_sent(&chat.wait()));

    let (core, _source) = picker(Duration::from_millis(20));
    assert!(is_sent(&waiting(&core).wait()));
    let page = metrics_page(&core);
    assert!(page.contains("llm_d_epp_token_lookups_total{outcome=\"late\"} 1"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_gone_waits_for_nothing() {
    let (core, source) = picker(Duration::from_mins(10));
    let chat = waiting(&core);
    assert!(core.bodies.held() > 0);
    drop(chat);
    assert_eq!(core.bodies.held(), 0);
    assert!(source.asked.lock()[0].is_closed(), "the question is withdrawn");
    let page = metrics_page(&core);
    assert!(page.contains("error_code=\"ServiceUnavailable\"} 1"), "{page}");
}
