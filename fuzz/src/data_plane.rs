//! Fuzz targets of the data plane: one function over bytes per target. The test that replays the stored corpus shares this
//! file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_scheduler::{
    Options, Scheduler,
    config::{DataLayer, EndpointPickerConfig},
};

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 9] = [
    ("ext_proc", ext_proc),
    ("ext_proc_connection", ext_proc_connection),
    ("picker_body", picker_body),
    ("metrics_page", metrics_page),
    ("metrics_reply", metrics_reply),
    ("picker_config", picker_config),
    ("tokenizer_answer", tokenizer_answer),
    ("grpc_body", grpc_body),
    ("predictor_answer", predictor_answer),
];

/// Any sequence of ext_proc messages must be answered or refused, by the picker and by a proxy. In the input, a length of two
/// bytes precedes each message.
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
        let _ = longboat_extproc::fuzzing::reply(message);
    }
    longboat_epp::fuzzing::stream(messages.into_iter().filter_map(longboat_extproc::fuzzing::event));
}

/// Any bytes on a connection must be treated as calls of the picker, or end the connection. The HTTP/2 preface is given, so
/// that the fuzzer need not find it.
pub(crate) fn ext_proc_connection(data: &[u8]) {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend_from_slice(data);
    longboat_epp::fuzzing::connection(&bytes);
}

/// Every API must parse or refuse any request body. The position that the parser reports for the model's name must hold it.
pub(crate) fn picker_body(data: &[u8]) {
    longboat_epp::fuzzing::body(data);
}

/// Any metrics page must be parsed for every engine.
pub(crate) fn metrics_page(data: &[u8]) {
    longboat_epp::fuzzing::metrics_page(data);
}

/// Any response to a scrape must give a page or no page.
pub(crate) fn metrics_reply(data: &[u8]) {
    longboat_epp::fuzzing::metrics_reply(data);
}

/// Any tokenizer response must give tokens or an error.
pub(crate) fn tokenizer_answer(data: &[u8]) {
    longboat_epp::fuzzing::tokenizer_answer(data);
}

/// Any gRPC request body must be parsed or refused. A response must give the same usage, whatever chunks it arrives in.
pub(crate) fn grpc_body(data: &[u8]) {
    longboat_epp::fuzzing::grpc(data);
}

/// Any response of a latency predictor must give times or an error.
pub(crate) fn predictor_answer(data: &[u8]) {
    longboat_epp::fuzzing::predictor_answer(data);
}

/// Any text must be parsed as a configuration, or refused with a message.
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
