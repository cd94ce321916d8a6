//! Tests that the commands which messages and documents tell people to type exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use longboat_install::{Installation, Values};
use serde_json::Value;

use crate::{cli, program_name::ProgramName};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the Rust files and documents that may tell commands. Recordings tell those of other programs.
fn files() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let mut files: Vec<_> = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "COMPATIBILITY.md"]
        .map(|name| root.join(name))
        .into();
    let mut folders =
        ["crates", "docs", "benches", "examples", "deploy"].map(|name| root.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the commands of a program in a text: those in backticks, and the lines of console blocks.
fn commands(text: &str, program: &str) -> BTreeSet<String> {
    // A string literal may continue in the next line, and a comment or a paragraph too.
    let mut joined = String::new();
    for line in text.lines() {
        let line = line.trim_start();
        let line = ["//! ", "/// ", "// "].iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line);
        match line.strip_suffix('\\') {
            Some(open) => joined.push_str(open),
            None => joined.extend([line, "\n"]),
        }
    }
    let start = format!("{program} ");
    let in_backticks = joined.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " "));
    let typed = joined.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line).to_owned());
    let all = in_backticks.chain(typed).filter(|command| command.starts_with(&start));
    all.map(|command| command.split(['#', '|', '>']).next().unwrap_or_default().trim().to_owned()).collect()
}

/// Returns the value of an option, in one word or in two.
fn option<'a>(words: &[&'a str], names: &[&str]) -> Option<&'a str> {
    let at = words.iter().position(|word| names.contains(word));
    let next = at.and_then(|at| words.get(at + 1)).copied();
    next.or_else(|| words.iter().find_map(|word| word.strip_prefix(names[0])?.strip_prefix('=')))
}

/// Returns why cargo would not find what a command names.
fn cargo_problem(command: &str, metadata: &Value) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().take_while(|word| *word != "--").collect();
    if !["build", "run", "test", "bench", "check", "clippy"].contains(words.get(1)?) {
        return None;
    }
    let packages = metadata["packages"].as_array().unwrap();
    let package = option(&words, &["--package", "-p"]);
    // Without a package, cargo looks only in those that it builds by default.
    let in_reach: Vec<&Value> = if words.contains(&"--workspace") {
        packages.iter().collect()
    } else {
        packages.iter().filter(|found| found["name"] == package.unwrap_or("longboat")).collect()
    };
    if in_reach.is_empty() {
        return Some(format!("there is no package {}", package.unwrap_or_default()));
    }
    [("bin", "--bin"), ("example", "--example"), ("test", "--test"), ("bench", "--bench")].iter().find_map(
        |(kind, flag)| {
            let name = option(&words, &[*flag])?;
            let targets = in_reach.iter().flat_map(|package| package["targets"].as_array().unwrap());
            let mut fitting = targets.filter(|target| target["kind"][0] == *kind && target["name"] == name);
            fitting.next().is_none().then(|| format!("no {kind} {name} in what cargo builds by default"))
        },
    )
}

/// Returns why this program would not understand a command.
fn longboat_problem(command: &str, known: &clap::Command) -> Option<String> {
    let mut verb = known;
    let mut words = command.split_whitespace().skip(1).peekable();
    while let Some(word) = words.peek() {
        // Words in capitals stand for something else.
        let is_name =
            word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && !word.starts_with('-');
        match verb.find_subcommand(word) {
            Some(found) => verb = found,
            None if is_name && std::ptr::eq(verb, known) && *word != "help" => {
                return Some(format!("there is no verb {word}"));
            }
            None => break,
        }
        words.next();
    }
    // Model servers have flags of their own.
    if std::ptr::eq(verb, known) || verb.is_disable_help_flag_set() {
        return None;
    }
    let flags = words.filter_map(|word| word.strip_prefix("--")).map(|flag| {
        let ends = |byte: char| !byte.is_ascii_alphanumeric() && byte != '-';
        flag.split(ends).next().unwrap_or_default()
    });
    let exists = |flag: &str| {
        let mut arguments = verb.get_arguments();
        flag.is_empty()
            || ["help", "version"].contains(&flag)
            || arguments.any(|argument| {
                let aliases = argument.get_all_aliases().unwrap_or_default();
                argument.get_long() == Some(flag) || aliases.contains(&flag)
            })
    };
    let unknown: Vec<_> = flags.filter(|flag| !exists(flag)).collect();
    (!unknown.is_empty()).then(|| format!("{} has no flag {}", verb.get_name(), unknown.join(", ")))
}

/// Returns why `longboat install` would refuse the values of a command.
fn values_problem(command: &str) -> Option<String> {
    let plain = command.replace('\'', "");
    let mut words = plain.split_whitespace();
    let mut assignments = Vec::new();
    while let Some(word) = words.next() {
        if word == "--set" {
            assignments.extend(words.next().map(str::to_owned));
        }
    }
    let values = Values::read(&[], &assignments).map_err(|error| error.to_string());
    values.and_then(|values| Installation::new("kserve", &values).map_err(|error| error.to_string())).err()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(ROOT)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_command_that_people_are_told_to_type_exists() {
    let (metadata, known) = (metadata(), cli::command(ProgramName::Longboat));
    let (mut count, mut problems) = (0, Vec::new());
    for file in files() {
        let text = fs::read_to_string(&file).unwrap();
        for command in commands(&text, "cargo") {
            count += 1;
            problems.extend(
                cargo_problem(&command, &metadata)
                    .map(|why| format!("{command}: {why} ({})", file.display())),
            );
        }
        for command in commands(&text, "longboat") {
            count += 1;
            problems.extend(
                longboat_problem(&command, &known)
                    .map(|why| format!("{command}: {why} ({})", file.display())),
            );
        }
    }
    assert!(count > 150, "{count}");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_installation_that_documents_show_has_values_that_are_accepted() {
    let (mut count, mut problems) = (0, Vec::new());
    for file in files().into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "md"))
    {
        let text = fs::read_to_string(&file).unwrap();
        for command in commands(&text, "longboat install") {
            count += 1;
            // These stand for an image of the reader's.
            let command = command.replace("image=IMAGE", "image=image").replace("image=…", "image=image");
            problems
                .extend(values_problem(&command).map(|why| format!("{command}: {why} ({})", file.display())));
        }
    }
    assert!(count > 15, "{count}");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn wrong_commands_are_found() {
    let (metadata, known) = (metadata(), cli::command(ProgramName::Longboat));
    for wrong in
        ["cargo build --bin longboat-engine", "cargo run -p longboat-nothing", "cargo test --test nothing"]
    {
        assert!(cargo_problem(wrong, &metadata).is_some(), "{wrong}");
    }
    for right in [
        "cargo build -p longboat-engine --features llguidance",
        "cargo run -- engine x",
        "cargo build -p longboat-engine --features llguidance --bin longboat-engine",
    ] {
        assert_eq!(cargo_problem(right, &metadata), None, "{right}");
    }
    for wrong in ["longboat launch x", "longboat up x --promt y", "longboat models ls --al"] {
        assert!(longboat_problem(wrong, &known).is_some(), "{wrong}");
    }
    for right in ["longboat VERB --help", "longboat up x --prompt y", "longboat engine m --max-num-seqs 4"] {
        assert_eq!(longboat_problem(right, &known), None, "{right}");
    }
    let tick = '`';
    let told =
        commands(&format!("\"use {tick}cargo build \\\n    --bin x{tick}\"\n$ longboat up a | b\n"), "cargo");
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["cargo build --bin x"]);
}
