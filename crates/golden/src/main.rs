//! A command for people: shows recordings, archives them again, and proves that archiving has changed no test result.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod prove;

use std::{path::Path, process::ExitCode};

use longboat_golden::{Entry, golden, pack, parts};

const USAGE: &str = "usage: longboat-golden COMMAND
  list            the parts of the recordings
  list PART       what is in a part
  show NAME       a case, transcript or file: its texts. NAME is a name of `list`, or a path such as cases/NAME/input
  pack DIR        packs each folder of DIR as a part, with stand-ins for what the reference wrote for people and for shells
  prove DIR [PACKAGE]
                  runs the tests that read recordings, or those of one package, on DIR and on the packed parts: both must
                  say the same";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => {
            for part in parts() {
                println!("{part:<10} {}", golden().join(&part).entries().len());
            }
            ExitCode::SUCCESS
        }
        ["list", part] => list(part),
        ["show", name] => show(name),
        ["pack", folder] => {
            for packed in pack(Path::new(folder)) {
                println!(
                    "{:<10} {} files, {} lines replaced, {} bytes",
                    packed.part, packed.files, packed.replaced, packed.bytes
                );
            }
            ExitCode::SUCCESS
        }
        ["prove", folder] => prove::prove(Path::new(folder), None),
        ["prove", folder, package] => prove::prove(Path::new(folder), Some(package)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn list(part: &str) -> ExitCode {
    let entries = golden().join(part).entries();
    for entry in &entries {
        let about = entry.join("about.txt").text();
        println!(
            "{:<60} {}",
            entry.name(),
            about.as_deref().and_then(|text| text.lines().next()).unwrap_or("")
        );
    }
    if entries.is_empty() {
        eprintln!("no part {part}; there are {}", parts().join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn show(name: &str) -> ExitCode {
    let found = candidates(name);
    for entry in &found {
        print(entry);
    }
    if found.is_empty() {
        eprintln!("no recording is named {name}: `list PART` names them");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns the possible meanings of a name: a path, or an entry with this name in any part, with or without its extension.
fn candidates(name: &str) -> Vec<Entry> {
    let at_path = golden().join(name);
    if at_path.exists() {
        return vec![at_path];
    }
    let (prefix, last) = name.rsplit_once('/').map_or(("", name), |(prefix, last)| (prefix, last));
    let folders: Vec<Entry> = if prefix.is_empty() {
        parts().iter().map(|part| golden().join(part)).collect()
    } else {
        vec![golden().join(prefix)]
    };
    let entries = folders.iter().flat_map(Entry::entries);
    entries.filter(|entry| entry.name() == last || entry.stem() == last).collect()
}

fn print(entry: &Entry) {
    match entry.text() {
        Some(text) => println!("=== {entry}\n{}\n", text.trim_end()),
        None => entry.entries().iter().for_each(print),
    }
}
