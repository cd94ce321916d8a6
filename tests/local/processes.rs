//! Inspects processes like `ps`, and sends signals.

use std::{collections::BTreeMap, fs, process::Command};

/// Returns the ids of all processes with this `NAME=value` in their environment.
pub(crate) fn with_variable(variable: &str) -> Vec<u32> {
    all().filter(|pid| environment(*pid).iter().any(|entry| entry == variable)).collect()
}

/// Returns the `LONGBOAT_NODE_ID=…` in the environment of a process's children, or `None` while it has no children.
pub(crate) fn node_id(parent: u32) -> Option<String> {
    let children = all().filter(|pid| parent_of(*pid) == Some(parent));
    children.flat_map(environment).find(|entry| entry.starts_with("LONGBOAT_NODE_ID="))
}

/// The command line, with spaces between the arguments.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// The environment of a process.
pub(crate) fn variables(pid: u32) -> BTreeMap<String, String> {
    let pairs = environment(pid).into_iter();
    pairs.filter_map(|entry| entry.split_once('=').map(|(key, value)| (key.into(), value.into()))).collect()
}

/// Whether a process handles SIGTERM.
pub(crate) fn handles_sigterm(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // SIGTERM has number 15, and the first bit is that of signal 1.
    caught & 1 << 14 != 0
}

/// Sends a signal by its name.
pub(crate) fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}: {status}");
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn environment(pid: u32) -> Vec<String> {
    // Processes that have ended, or of other users, cannot be read.
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character. State and parent follow it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
