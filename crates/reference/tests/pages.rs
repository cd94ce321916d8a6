//! The committed reference pages are equal to those that the code generates.

use std::{collections::BTreeSet, fs, path::Path};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_committed_pages_are_current() {
    let stale: Vec<_> = longboat_reference::pages(root())
        .unwrap()
        .into_iter()
        .filter(|(path, page)| fs::read_to_string(root().join(path)).unwrap_or_default() != *page)
        .map(|(path, _)| path)
        .collect();
    assert!(stale.is_empty(), "out of date: {stale:?}: cargo run -p longboat-reference");
}

/// An operator reads this page before a take-over, so it has what matters and fits a screen.
#[test]
fn the_page_for_a_take_over_is_short() {
    let page = fs::read_to_string(root().join("docs/compatibility/take-over.md")).unwrap();
    let (lines, words) = (page.lines().count(), page.split_whitespace().count());
    assert!(lines <= 30 && words <= 500, "{lines} lines, {words} words");
}

#[test]
fn everything_that_is_named_has_a_sentence() {
    assert_eq!(longboat_reference::gaps(root()).unwrap(), Vec::<String>::new());
}

/// The metrics page is written by hand. This test compares it with the controller's series in the source.
/// `tests/local/book/mod.rs` compares it with running model servers and pickers.
#[test]
fn every_series_of_the_controller_is_on_the_page_of_metrics_and_no_other() {
    let page = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    let (_, page) = page.split_once("## Controller").unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let told: BTreeSet<&str> = rows.map(|(name, _)| name.trim_end_matches("_total")).collect();
    let begin = [
        "controller_runtime_",
        "kserve_",
        "workqueue_",
        "rest_client_",
        "longboat_",
        "leader_election_",
        "process_",
    ];
    let mut known = BTreeSet::new();
    let sources = ["mod.rs", "page.rs"]
        .map(|name| fs::read_to_string(root().join("crates/controller/src/metrics").join(name)).unwrap());
    for source in &sources {
        let literals = source.split('"').skip(1).step_by(2);
        let is_name = |text: &&str| {
            begin.iter().any(|begin| text.starts_with(begin))
                && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        };
        known.extend(literals.filter(is_name));
    }
    assert_eq!(told, known);
}
