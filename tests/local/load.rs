//! A load of requests during other events.

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

/// Threads that send requests one after the other until the end: two, unless the load is a crowd.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    threads: Vec<thread::JoinHandle<()>>,
}

// === impl Load ===

impl Load {
    /// Starts a load of short responses without streaming.
    pub(crate) fn start(url: &str, model: &str) -> Self {
        Self::with(2, url, model, &json!({"max_tokens": 4}), |body| body.ends_with('}'))
    }

    /// Starts a load of streams of forty tokens. Each must be complete, without missing or repeated tokens.
    pub(crate) fn streams(url: &str, model: &str) -> Self {
        Self::crowd(2, url, model)
    }

    /// Starts a load of so many streams at a time.
    pub(crate) fn crowd(clients: usize, url: &str, model: &str) -> Self {
        let body = json!({
            "max_tokens": 40, "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true},
        });
        Self::with(clients, url, model, &body, |body| {
            let pieces = body.matches(r#""text":""#).count();
            body.ends_with("data: [DONE]\n\n") && (40..=41).contains(&pieces)
        })
    }

    fn with(clients: usize, url: &str, model: &str, body: &Value, whole: fn(&str) -> bool) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let failed = Arc::new(Mutex::new(Vec::new()));
        let threads = (0..clients).map(|thread| {
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

    /// The number of answered requests so far.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until ten more requests are answered.
    pub(crate) fn goes_on(&self) {
        let so_far = self.answered();
        until("requests that are answered", || self.answered() > so_far + 10);
    }

    /// Stops the load, and returns the failed requests.
    pub(crate) fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.failed.lock().clone()
    }
}
