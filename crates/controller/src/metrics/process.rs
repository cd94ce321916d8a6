//! Metrics of this process from the operating system, under the names of Prometheus' client libraries.

use std::fs;

/// Clock ticks per second in `/proc/self/stat`. Linux uses 100 on every architecture that we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// The values from `/proc`. A value that cannot be read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) cpu_seconds: Option<f64>,
    /// Start time in seconds since 1970.
    pub(super) start_seconds: Option<f64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
}

impl Usage {
    pub(super) fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let fds = fs::read_dir("/proc/self/fd").ok();
        Self {
            // Reading the folder opens one descriptor itself.
            open_fds: fds.map(|all| (all.count() as u64).saturating_sub(1)),
            ..Self::parse(
                &text("/proc/self/stat"),
                &text("/proc/self/status"),
                &text("/proc/stat"),
                &text("/proc/self/limits"),
            )
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "ticks of a process stay far below 2^52")]
    fn parse(stat: &str, status: &str, system: &str, limits: &str) -> Self {
        // The program's name, in parentheses, may contain spaces and parentheses.
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect())
            .unwrap_or_default();
        // Indexes count from the state, the third field in proc(5).
        let ticks = |field: usize| fields.get(field - 3).map(|ticks| *ticks as f64 / TICKS_PER_SECOND);
        let kilobytes = |name: &str| number(status, name).map(|kilobytes| kilobytes * 1024);
        let boot = number(system, "btime").map(|seconds| seconds as f64);
        Self {
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| user + system),
            start_seconds: boot.zip(ticks(22)).map(|(boot, since)| boot + since),
            resident_bytes: kilobytes("VmRSS:"),
            virtual_bytes: kilobytes("VmSize:"),
            open_fds: None,
            max_fds: number(limits, "Max open files"),
        }
    }
}

/// The number on the line that begins with a name.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says_is_read() {
        let stat = "7 (long) boat) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 9 0 4200 1 2";
        let status = "Name:\tlongboat\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024   4096  files\n";
        let usage = Usage::parse(stat, status, "cpu 1 2\nbtime 1000\n", limits);
        let expected = Usage {
            cpu_seconds: Some(2.0),
            start_seconds: Some(1042.0),
            resident_bytes: Some(1 << 20),
            virtual_bytes: Some(2 << 20),
            open_fds: None,
            max_fds: Some(1024),
        };
        assert_eq!(usage, expected);
        assert_eq!(Usage::parse("", "", "", ""), Usage::default());
    }
}
