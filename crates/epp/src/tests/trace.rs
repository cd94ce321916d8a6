//! The trace of requests: what is written, in which order, and what is left out.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use longboat_extproc::{Event, Headers};
use longboat_scheduler::{LoraAdapters, Metrics, Usage};
use longboat_simulate::{import::TraceFormat, trace::TraceRequest};

use super::support::{self, Stream};
use crate::{
    args::Args,
    core::Core,
    request_trace::{Arrival, MAX_HELD_REQUESTS, RequestTrace, TEXT_LIMIT, TraceFile},
};

const COMPLETIONS: &str = "/v1/completions";
const CONFIG: &str = "
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: random-picker}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]
";

/// A picker with one endpoint that serves the adapter `poet`, and writes its trace here.
fn picker(file: &Path, max_bytes: usize) -> Arc<Core> {
    let mut core = support::core_of(CONFIG);
    core.trace = Some(RequestTrace::start(TraceFile::new(file.to_owned(), max_bytes)).unwrap());
    support::with_endpoints(&core, 1);
    let lora = LoraAdapters { active: vec!["poet".into()], waiting: Vec::new(), max: 2 };
    core.pool.members()[0].scraped(Metrics { lora: Some(lora), ..Metrics::default() });
    Arc::new(core)
}

fn sent(core: &Arc<Core>, model: &str, prompt: &str, headers: &[(&str, &str)]) -> Stream {
    let mut stream = Stream::open(core);
    let body = serde_json::json!({"model": model, "prompt": prompt}).to_string();
    stream.request(COMPLETIONS, headers, body.as_bytes(), None);
    stream
}

fn answered(stream: &mut Stream, status: &'static str, kind: &'static str, chunks: &[&str]) {
    let mut headers = Headers::new();
    headers.push(":status", status);
    headers.push("content-type", kind);
    stream.feed(Event::ResponseHeaders { headers, end_of_stream: false });
    for (index, chunk) in chunks.iter().enumerate() {
        let body = Bytes::copy_from_slice(chunk.as_bytes());
        stream.feed(Event::ResponseBody { body, end_of_stream: index + 1 == chunks.len() });
    }
}

fn usage(input: u64, output: u64) -> String {
    format!("{{\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output}}}}}")
}

fn read(file: &Path) -> Vec<TraceRequest> {
    let text = std::fs::read(file).unwrap();
    TraceFormat::Jsonl.read(&text[..]).collect::<Result<_, _>>().unwrap()
}

#[test]
fn simulate_reads_the_trace_by_arrival_and_without_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day.jsonl");
    let core = picker(&file, 1 << 20);
    let secret = "the patient is called Ishmael, and ".repeat(4);
    let mut first = sent(&core, "m", &secret, &[("x-session-id", "ishmael@example.org")]);
    let mut second = sent(&core, "poet", &format!("{secret}more"), &[]);
    let mut third = sent(&core, "m", "short", &[]);
    answered(&mut third, "200", "application/json", &[&usage(2, 9)]);
    answered(&mut second, "200", "application/json", &[&usage(40, 8)]);
    assert!(!file.exists(), "the first request is open, and lines are sorted by arrival");
    answered(&mut first, "200", "application/json", &[&usage(36, 7)]);
    core.close_trace();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.to_lowercase().contains("ishmael"), "{text}");
    let requests = read(&file);
    let numbers: Vec<_> = requests.iter().map(|r| (r.prompt.tokens(), r.output_tokens, &*r.model)).collect();
    assert_eq!(numbers, [(36, 7, "m"), (40, 8, ""), (2, 9, "m")]);
    assert_eq!(requests[1].adapter.as_deref(), Some("poet"));
    assert_eq!((requests[0].session.is_some(), requests[1].session.is_some()), (true, false));
    // The first two prompts share their first two blocks of 64 bytes, and nothing else.
    let bytes: Vec<_> =
        (0..3).map(|number| requests[number].prompt.bytes(number as u64, 0, Vec::new())).collect();
    assert_eq!(bytes[0][..128], bytes[1][..128]);
    assert_ne!(bytes[0][128..144], bytes[1][128..144]);
    assert_ne!(bytes[0][..8], bytes[2][..8]);
}

#[test]
fn the_tokens_of_a_block_are_measured_at_the_first_long_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let core = picker(&file, 1 << 20);
    for (length, tokens) in [(640, 100), (6400, 2000), (640, 100)] {
        let mut stream = sent(&core, "m", &"x".repeat(length), &[]);
        answered(&mut stream, "200", "application/json", &[&usage(tokens, 1)]);
    }
    core.close_trace();
    let lines: Vec<serde_json::Value> = std::fs::read_to_string(&file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let blocks: Vec<_> = lines.iter().map(|line| line["block_tokens"].as_u64().unwrap()).collect();
    assert_eq!(blocks, [16, 20, 20]);
}

#[test]
fn requests_without_a_known_answer_are_left_out_and_hold_nobody_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let core = picker(&file, 1 << 20);
    let refused = sent(&core, "m", "a", &[]);
    drop(refused);
    answered(&mut sent(&core, "m", "b", &[]), "500", "application/json", &[&usage(1, 1)]);
    answered(&mut sent(&core, "m", "c", &[]), "200", "application/json", &["{}"]);
    // Without usage, each event of a stream counts, except the last; events may be cut anywhere.
    let events = ["data: {\"choices\":[]}\n", "\ndata: {\"choices\":[]}\n\ndata: {}", "\n\ndata: [DONE]\n\n"];
    let body = br#"{"model":"m","prompt":"d","stream":true}"#;
    let mut stream = Stream::open(&core);
    stream.request(COMPLETIONS, &[], body, None);
    answered(&mut stream, "200", "text/event-stream", &events);
    let open = sent(&core, "m", "e", &[]);
    core.close_trace();
    drop(open);
    let numbers: Vec<_> = read(&file).iter().map(|r| (r.prompt.tokens(), r.output_tokens)).collect();
    assert_eq!(numbers, [(1, 3)]);
}

#[test]
fn lines_behind_a_request_that_is_given_up_are_written_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let trace = RequestTrace::start(TraceFile::new(file.clone(), 1 << 30)).unwrap();
    let arrival = Arrival { model: "m", priority: 0, session: None, prompts: &[], is_exact: false };
    let usage = Usage { input: 1, output: 1, cached: 0 };
    let _endless = trace.arrived(&arrival).unwrap();
    for _ in 1..MAX_HELD_REQUESTS {
        trace.arrived(&arrival).unwrap().ended(Some(&usage), None);
    }
    assert!(!file.exists(), "the first request is open");
    // The list is full, so the first request no longer holds the others back. Nothing else happens.
    let _next = trace.arrived(&arrival).unwrap();
    let lines = || std::fs::read(&file).map_or(0, |text| text.split(|byte| *byte == b'\n').count() - 1);
    let is_written = (0..4000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        lines() == MAX_HELD_REQUESTS - 1
    });
    assert!(is_written, "{} lines", lines());
    trace.close();
}

#[test]
fn some_full_files_are_kept_and_each_file_is_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let core = picker(&file, 200);
    for output in 1..=20 {
        let mut stream = sent(&core, "m", "a", &[]);
        std::thread::sleep(Duration::from_millis(2));
        answered(&mut stream, "200", "application/json", &[&usage(1, output)]);
    }
    core.close_trace();
    let mut last = 20;
    for name in ["t", "t.1", "t.2", "t.3", "t.4"] {
        let path = folder.path().join(name);
        assert!(std::fs::metadata(&path).unwrap().len() <= 200);
        let trace = read(&path);
        assert_eq!(trace[0].at, Duration::ZERO);
        assert_eq!(trace.last().unwrap().output_tokens, last);
        last = trace[0].output_tokens - 1;
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
}

#[test]
fn a_disk_that_cannot_be_written_costs_the_trace_and_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gone").join("t");
    let core = picker(&file, 200);
    let mut stream = sent(&core, "m", "a", &[]);
    answered(&mut stream, "200", "application/json", &[&usage(1, 1)]);
    core.close_trace();
    assert!(!file.exists());
    assert!(core.scheduler.text_limit() < TEXT_LIMIT);
    let args =
        Args::parse(["--pool-name=p".to_owned(), format!("--write-trace={}", file.display())]).unwrap();
    let error = args.check(false).unwrap_err().to_string();
    assert!(error.contains("--write-trace") && error.contains("its folder does not exist"), "{error}");
}
