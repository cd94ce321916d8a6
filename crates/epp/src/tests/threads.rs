//! Flow control from several threads at once, as streams come: no request is lost, and no limit is passed.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use bytes::Bytes;
use longboat_extproc::{Action, Event, Headers};
use longboat_scheduler::Slot;
use parking_lot::Mutex;

use super::support::{self, Stream};

const THREADS: usize = 8;
const REQUESTS: usize = 150;
/// What the pool has room for.
const POOL_CAPACITY: u64 = 3;

const CONFIG: &str = "
featureGates: [flowControl]
plugins: [{type: queue-scorer}, {type: concurrency-detector, parameters: {maxConcurrency: 3}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
flowControl: {defaultRequestTTL: 0s, saturationDetector: {pluginRef: concurrency-detector}}
";

#[test]
fn threads_lose_no_request_and_pass_no_limit() {
    let core = support::core(CONFIG);
    support::with_endpoints(&core, 1);
    let (answered, given_up) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (core, answered, given_up) = (&core, &answered, &given_up);
            scope.spawn(move || {
                for request in 0..REQUESTS {
                    let mut stream = Stream::open(core);
                    let flow = (thread % 3).to_string();
                    let headers = [("x-llm-d-inference-fairness-id", flow.as_str())];
                    let headers = support::request_headers("POST", "/v1/completions", &headers);
                    stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
                    let body = Bytes::from_static(br#"{"model":"m","prompt":"x"}"#);
                    let (mut replies, _) = stream.feed(Event::RequestBody { body, end_of_stream: true });
                    if replies.is_empty() && (thread + request) % 7 == 0 {
                        // The client is gone, at any moment.
                        given_up.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    if replies.is_empty() {
                        replies = stream.wait();
                    }
                    assert!(
                        matches!(replies.first().map(|reply| &reply.action), Some(Action::RequestHeaders(_))),
                        "{replies:?}"
                    );
                    let (in_flight, _) = core.state.read().in_flight(Slot(0));
                    assert!((1..=POOL_CAPACITY).contains(&in_flight), "{in_flight} in flight");
                    let mut headers = Headers::new();
                    headers.push(":status", "200");
                    stream.feed(Event::ResponseHeaders { headers, end_of_stream: true });
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (answered, given_up) = (answered.into_inner(), given_up.into_inner());
    assert_eq!(answered + given_up, THREADS * REQUESTS);
    assert_eq!(core.state.read().in_flight(Slot(0)), (0, 0));
    assert_eq!(core.bodies.held(), 0);
    // The pool is free, so the next one does not wait.
    let next = Stream::open(&core).request("/v1/completions", &[], br#"{"model":"m","prompt":"x"}"#, None);
    assert!(matches!(next[0].action, Action::RequestHeaders(_)));
}

#[test]
fn threads_that_come_while_the_picker_shuts_down_are_all_answered() {
    for _ in 0..50 {
        let core = support::core(CONFIG);
        support::with_endpoints(&core, 1);
        let (gone, sent) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (core, gone, sent) = (&core, &gone, &sent);
                scope.spawn(move || {
                    // Nothing in flight ends, so all but three wait, until the queue is closed.
                    let mut stream = Stream::open(core);
                    let replies =
                        stream.request("/v1/completions", &[], br#"{"model":"m","prompt":"x"}"#, None);
                    match replies.first().map(|reply| &reply.action) {
                        Some(Action::Immediate(answer)) if answer.status == 503 => {
                            gone.fetch_add(1, Ordering::Relaxed);
                        }
                        Some(Action::RequestHeaders(_)) => {
                            sent.lock().push(stream);
                        }
                        other => panic!("not answered: {other:?}"),
                    }
                });
            }
            scope.spawn(|| core.admission.close());
        });
        let sent = sent.into_inner().len();
        assert_eq!(gone.into_inner() + sent, THREADS);
        assert!(sent <= usize::try_from(POOL_CAPACITY).unwrap());
    }
}
