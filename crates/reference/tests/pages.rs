//! The committed pages are those that the code makes.

use std::{fs, path::Path};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_committed_pages_are_current() {
    let stale: Vec<_> = longboat_reference::pages(root())
        .unwrap()
        .into_iter()
        .filter(|(name, page)| {
            let stored = fs::read_to_string(root().join("docs/reference").join(name)).unwrap_or_default();
            stored != *page
        })
        .map(|(name, _)| name)
        .collect();
    assert!(stale.is_empty(), "out of date: {stale:?}: cargo run -p longboat-reference");
}

#[test]
fn everything_that_is_named_has_a_sentence() {
    assert_eq!(longboat_reference::gaps(root()).unwrap(), Vec::<String>::new());
}
