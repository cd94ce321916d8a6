//! Fuzz target of the serving proof. The test that replays the stored corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_plan::proof::probe_bytes;

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 1] = [("proof_answer", proof_answer)];

/// The input is a response's status code (two bytes) and body, and after a zero byte an engine's metrics page. Any input must
/// give a verdict that fits into a condition.
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
