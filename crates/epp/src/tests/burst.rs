//! Requests that arrive together and share a prompt.

use std::{sync::Arc, time::Duration};

use longboat_extproc::{Action, Event, names};

use super::support::{self, Stream};
use crate::core::Core;

const COMPLETIONS: &str = "/v1/completions";

/// The only scores come from the burst. Without a burst, pods are picked at random.
fn picker(parameters: &str) -> Arc<Core> {
    let core = support::core(&format!(
        "plugins:
- {{type: burst-prefix-cache-producer, parameters: {parameters}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: burst-prefix-cache-producer}}}}
"
    ));
    support::with_endpoints(&core, 8);
    core
}

/// Sends a completion. Returns the replies that come at once.
fn send(core: &Arc<Core>, prompt: &str) -> (Stream, Vec<longboat_extproc::Reply>) {
    let mut stream = Stream::open(core);
    let headers = support::request_headers("POST", COMPLETIONS, &[]);
    stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
    let body = format!(r#"{{"model":"m","prompt":"{prompt}"}}"#).into();
    let (replies, _) = stream.feed(Event::RequestBody { body, end_of_stream: true });
    (stream, replies)
}

fn destination(replies: &[longboat_extproc::Reply]) -> String {
    let Action::RequestHeaders(changes) = &replies[0].action else { panic!("{replies:?}") };
    changes.get(names::DESTINATION).unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn requests_with_one_prompt_wait_for_each_other_and_go_to_one_pod() {
    let core = picker("{windowDurationMs: 1000}");
    let mut waiting = Vec::new();
    for prompt in ["one", "two", "one", "two", "one", "one", "two"] {
        let (stream, replies) = send(&core, prompt);
        assert!(replies.is_empty(), "{replies:?}");
        waiting.push((prompt, stream));
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    assert!(waiting.iter_mut().all(|(_, stream)| stream.poll().is_empty()), "the window is not over");
    tokio::time::advance(Duration::from_millis(300)).await;
    let mut went: Vec<(&str, String)> =
        waiting.iter_mut().map(|(prompt, stream)| (*prompt, destination(&stream.poll()))).collect();
    went.sort();
    went.dedup();
    assert_eq!(went.len(), 2, "{went:?}");
    assert_ne!(went[0].1, went[1].1);
}

#[tokio::test(start_paused = true)]
async fn a_window_opens_after_the_other_and_knows_nothing_of_it() {
    let core = picker("{windowDurationMs: 100, maxPerReplica: 1}");
    let (mut first, _) = send(&core, "one");
    tokio::time::advance(Duration::from_millis(100)).await;
    let (mut second, replies) = send(&core, "one");
    assert!(replies.is_empty(), "{replies:?}");
    destination(&first.poll());
    assert!(second.poll().is_empty(), "its own window is not over");
    tokio::time::advance(Duration::from_millis(100)).await;
    destination(&second.poll());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_together_does_not_wait() {
    let core = picker("{maxBatchSize: 1}");
    let (waiting, replies) = send(&core, "one");
    assert!(replies.is_empty(), "{replies:?}");
    destination(&send(&core, "one").1);
    destination(&send(&core, "").1);
    assert!(core.bodies.held() > 0);
    drop(waiting);
    assert_eq!(core.bodies.held(), 0, "a client that is gone waits for nothing");
}

#[tokio::test]
async fn nobody_has_to_poll_a_request_for_its_window_to_end() {
    let core = picker("{windowDurationMs: 1}");
    let (mut stream, _) = send(&core, "one");
    let mut out = longboat_extproc::Outbox::default();
    let sent = std::future::poll_fn(|context| stream.poll_with(context, &mut out));
    sent.await;
    destination(&out.into_replies());
}
