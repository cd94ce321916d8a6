//! Requests that try to exhaust memory with headers, names of models and flows, and combinations of both.

use std::sync::Arc;

use longboat_extproc::{Action, Event};

use super::support::{self, Stream};
use crate::{core::Core, monitoring::metrics_page};

const PATH: &str = "/v1/completions";

fn picker() -> Arc<Core> {
    let core = support::core("");
    support::with_endpoints(&core, 1);
    core
}

/// The number of series that distinguish requests on a page.
fn series(page: &str) -> usize {
    page.lines().filter(|line| line.starts_with("llm_d_epp_request_total{")).count()
}

#[test]
fn models_and_flows_that_clients_make_up_are_counted_together_from_some_number_on() {
    let core = picker();
    for number in 0..3000 {
        let body = format!("{{\"model\":\"m{}\",\"prompt\":\"x\"}}", number % 60);
        let flow = format!("f{}", number / 60);
        Stream::open(&core).request(PATH, &[("x-llm-d-inference-fairness-id", &flow)], body.as_bytes(), None);
    }
    let page = metrics_page(&core);
    assert_eq!(series(&page), 1001, "a thousand, and one for the others");
    let others = page
        .lines()
        .find(|line| line.starts_with("llm_d_epp_request_total{") && line.contains("model_name=\"other\""));
    assert!(others.is_some_and(|line| line.ends_with(" 2000")), "{others:?}");
}

#[test]
fn long_names_are_not_kept() {
    let core = picker();
    let (long, other) = ("f".repeat(60_000), format!("{}g", "f".repeat(59_999)));
    let body = format!("{{\"model\":\"{}\",\"prompt\":\"x\"}}", "m".repeat(4000));
    let mut stream = Stream::open(&core);
    for flow in [&long, &other] {
        stream = Stream::open(&core);
        stream.request(PATH, &[("x-llm-d-inference-fairness-id", flow)], body.as_bytes(), None);
    }
    let page = metrics_page(&core);
    assert!(page.lines().all(|line| line.len() < 1000));
    assert!(page.contains("model_name=\"other\""));
    assert_eq!(series(&page), 2, "they are two flows still");
    drop(stream);
    assert_eq!(core.bodies.held(), 0);
}

#[test]
fn headers_count_as_memory_and_a_million_of_them_are_refused() {
    let core = picker();
    let open = |count: usize| {
        let mut headers = support::request_headers("POST", PATH, &[]);
        for _ in 0..count {
            headers.push("", "");
        }
        let mut stream = Stream::open(&core);
        let (replies, _) = stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
        (stream, replies)
    };
    let (stream, replies) = open(1000);
    assert!(replies.is_empty());
    assert!(core.bodies.held() > 64_000, "{}", core.bodies.held());
    let (_refused, replies) = open(1_000_000);
    let [reply] = &replies[..] else { panic!("{replies:?}") };
    assert!(matches!(&reply.action, Action::Immediate(response) if response.status == 431));
    let mut crowd = Vec::new();
    let refused = (0..100_000).find_map(|_| {
        let (stream, replies) = open(10_000);
        crowd.push(stream);
        replies.into_iter().next()
    });
    assert!(
        matches!(refused.map(|reply| reply.action), Some(Action::Immediate(response)) if response.status == 503),
        "streams that never end do not fill memory"
    );
    drop((stream, crowd));
    assert_eq!(core.bodies.held(), 0);
}
