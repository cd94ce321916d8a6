//! What is fuzzed of the proof of serving. The test that replays the kept corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_plan::proof::probe_bytes;

/// What runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name: the folders of the corpus are named alike.
pub(crate) const ALL: [(&str, Target); 1] = [("proof_answer", proof_answer)];

/// Two bytes are the status of an answer, then comes its body, and after a zero byte a page of an engine's metrics. Whatever they hold,
/// there is a verdict that fits into a condition.
pub(crate) fn proof_answer(data: &[u8]) {
    let [high, low, rest @ ..] = data else { return };
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let (body, page) = rest.split_at(end);
    let outcome = probe_bytes(u16::from_be_bytes([*high, *low]), body, page);
    for verdict in outcome.transfer.iter().chain([&outcome.serving]) {
        assert!(!verdict.reason().is_empty() && !verdict.message().is_empty());
        assert!(verdict.message().len() < 4096, "a condition stays small");
        assert!(!verdict.message().contains(char::is_control), "a condition is one line");
    }
}
