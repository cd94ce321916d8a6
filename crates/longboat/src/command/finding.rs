//! The form of a finding in a terminal.

use longboat_offline::validate::{Finding, Severity, shortened};
use owo_colors::OwoColorize;

use crate::printer::one_line;

/// Formats a finding with its hint for a terminal.
pub(super) fn coloured(finding: &Finding) -> String {
    let line = finding.line();
    let line = one_line(&line);
    let name = format!(" {}:", finding.severity.name());
    let bright = match finding.severity {
        Severity::Error => format!(" {}", name.trim().red().bold()),
        Severity::Warning => format!(" {}", name.trim().yellow().bold()),
        Severity::Note => format!(" {}", name.trim().cyan().bold()),
    };
    let line = line.replacen(&name, &bright, 1);
    match &finding.hint {
        Some(hint) => format!("{line}\n  {} {}", "hint:".cyan().bold(), one_line(&shortened(hint))),
        None => line,
    }
}
