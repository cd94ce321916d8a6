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
            let _ = writeln!(out, "    → {step}");
        }
        let _ = writeln!(out, "    cause: {}", finding.cause);
        let _ = writeln!(out, "    fix:   {}", finding.fix);
    }
    out
}
