//! Pickers that end under load, behind an Envoy that fails open and checks its pickers' health.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
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
    world::{BLEND, Picker, Pool, answered, turn},
};

const FLAGS: &[&str] = &["--health-checking", "--drain-timeout=2s"];

/// Two threads that send requests one after the other until the end.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(url: &str, stream: bool) -> Self {
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

    /// Waits until ten more requests are answered.
    pub(crate) fn goes_on(&self) {
        let so_far = self.answered.load(Ordering::Relaxed);
        until("requests that are answered", || {
            (self.answered.load(Ordering::Relaxed) > so_far + 10).then_some(())
        });
    }

    /// How many requests have failed so far.
    fn failed(&self) -> usize {
        self.failed.lock().len()
    }

    pub(crate) fn end(self) -> Vec<String> {
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

/// Whether the last health check of a picker failed. Envoy sends it no requests then.
fn regards_as_unhealthy(envoy: &Envoy, picker: SocketAddr) -> bool {
    let page = http::try_get(&format!("http://{}/clusters", envoy.admin())).unwrap_or_default();
    let flags = format!("::{picker}::health_flags::");
    page.lines()
        .any(|line| line.split_once(&flags).is_some_and(|(_, flags)| flags.contains("/failed_active_hc")))
}

/// The requests that the killed picker was working on are lost: Envoy has sent it the body and keeps no copy for another
/// endpoint. So are those that Envoy gives to it until a health check fails. No request is lost after that.
#[test]
fn a_picker_that_is_killed_costs_no_request_once_envoy_knows() {
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
        until("a failed health check", || regards_as_unhealthy(&envoy, picker.address).then_some(()));
        // The requests that began before the check failed end.
        plain.goes_on();
        streams.goes_on();
        let failed = [plain.failed(), streams.failed()];
        plain.goes_on();
        streams.goes_on();
        assert_eq!([plain.failed(), streams.failed()], failed, "{}", envoy.log());
    }
    // Each load has two requests at a time, so each picker can cut two responses that have begun.
    for failed in [plain.end(), streams.end()] {
        let cut = failed.iter().filter(|failure| failure.starts_with("200")).count();
        assert!(cut <= 4, "{failed:?}");
    }
}

/// Envoy has sent the picker a part of the body and keeps no copy. The endpoint must not get the rest of such a request,
/// because a part of its body is missing.
#[test]
fn a_request_whose_picker_is_killed_within_its_body_fails_and_reaches_no_endpoint() {
    let Some(program) = tools::tool("bin/envoy") else { return };
    let _turn = turn();
    let pool = Pool::start(1, "1ms");
    for fail_open in [true, false] {
        let picker = Picker::start(&pool, BLEND, FLAGS);
        let port = Port {
            pickers: vec![picker.address],
            endpoints: pool.engines.clone(),
            fail_open,
            health: true,
            ..Port::default()
        };
        let envoy = Envoy::start(&program, &[port]);
        let address = envoy.url(0).replace("http://", "");
        // One request first, so that Envoy regards the picker as healthy.
        let text = json!({"model": "m", "max_tokens": 1, "prompt": "hello"}).to_string();
        assert_eq!(http::post(&envoy.url(0), "/v1/completions", text, false).status, 200);
        let before = answered(&pool.engines[0].to_string());
        let body = json!({"model": "m", "max_tokens": 1, "prompt": "x".repeat(400 << 10)}).to_string();
        let (head, tail) = body.split_at(200 << 10);
        let mut client = TcpStream::connect(&address).unwrap();
        let headers = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(headers.as_bytes()).unwrap();
        client.write_all(head.as_bytes()).unwrap();
        until("a picker that holds a part of the body", || {
            let page = http::try_get(&picker.page)?;
            let line = page.lines().find(|line| line.starts_with("llm_d_epp_body_bytes_in_flight "))?;
            (line.rsplit(' ').next()?.parse::<u64>().ok()? > 32 << 10).then_some(())
        });
        processes::signal("KILL", picker.role.pid());
        // Envoy may already have answered and closed the connection.
        let _ = client.write_all(tail.as_bytes());
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 500"), "fails open: {fail_open}: {answer}");
        let after = answered(&pool.engines[0].to_string());
        assert!((after - before).abs() < f64::EPSILON, "the endpoint got a request: {before}, {after}");
    }
}
