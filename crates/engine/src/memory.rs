//! Checks whether a model fits into memory before it is read.

use crate::LoadError;

/// Fails if weights and cache, in bytes, need more memory than is available.
pub(crate) fn check(weights: u64, cache: u64) -> Result<(), LoadError> {
    let Some(available) = available() else { return Ok(()) };
    let needed = weights.saturating_add(cache);
    if needed <= available {
        return Ok(());
    }
    let mib = |bytes: u64| bytes >> 20;
    Err(LoadError::Memory {
        needed: mib(needed),
        weights: mib(weights),
        cache: mib(cache),
        available: mib(available),
    })
}

/// The memory that is available without swapping, as Linux estimates it.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
