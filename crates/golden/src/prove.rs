//! Proves that archiving has changed no test result: the tests that read recordings print the same for a folder and for the
//! archives made of it.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, ExitCode},
};

/// The test targets that read recordings: package, target, filter.
const TARGETS: [[&str; 3]; 9] = [
    ["longboat-api", "--test=api", ""],
    ["longboat-compose", "--lib", "tests::"],
    ["longboat-plan", "--lib", "tests::"],
    ["longboat-schema", "--lib", "tests::"],
    ["longboat-epp", "--lib", "golden"],
    ["longboat-admission", "--test=golden", ""],
    ["longboat-apiserver", "--lib", "webhook::tests"],
    ["longboat-apiserver", "--test=transcripts", "recorded_conversations"],
    ["longboat-controller", "--test=controller", "golden::"],
];

/// Runs each target, or those of one package, with both. Fails if the output of a target differs.
pub(crate) fn prove(folder: &Path, only: Option<&str>) -> ExitCode {
    let folder = match folder.canonicalize() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let (mut failed, mut ran) = (false, 0);
    for [package, target, filter] in TARGETS {
        if only.is_some_and(|only| only != package) {
            continue;
        }
        ran += 1;
        let of_folder = test_results(package, target, filter, Some(&folder));
        let of_packed = test_results(package, target, filter, None);
        let different: Vec<&String> = of_folder.symmetric_difference(&of_packed).collect();
        let tests = of_packed.iter().filter(|line| line.starts_with("test ")).count();
        println!(
            "{package} {target} {filter}: {tests} tests, {} lines, {} different",
            of_packed.len(),
            different.len()
        );
        for line in &different {
            println!("  {} {line}", if of_folder.contains(*line) { "folder" } else { "packed" });
        }
        failed |= !different.is_empty() || tests == 0;
    }
    if ran == 0 {
        eprintln!("no test of {} reads recordings", only.unwrap_or("any package"));
    }
    if failed || ran == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns the output of a test run, without the parts that differ between any two runs.
fn test_results(package: &str, target: &str, filter: &str, folder: Option<&Path>) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "-p", package, target, "--", "--nocapture"]);
    command.args(Some(filter).filter(|filter| !filter.is_empty()));
    command.env("NO_COLOR", "1");
    if package == "longboat-controller" {
        command.env("LONGBOAT_CASE", "all");
    }
    match folder {
        Some(folder) => command.env("LONGBOAT_GOLDEN", folder),
        None => command.env_remove("LONGBOAT_GOLDEN"),
    };
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return BTreeSet::from([format!("cargo cannot be started: {error}")]),
    };
    let text = [output.stdout, output.stderr].concat();
    let lines = String::from_utf8_lossy(&text).into_owned();
    let passing = ["Compiling", "Finished", "Running", "Blocking", "warning"];
    lines
        .lines()
        .map(|line| line.split("; finished in").next().unwrap_or_default().trim().to_owned())
        .filter(|line| !line.is_empty() && !passing.iter().any(|word| line.starts_with(word)))
        .filter(|line| !line.contains("has been running for"))
        .collect()
}
