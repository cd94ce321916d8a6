//! Processes that carry a mark in their environment.

/// What a scan of all processes found.
#[derive(Debug, Default)]
struct Found {
    marked: Vec<rustix::process::Pid>,
    /// Processes in the middle of `execve`, whose environment is not to be seen yet.
    starting: usize,
}

/// Kills every process, other than this one, whose environment has `key=value`; answers how many there were, and may be:
/// until that is none, look again.
///
/// Only Linux shows the environment of other processes. Elsewhere there are none.
pub(super) fn kill(key: &str, value: &str) -> usize {
    let Found { marked, starting } = find(key, value);
    let killed = |pid: &&rustix::process::Pid| {
        rustix::process::kill_process(**pid, rustix::process::Signal::KILL).is_ok()
    };
    marked.iter().filter(killed).count() + starting
}

#[cfg(target_os = "linux")]
fn find(key: &str, value: &str) -> Found {
    let wanted = format!("{key}={value}");
    let own = rustix::process::getpid();
    let mut found = Found::default();
    let Ok(entries) = std::fs::read_dir("/proc") else { return found };
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(rustix::process::Pid::from_raw).filter(|pid| *pid != own) else {
            continue;
        };
        let path = entry.path();
        // Another user's process has nothing that could be read.
        let Ok(environment) = std::fs::read(path.join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            found.marked.push(pid);
        } else if environment.is_empty() && is_starting(&path) {
            found.starting += 1;
        }
    }
    found
}

/// Whether a process without an environment has a program already, and no arguments yet. Threads of the kernel and zombies
/// have no program.
#[cfg(target_os = "linux")]
fn is_starting(process: &std::path::Path) -> bool {
    std::fs::read_link(process.join("exe")).is_ok()
        && std::fs::read(process.join("cmdline")).is_ok_and(|arguments| arguments.is_empty())
}

#[cfg(not(target_os = "linux"))]
fn find(_key: &str, _value: &str) -> Found {
    Found::default()
}
