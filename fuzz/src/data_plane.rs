//! What is fuzzed of the data plane: one function for each target, over bytes. The test that replays the kept corpus shares
//! this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_scheduler::{
    Options, Scheduler,
    config::{DataLayer, EndpointPickerConfig},
};

/// What runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name: the folders of the corpus are named alike.
pub(crate) const ALL: [(&str, Target); 11] = [
    ("ext_proc", ext_proc),
    ("ext_proc_connection", ext_proc_connection),
    ("picker_body", picker_body),
    ("metrics_page", metrics_page),
    ("metrics_reply", metrics_reply),
    ("picker_config", picker_config),
    ("tokenizer_answer", tokenizer_answer),
    ("grpc_body", grpc_body),
    ("predictor_answer", predictor_answer),
    ("sidecar_header", sidecar_header),
    ("sidecar_body", sidecar_body),
];

/// Any messages on a stream are answered or refused: what a proxy sends a picker, and what a picker sends a proxy. Each
/// message has its length before it, in two bytes.
pub(crate) fn ext_proc(data: &[u8]) {
    let mut messages = Vec::new();
    let mut rest = data;
    while let [high, low, after @ ..] = rest {
        let (message, after) =
            after.split_at(after.len().min(usize::from(u16::from_be_bytes([*high, *low]))));
        messages.push(message);
        rest = after;
    }
    for message in &messages {
        let _ = longboat_extproc::probe::reply(message);
    }
    longboat_epp::probe::stream(messages.into_iter().filter_map(longboat_extproc::probe::event));
}

/// Any bytes on a connection are calls of a picker, or end it; the greeting need not be found by chance.
pub(crate) fn ext_proc_connection(data: &[u8]) {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend_from_slice(data);
    longboat_epp::probe::connection(&bytes);
}

/// Any body is read or refused, by every API; where the model is said to be, it is.
pub(crate) fn picker_body(data: &[u8]) {
    longboat_epp::probe::body(data);
}

/// Any page gives numbers, for every engine.
pub(crate) fn metrics_page(data: &[u8]) {
    longboat_epp::probe::metrics_page(data);
}

/// Any answer to a request for a page is a page, or none.
pub(crate) fn metrics_reply(data: &[u8]) {
    longboat_epp::probe::metrics_reply(data);
}

/// Any answer of a tokenizer is tokens, or is not read.
pub(crate) fn tokenizer_answer(data: &[u8]) {
    longboat_epp::probe::tokenizer_answer(data);
}

/// Any body over gRPC is read or refused, and any response gives the same usage however it is cut.
pub(crate) fn grpc_body(data: &[u8]) {
    longboat_epp::probe::grpc(data);
}

/// Any answer of a latency predictor is times, or is not read.
pub(crate) fn predictor_answer(data: &[u8]) {
    longboat_epp::probe::predictor_answer(data);
}

/// Any text is a configuration, or is refused with a sentence.
pub(crate) fn picker_config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let config = match EndpointPickerConfig::parse(text) {
        Ok(config) => config,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let _ = config.warnings();
    let _ = config.parsers();
    let _ = DataLayer::from_config(&config);
    if let Ok(scheduler) = Scheduler::new(&config, Options { allow_experimental: true, trace: true }) {
        let _ = scheduler.state();
    }
}

/// Any header value names endpoints by host and port alone, or none.
pub(crate) fn sidecar_header(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    longboat_sidecar::probe::header(text);
}

/// Any body becomes what prefiller and decoder are asked, or is refused; any answer and stream passes.
pub(crate) fn sidecar_body(data: &[u8]) {
    longboat_sidecar::probe::body(data);
}
