//! Processes that carry a mark in their environment.

/// Kills every process, other than this one, whose environment has `key=value`; answers how many there were.
///
/// Only Linux shows the environment of other processes. Elsewhere there are none.
pub(super) fn kill(key: &str, value: &str) -> usize {
    find(key, value)
        .into_iter()
        .filter(|pid| rustix::process::kill_process(*pid, rustix::process::Signal::KILL).is_ok())
        .count()
}

#[cfg(target_os = "linux")]
fn find(key: &str, value: &str) -> Vec<rustix::process::Pid> {
    let wanted = format!("{key}={value}");
    let own = rustix::process::getpid();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = rustix::process::Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            // Another user's process, one that has just ended, and a zombie have nothing to read.
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let marked = environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
            (marked && pid != own).then_some(pid)
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn find(_key: &str, _value: &str) -> Vec<rustix::process::Pid> {
    Vec::new()
}
