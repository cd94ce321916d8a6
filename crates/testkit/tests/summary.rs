//! The last lines of `cargo test --workspace`: how many tests did not run, and why.

#![expect(clippy::print_stdout, reason = "this is for the person at the terminal")]

use std::collections::BTreeMap;

fn main() {
    // With `--list`, this program must print no tests.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let lines = longboat_golden::take_skipped();
    if lines.is_empty() {
        println!("\nNo test was left out for want of a program.\n");
        return;
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in &lines {
        let (test, why) = line.split_once(": ").unwrap_or(("", line));
        reasons.entry(why).or_default().push(test);
    }
    println!("\n{} tests DID NOT RUN (scripts/tools.sh fetches what they need):", lines.len());
    for (why, tests) in reasons {
        println!("  {why}: {}", tests.join(", "));
    }
    println!();
}
