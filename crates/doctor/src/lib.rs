//! Why something does not work: what people do by hand with a dozen of `kubectl` commands, done at once.
//!
//! [`gather`](gather::gather) reads a cluster or a local world and writes nothing. [`examine`] is pure: it walks the
//! installation (`check`) and follows each service that does not work to the first cause (`chain`). A check is one file and one
//! line.

mod chain;
mod check;
mod facts;
mod finding;
pub mod gather;
mod text;

pub use facts::{Answers, Engine, Facts};
pub use finding::{Finding, Severity};
pub use text::to_text;

/// What is wrong, the worst and the most basic first.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    if let Some(nothing) = check::installation::missing(facts) {
        return vec![nothing];
    }
    let mut findings = Vec::new();
    for check in check::ALL {
        check(facts, &mut findings);
    }
    // Faults of the installation come before their consequences. The sort is stable: otherwise the order of the checks holds.
    findings.sort_by_key(|finding| finding.severity);
    findings
}
