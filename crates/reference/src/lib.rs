//! The pages of `docs/reference` that are made from the code.
//!
//! Names, types and defaults come from where the code defines them: the CRDs, the constants of conditions, reasons and
//! annotations, the types of the platform's settings, and what the picker's own parser accepts. Sentences that no code has are
//! in tables here. A name without a sentence and a sentence without a name are found by the tests.

mod annotations;
mod conditions;
mod fields;
mod plugins;
mod settings;
mod source;

use std::{fs, io, path::Path};

const NOTE: &str = "Written by `cargo run -p longboat-reference`; a test compares.";

/// File names below `docs/reference`, and the text of each, for the repository at `root`.
pub fn pages(root: &Path) -> io::Result<Vec<(&'static str, String)>> {
    let read = |path: &str| fs::read_to_string(root.join("crates").join(path));
    Ok(vec![
        ("annotations.md", annotations::page(&read("api/src/annotations.rs")?)),
        ("conditions.md", conditions::page(&read("api/src/reasons.rs")?)),
        ("fields.md", fields::page()),
        ("plugins.md", plugins::page()),
        ("settings.md", settings::page(&settings_source(root)?)),
    ])
}

/// Names that have no sentence, and sentences that are about nothing.
pub fn gaps(root: &Path) -> io::Result<Vec<String>> {
    let read = |path: &str| fs::read_to_string(root.join("crates").join(path));
    let mut gaps = conditions::gaps(&read("api/src/reasons.rs")?);
    gaps.extend(plugins::gaps());
    gaps.extend(settings::gaps(&settings_source(root)?));
    Ok(gaps)
}

/// The source of the types of the platform's settings.
fn settings_source(root: &Path) -> io::Result<String> {
    let read = |path: &str| fs::read_to_string(root.join("crates/compose/src").join(path));
    Ok(read("platform/mod.rs")? + &read("platform/longboat.rs")?)
}

/// Names of `known` that `told` lacks, and the reverse.
fn differences<'a>(
    what: &str,
    known: impl IntoIterator<Item = &'a str>,
    told: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let known: std::collections::BTreeSet<&str> = known.into_iter().collect();
    let told: std::collections::BTreeSet<&str> = told.into_iter().collect();
    let untold = known.difference(&told).map(|name| format!("{what} {name} has no sentence"));
    let unknown = told.difference(&known).map(|name| format!("{what} {name} does not exist"));
    untold.chain(unknown).collect()
}

/// A text for a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
