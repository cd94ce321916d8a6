//! What a test says that cannot run here, because a program is missing.
//!
//! The test harness keeps what a passing test prints. So the remark goes past it to the terminal, and into a file that the
//! last target of `cargo test --workspace` counts (`crates/testkit/tests/summary.rs`).

use std::{
    env, fs,
    io::{self, Write},
    os::unix::process::parent_id,
    path::PathBuf,
    thread,
};

/// Says that the calling test does not run, and why.
///
/// # Panics
///
/// With `CI` set: there, nothing may be left out.
pub fn skipped(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(env::var_os("CI").is_none(), "{test} cannot run: {why}");
    let line = format!("{test}: {why}\n");
    // A remark that cannot be written is no reason to fail a test.
    let _ = io::stderr().write_all(format!("NOT RUN {line}").as_bytes());
    if let Some(file) = record() {
        let file = fs::File::options().create(true).append(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// The tests of this run of cargo that did not run, as `TEST: WHY`, sorted. The second call finds none.
pub fn take_skipped() -> Vec<String> {
    let text = record().and_then(|file| {
        let text = fs::read_to_string(&file).ok();
        let _ = fs::remove_file(file);
        text
    });
    let mut lines: Vec<String> = text.unwrap_or_default().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The file of this run, beside the folder of the test programs: cargo starts each of them, so it is the parent of all.
fn record() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    Some(program.ancestors().nth(2)?.join(format!("not-run-{}.txt", parent_id())))
}
