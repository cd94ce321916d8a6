//! Processes with a mark in their environment.

/// The result of a scan of all processes.
#[derive(Debug, Default)]
struct ProcessScan {
    marked: Vec<rustix::process::Pid>,
    /// Processes in the middle of `execve`, whose environment is not visible yet.
    starting: usize,
}

/// Kills every process, other than this one, whose environment has `key=value`. Returns how many there were, plus the
/// processes whose environment is not visible yet. The caller repeats this until the result is 0.
///
/// Only Linux shows the environment of other processes. On other systems the result is always 0.
pub(super) fn kill(key: &str, value: &str) -> usize {
    let ProcessScan { marked, starting } = find(key, value);
    let killed = |pid: &&rustix::process::Pid| {
        rustix::process::kill_process(**pid, rustix::process::Signal::KILL).is_ok()
    };
    marked.iter().filter(killed).count() + starting
}

#[cfg(target_os = "linux")]
fn find(key: &str, value: &str) -> ProcessScan {
    let wanted = format!("{key}={value}");
    let own = rustix::process::getpid();
    let mut found = ProcessScan::default();
    let Ok(entries) = std::fs::read_dir("/proc") else { return found };
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(rustix::process::Pid::from_raw).filter(|pid| *pid != own) else {
            continue;
        };
        let path = entry.path();
        // The environment of another user's process is not readable.
        let Ok(environment) = std::fs::read(path.join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            found.marked.push(pid);
        } else if environment.is_empty() && is_starting(&path) {
            found.starting += 1;
        }
    }
    found
}

/// Whether a process without an environment already has a program but no arguments yet. Kernel threads and zombies have no
/// program.
#[cfg(target_os = "linux")]
fn is_starting(process: &std::path::Path) -> bool {
    std::fs::read_link(process.join("exe")).is_ok()
        && std::fs::read(process.join("cmdline")).is_ok_and(|arguments| arguments.is_empty())
}

#[cfg(not(target_os = "linux"))]
fn find(_key: &str, _value: &str) -> ProcessScan {
    ProcessScan::default()
}
