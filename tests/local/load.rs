//! Requests that go on while something happens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{http, wait::until};

/// Requests, one after the other in two threads, until the end.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    threads: Vec<thread::JoinHandle<()>>,
}

// === impl Load ===

impl Load {
    /// Short answers, each in one piece.
    pub(crate) fn start(url: &str, model: &str) -> Self {
        Self::with(url, model, &json!({"max_tokens": 4}), |body| body.ends_with('}'))
    }

    /// Streams of forty tokens, each of which must come to its end with nothing missing or doubled.
    pub(crate) fn streams(url: &str, model: &str) -> Self {
        let body = json!({
            "max_tokens": 40, "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true},
        });
        Self::with(url, model, &body, |body| {
            let pieces = body.matches(r#""text":""#).count();
            body.ends_with("data: [DONE]\n\n") && (40..=41).contains(&pieces)
        })
    }

    fn with(url: &str, model: &str, body: &Value, whole: fn(&str) -> bool) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let failed = Arc::new(Mutex::new(Vec::new()));
        let threads = (0..2).map(|thread| {
            let (stop, answered, failed) = (stop.clone(), answered.clone(), failed.clone());
            let (url, mut body) = (format!("{url}/v1/completions"), body.clone());
            body["model"] = model.into();
            thread::spawn(move || {
                for request in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let prompt = format!("thread {thread}, request {request}. ").repeat(20);
                    body["prompt"] = prompt.into();
                    let answer = http::post(&url, &body);
                    if answer.status == 200 && whole(&answer.body) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    } else {
                        failed.lock().push(format!("{answer:?}"));
                    }
                }
            })
        });
        let threads = threads.collect();
        Self { stop, answered, failed, threads }
    }

    /// How many were answered so far.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until some more are answered than were when it was called.
    pub(crate) fn goes_on(&self) {
        let so_far = self.answered();
        until("requests that are answered", || (self.answered() > so_far + 10).then_some(()));
    }

    /// Stops, and says which requests failed.
    pub(crate) fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.failed.lock().clone()
    }
}
