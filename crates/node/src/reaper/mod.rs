//! The reaper: ends the node's processes if the node cannot.
//!
//! A node that is killed with SIGKILL runs no cleanup. So it starts a helper, the `reaper` role of the same executable, in a
//! process group of its own. Over a pipe, the node tells the helper what to clean up, one line each:
//!
//! | line | meaning |
//! |---|---|
//! | `node <id>` | the node's processes carry `LONGBOAT_NODE_ID=<id>` |
//! | `dir <path>` | remove this folder at the end |
//! | `add <pid>` | a process group was started |
//! | `remove <pid>` | a process group has ended |
//!
//! The pipe closes when the node ends for any reason. The helper then kills the remaining groups and removes the folder. On
//! Linux it also kills every process that carries the node's id: a daemon that has left its group, or a process that started
//! just before the node died.

mod client;
mod marked;

use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::private;
pub(crate) use client::{Reaper, Registration};

/// The variable that marks the node's processes.
pub(crate) const NODE_ID: &str = "LONGBOAT_NODE_ID";

/// Runs the role: reads the protocol from standard input, and cleans up at the end of the input. Blocks.
pub fn run() -> io::Result<()> {
    run_from(io::stdin().lock())
}

/// What to clean up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cleanup {
    node: Option<String>,
    dirs: Vec<PathBuf>,
    groups: BTreeSet<i32>,
}

impl Cleanup {
    /// Reads one line. Ignores a line that it does not understand, because the rest must still be cleaned up.
    fn read(&mut self, line: &str) {
        let Some((verb, value)) = line.split_once(' ') else { return };
        match (verb, value.parse::<i32>()) {
            ("node", _) => self.node = Some(value.to_owned()),
            ("dir", _) => self.dirs.push(PathBuf::from(value)),
            // The numbers 0 and 1 would mean this process's own group and every process.
            ("add", Ok(pid)) if pid > 1 => {
                self.groups.insert(pid);
            }
            ("remove", Ok(pid)) => {
                self.groups.remove(&pid);
            }
            _ => {}
        }
    }

    fn clean_up(&self) -> io::Result<()> {
        for pid in self.groups.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // The group may have ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        if let Some(node) = &self.node {
            // If a process forks during the search, the next round finds the new process.
            for _ in 0..50 {
                if marked::kill(NODE_ID, node) == 0 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let removed = self.dirs.iter().map(|dir| private::if_found(std::fs::remove_dir_all(dir)).map(drop));
        // All are tried: a folder that cannot be removed keeps no other.
        removed.fold(Ok(()), Result::and)
    }
}

fn run_from(input: impl BufRead) -> io::Result<()> {
    let mut cleanup = Cleanup::default();
    for line in input.lines() {
        match line {
            Ok(line) => cleanup.read(&line),
            Err(error) => {
                tracing::warn!(%error, "Cannot read the pipe of the node; cleaning up.");
                break;
            }
        }
    }
    cleanup.clean_up()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;

    #[test]
    fn the_protocol_is_read_and_nonsense_is_left_out() {
        let mut cleanup = Cleanup::default();
        for line in [
            "node n-1",
            "dir /tmp/a b",
            "add 12",
            "add 13",
            "remove 12",
            "add 0",
            "add -5",
            "add x",
            "",
            "what",
        ] {
            cleanup.read(line);
        }
        let expected =
            Cleanup { node: Some("n-1".into()), dirs: vec!["/tmp/a b".into()], groups: [13].into() };
        assert_eq!(cleanup, expected);
    }

    #[test]
    fn at_the_end_groups_are_killed_and_the_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap().keep();
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        run_from(format!("add {}\ndir {}\n", child.id(), dir.display()).as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(!dir.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_removed_keeps_no_other() {
        let dir = tempfile::tempdir().unwrap().keep();
        assert!(run_from(format!("dir /dev/null/x\ndir {}\n", dir.display()).as_bytes()).is_err());
        assert!(!dir.exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn at_the_end_processes_with_the_nodes_mark_are_killed() {
        let id = format!("test-{}", std::process::id());
        let mut child = Command::new("sleep").arg("100").env(NODE_ID, &id).spawn().unwrap();
        let mut other = Command::new("sleep").arg("100").env(NODE_ID, "another").spawn().unwrap();
        run_from(format!("node {id}\n").as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
