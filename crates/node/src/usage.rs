//! Resource usage of processes, from two readings of `/proc`.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use longboat_apiserver::pod_access::Resources;
use tokio::time::Instant;

/// The time between the two readings. Times have a resolution of 10 ms, so a shorter time would be inaccurate.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// The length of a tick of `/proc` in nanoseconds: every Linux has 100 ticks per second.
const TICK_NANOS: u64 = 10_000_000;

/// A process in a reading.
struct Process {
    group: i32,
    /// CPU time in ticks.
    ticks: u64,
    memory_bytes: u64,
}

/// Returns the usage of each process group, by its number.
pub(crate) async fn of_groups() -> HashMap<i32, Resources> {
    let (before, began) = (processes(), Instant::now());
    tokio::time::sleep(SAMPLE_INTERVAL).await;
    let (after, elapsed) = (processes(), began.elapsed());
    let mut groups: HashMap<i32, Resources> = HashMap::new();
    for (pid, process) in after {
        // Another process may have the number by now.
        let earlier = before.get(&pid).filter(|earlier| earlier.group == process.group);
        let ticks = process.ticks.saturating_sub(earlier.map_or(0, |earlier| earlier.ticks));
        let group = groups.entry(process.group).or_default();
        group.cpu_nanocores += rate(ticks, elapsed);
        group.memory_bytes += process.memory_bytes;
    }
    groups
}

/// Returns the usage of the machine.
pub(crate) async fn of_machine() -> Resources {
    let (before, began) = (busy(), Instant::now());
    tokio::time::sleep(SAMPLE_INTERVAL).await;
    let ticks = busy().saturating_sub(before);
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Resources {
        cpu_nanocores: rate(ticks, began.elapsed()),
        memory_bytes: size(&info, "MemTotal:").saturating_sub(size(&info, "MemAvailable:")),
    }
}

/// Converts ticks within a time to nanocores.
fn rate(ticks: u64, elapsed: Duration) -> u64 {
    let elapsed = elapsed.as_nanos().max(1);
    u64::try_from(u128::from(ticks) * u128::from(TICK_NANOS) * 1_000_000_000 / elapsed).unwrap_or(u64::MAX)
}

fn processes() -> HashMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            // The process may have ended.
            let (group, ticks) = times(&fs::read_to_string(entry.path().join("stat")).ok()?)?;
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            Some((pid, Process { group, ticks, memory_bytes: size(&status, "VmRSS:") }))
        })
        .collect()
}

/// Returns the process group and the ticks of a process. Fields are counted after the process name, which is in parentheses
/// and may contain anything.
fn times(stat: &str) -> Option<(i32, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some((fields.get(2)?.parse().ok()?, number(11)? + number(12)?))
}

/// Returns the ticks in which all CPUs together were busy.
fn busy() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let times: Vec<u64> =
        line.split_ascii_whitespace().skip(1).filter_map(|time| time.parse().ok()).collect();
    // The fourth and the fifth are idle times; those after the eighth are already part of the first two.
    times.iter().take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4)).map(|(_, time)| time).sum()
}

/// Returns a size in a file of `/proc` in bytes, or 0 if the file does not have it.
pub(crate) fn size(text: &str, name: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = rest.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_is() {
        let line = "17 (a) b) (c) S 1 42 42 0 -1 4194304 1 0 0 0 7 5 0 0 20 0 1 0 100 1000 10";
        assert_eq!(times(line), Some((42, 12)));
        assert_eq!(times("17 (a"), None);
    }

    #[test]
    fn ticks_become_parts_of_a_processor() {
        assert_eq!(rate(50, Duration::from_millis(500)), 1_000_000_000);
        assert_eq!(size("a: 1 kB\nb:   12 kB", "b:"), 12 * 1024);
    }

    #[tokio::test]
    async fn this_process_uses_memory() {
        let own = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(of_groups().await[&own].memory_bytes > 0);
        assert!(of_machine().await.memory_bytes > 0);
    }
}
