//! Finds out why something does not work. It does at once what users otherwise do with a dozen `kubectl` commands.
//!
//! [`gather`](gather::gather) reads a cluster or a local cluster, and writes nothing. [`examine`] is pure: it checks the
//! installation (`check`) and follows each service that does not work to the first cause (`chain`). Each check has its own
//! file, and one line in the list of checks.

mod chain;
mod check;
mod facts;
mod finding;
pub mod gather;
mod reinstall;
mod text;

pub use facts::{Answers, Engine, Facts};
pub use finding::{Finding, Severity};
pub use text::to_text;

/// Returns the findings, with the most severe and most fundamental first.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    if let Some(nothing) = check::installation::missing(facts) {
        return vec![nothing];
    }
    let mut findings = Vec::new();
    for check in check::ALL {
        check(facts, &mut findings);
    }
    // Faults of the installation come before their consequences. The sort is stable, so findings of the same severity stay in
    // the order of the checks.
    findings.sort_by_key(|finding| finding.severity);
    findings
}
