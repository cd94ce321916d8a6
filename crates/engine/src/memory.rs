//! Whether a model fits into the machine's memory, asked before it is read.

use std::path::Path;

use crate::LoadError;

/// Fails where weights and cache, in bytes, need more than the machine has available.
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

/// The size of a model's files, which is what its weights take or more: numbers of 16 bits become 8.
pub(crate) fn of_weights(path: &Path) -> u64 {
    if path.is_file() {
        return path.metadata().map_or(0, |metadata| metadata.len());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let weights = entries.filter(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|extension| extension == "safetensors" || extension == "gguf")
    });
    weights.filter_map(|entry| Some(std::fs::metadata(entry.path()).ok()?.len())).sum()
}

/// Memory that can be had without swapping, as Linux estimates it.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}
