//! Finds the wanted numbers in a Prometheus page and skips everything else. Parsing every line took four fifths of the
//! reference's scraping cost.

use longboat_api::series::Series;
use longboat_scheduler::{
    LoraAdapters, Metrics,
    config::{EngineConfig, MetricSpec},
};

/// The most adapters of a list that are read, because they are copied with every page.
const MAX_ADAPTERS: usize = 1024;

/// Updates `metrics` from a page. Metrics that the page lacks keep their values. Returns whether the page had the metrics that
/// every engine should have: queue length, running requests and use of the KV cache.
pub(crate) fn extract(page: &[u8], engine: &EngineConfig, metrics: &mut Metrics) -> bool {
    let wanted = [
        (Field::Waiting, &engine.queued_requests_spec),
        (Field::Running, &engine.running_requests_spec),
        (Field::KvUsage, &engine.kv_usage_spec),
        (Field::Lora, &engine.lora_spec),
        (Field::CacheInfo, &engine.cache_info_spec),
        (Field::BlockSize, &engine.cache_block_size_spec),
        (Field::NumBlocks, &engine.cache_num_blocks_spec),
    ];
    let custom = engine.custom_metrics.iter();
    let custom = custom.map(|custom| (Field::Custom(&custom.attribute_key), Some(&custom.metric_spec)));
    let wanted = wanted.into_iter().map(|(what, spec)| (what, spec.as_ref())).chain(custom);
    let wanted: Vec<_> = wanted.filter_map(|(what, spec)| Some((what, spec?))).collect();
    let specs = [&engine.queued_requests_spec, &engine.running_requests_spec, &engine.kv_usage_spec];
    let mut found = specs.map(Option::is_none);
    let mut lora: Option<(f64, LoraAdapters)> = None;
    for line in lines(page) {
        if line.first().is_none_or(|first| *first == b'#') {
            continue;
        }
        for (what, spec) in &wanted {
            // Most names are already told apart by their length.
            if !matches!(line.get(spec.name.len()), Some(b'{' | b' ' | b'\t')) {
                continue;
            }
            let Some(rest) = line.strip_prefix(spec.name.as_bytes()) else {
                continue;
            };
            let series = std::str::from_utf8(rest).ok().and_then(Series::after_name);
            let Some(series) = series.filter(|series| has(series, spec)) else {
                continue;
            };
            match what {
                Field::Custom(name) => {
                    metrics.custom.insert((*name).to_owned(), series.value);
                }
                Field::Waiting => (found[0], metrics.waiting) = (true, series.value),
                Field::Running => (found[1], metrics.running) = (true, series.value),
                Field::KvUsage => (found[2], metrics.kv_usage) = (true, series.value),
                Field::BlockSize => metrics.block_size = count(series.value),
                Field::NumBlocks => metrics.num_blocks = count(series.value),
                Field::Lora => {
                    // There may be several series. The newest has the largest value, because the value is a timestamp.
                    if lora.as_ref().is_none_or(|(newest, _)| series.value >= *newest) {
                        lora = Some((series.value, adapters(&series)));
                    }
                }
                Field::CacheInfo => {
                    let size = or_default(engine.cache_block_size_label_name.as_deref(), "block_size");
                    let blocks = or_default(engine.cache_num_blocks_label_name.as_deref(), "num_gpu_blocks");
                    if let Some(size) = series.label(size).and_then(|size| size.parse().ok()) {
                        metrics.block_size = size;
                    }
                    if let Some(blocks) = series.label(blocks).and_then(|blocks| blocks.parse().ok()) {
                        metrics.num_blocks = blocks;
                    }
                }
            }
        }
    }
    if let Some((_, adapters)) = lora {
        metrics.lora = Some(adapters);
    }
    found == [true; 3]
}

/// Returns the lines of a page. Most lines are long and not needed, so their ends are searched many bytes at a time.
fn lines(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', page).chain([page.len()]).map(move |end| {
        let line = &page[start..end];
        start = end + 1;
        line
    })
}

#[derive(Debug, Clone, Copy)]
enum Field<'a> {
    /// A custom attribute.
    Custom(&'a str),
    Waiting,
    Running,
    KvUsage,
    Lora,
    CacheInfo,
    BlockSize,
    NumBlocks,
}

fn adapters(series: &Series<'_>) -> LoraAdapters {
    let list = |name| {
        series
            .label(name)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|adapter| !adapter.is_empty())
            .take(MAX_ADAPTERS)
            .map(str::to_owned)
            .collect()
    };
    LoraAdapters {
        active: list("running_lora_adapters"),
        waiting: list("waiting_lora_adapters"),
        max: series.label("max_lora").and_then(|max| max.trim().parse().ok()).unwrap_or_default(),
    }
}

fn or_default<'a>(label: Option<&'a str>, default: &'a str) -> &'a str {
    label.filter(|label| !label.is_empty()).unwrap_or(default)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and counts are whole"
)]
fn count(value: f64) -> u32 {
    value as u32
}

fn has(series: &Series<'_>, spec: &MetricSpec) -> bool {
    spec.labels.iter().all(|(name, value)| series.label(name).as_deref() == Some(value))
}

#[cfg(test)]
mod tests;
