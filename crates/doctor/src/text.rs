//! Findings for people.

use std::fmt::Write;

use crate::finding::{Finding, Severity};

/// One block for each finding; empty without findings.
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
