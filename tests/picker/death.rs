//! Pickers that end under load, behind an Envoy that fails open and looks how its pickers are.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use serde_json::json;

use crate::{
    envoy::{Envoy, Port},
    http, processes, tools,
    wait::until,
    world::{BLEND, Picker, Pool, turn},
};

const FLAGS: &[&str] = &["--health-checking", "--drain-timeout=2s"];

/// Requests, one after the other in two threads, until the end.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(url: &str, stream: bool) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let failed = Arc::new(Mutex::new(Vec::new()));
        let threads = (0..2).map(|thread| {
            let (stop, answered, failed, url) =
                (stop.clone(), answered.clone(), failed.clone(), url.to_owned());
            thread::spawn(move || {
                for request in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let text = json!({
                        "model": "m", "max_tokens": 20, "ignore_eos": true, "stream": stream,
                        "prompt": format!("thread {thread}, request {request}. ").repeat(20),
                    });
                    let answer = http::post(&url, "/v1/completions", text.to_string(), false);
                    let whole = if stream { "data: [DONE]\n\n" } else { "}" };
                    if answer.status == 200 && answer.body.ends_with(whole) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    } else {
                        failed.lock().push(format!("{} {}", answer.status, answer.body));
                    }
                }
            })
        });
        let threads = threads.collect();
        Self { stop, answered, failed, threads }
    }

    /// Waits until some more are answered.
    fn goes_on(&self) {
        let so_far = self.answered.load(Ordering::Relaxed);
        until("requests that are answered", || {
            (self.answered.load(Ordering::Relaxed) > so_far + 10).then_some(())
        });
    }

    fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.failed.lock().clone()
    }
}

#[test]
fn a_picker_that_is_asked_to_end_costs_no_request() {
    let Some(program) = tools::tool("bin/envoy") else { return };
    let _turn = turn();
    let pool = Pool::start(2, "5ms");
    let mut pickers = [Picker::start(&pool, BLEND, FLAGS), Picker::start(&pool, BLEND, FLAGS)];
    let envoy = Envoy::start(
        &program,
        &[Port {
            pickers: pickers.iter().map(|picker| picker.address).collect(),
            endpoints: pool.engines.clone(),
            fail_open: true,
            health: true,
            ..Port::default()
        }],
    );
    let (plain, streams) = (Load::start(&envoy.url(0), false), Load::start(&envoy.url(0), true));
    plain.goes_on();
    streams.goes_on();
    for picker in &mut pickers {
        processes::signal("TERM", picker.role.pid());
        picker.role.ended();
        // Without any picker, the last requests go to any endpoint.
        plain.goes_on();
        streams.goes_on();
    }
    assert_eq!((plain.end(), streams.end()), (Vec::new(), Vec::new()), "{}", envoy.log());
}

/// What was in the picker when it was killed is lost: Envoy has shown it the body, and cannot send it elsewhere. Nothing else is.
#[test]
fn a_picker_that_is_killed_costs_at_most_what_it_held() {
    let Some(program) = tools::tool("bin/envoy") else { return };
    let _turn = turn();
    let pool = Pool::start(2, "5ms");
    let mut pickers = vec![Picker::start(&pool, BLEND, FLAGS), Picker::start(&pool, BLEND, FLAGS)];
    let envoy = Envoy::start(
        &program,
        &[Port {
            pickers: pickers.iter().map(|picker| picker.address).collect(),
            endpoints: pool.engines.clone(),
            fail_open: true,
            health: true,
            ..Port::default()
        }],
    );
    let (plain, streams) = (Load::start(&envoy.url(0), false), Load::start(&envoy.url(0), true));
    while let Some(picker) = pickers.pop() {
        plain.goes_on();
        streams.goes_on();
        processes::signal("KILL", picker.role.pid());
        plain.goes_on();
        streams.goes_on();
    }
    let (plain, streams) = (plain.end(), streams.end());
    // Each load has two requests at a time, and there were two pickers. What comes before Envoy has seen that the connection is gone is
    // lost as well: once more of each.
    assert!(plain.len() <= 8 && streams.len() <= 8, "{plain:?} {streams:?}");
}
