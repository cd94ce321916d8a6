//! Fuzz targets of simulations: traces, workloads, and the queries of autoscalers. The test that replays the stored corpus shares
//! this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use std::time::Duration;

use longboat_autoscale::{History, Labels, Query, Sample};
use longboat_simulate::{
    import::TraceFormat,
    trace::{self, MAX_TOKENS, TracePrompt, TraceRequest},
    workload::Workload,
};

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 3] = [
    ("simulate_trace", simulate_trace),
    ("simulate_workload", simulate_workload),
    ("autoscale_query", autoscale_query),
];

/// The first byte selects a format. Any trace must be read up to its first error, and what was read must be readable again in
/// our own format.
pub(crate) fn simulate_trace(data: &[u8]) {
    let Some((&format, text)) = data.split_first() else { return };
    let formats = [
        TraceFormat::Jsonl,
        TraceFormat::Mooncake,
        TraceFormat::Azure,
        TraceFormat::BurstGpt,
        TraceFormat::Decisions,
    ];
    let mut last = Duration::ZERO;
    for request in formats[usize::from(format) % formats.len()].read(text).take(1000) {
        match request {
            Ok(request) => {
                assert!(request.at >= last, "requests are not in the order of their times");
                last = request.at;
                read_again(&request);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn read_again(request: &TraceRequest) {
    let limit = usize::try_from(MAX_TOKENS).expect("a usize has 64 bits");
    let tokens = request.prompt.tokens();
    assert!(tokens <= limit && (1..=limit).contains(&request.output_tokens));
    if tokens <= 4096 && !matches!(request.prompt, TracePrompt::Text(_)) {
        assert_eq!(request.prompt.bytes(1, 0, Vec::new()).len(), 4 * tokens);
    }
    let line = request.to_line();
    let again = trace::read(line.as_bytes()).next().expect("there is a line").expect("the line is a request");
    // Milliseconds as a decimal number may lose the last nanosecond.
    assert!(again.at.abs_diff(request.at) < Duration::from_micros(1));
    assert_eq!(TraceRequest { at: request.at, ..again }, *request);
}

/// Any workload must be refused with a message, or make requests in the order of their times.
pub(crate) fn simulate_workload(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let workload = match Workload::parse(text) {
        Ok(workload) => workload,
        Err(error) => return assert!(!error.is_empty()),
    };
    let mut last = Duration::ZERO;
    for request in workload.requests(1).take(200) {
        let request = request.expect("a checked workload makes requests");
        assert!(request.at >= last, "requests are not in the order of their times");
        last = request.at;
        read_again(&request);
    }
}

/// Any query must be refused with a message, or be evaluated on the metrics of some pods.
pub(crate) fn autoscale_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let query = match Query::parse(text) {
        Ok(query) => query,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut history = History::default();
    for second in [0_u32, 15, 30] {
        let reading = query.names().into_iter().take(8).flat_map(|name| {
            ["a", "b"].map(|pod| Sample {
                name: name.to_owned(),
                labels: Labels::from([("pod".to_owned(), pod.to_owned())]),
                value: f64::from(second),
            })
        });
        history.add(Duration::from_secs(second.into()), reading.collect(), query.window());
    }
    if let Err(error) = query.evaluate(&history) {
        assert!(!error.to_string().is_empty());
    }
}
