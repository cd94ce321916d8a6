//! Finds the wanted numbers in a Prometheus page and skips everything else. Parsing every line took four fifths of the
//! reference's scraping cost.

use std::borrow::Cow;

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
            let Some(rest) = line.strip_prefix(spec.name.as_bytes()) else {
                continue;
            };
            let Some(series) = Series::read(rest) else {
                continue;
            };
            if !series.has(spec) {
                continue;
            }
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
                    let size = engine.cache_block_size_label_name.as_deref().unwrap_or("block_size");
                    let blocks = engine.cache_num_blocks_label_name.as_deref().unwrap_or("num_gpu_blocks");
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and counts are whole"
)]
fn count(value: f64) -> u32 {
    value as u32
}

/// The rest of a line after the metric's name.
struct Series<'a> {
    labels: &'a str,
    value: f64,
}

impl<'a> Series<'a> {
    /// Returns `None` if the metric's name is longer than the wanted one, or if the line is malformed.
    fn read(rest: &'a [u8]) -> Option<Self> {
        let rest = std::str::from_utf8(rest).ok()?;
        let (labels, value) = match rest.as_bytes().first()? {
            b'{' => {
                let end = end_of_labels(rest)?;
                (&rest[1..end], &rest[end + 1..])
            }
            b' ' | b'\t' => ("", rest),
            _ => return None,
        };
        // A timestamp may follow the value.
        let value: f64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        // NaN or infinity from one endpoint would make the saturation of the whole pool NaN or infinite.
        value.is_finite().then_some(Self { labels, value })
    }

    fn has(&self, spec: &MetricSpec) -> bool {
        spec.labels.iter().all(|(name, value)| self.label(name).as_deref() == Some(value))
    }

    fn label(&self, wanted: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.labels;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            let (name, after) = rest.split_once('=')?;
            let after = after.trim_start().strip_prefix('"')?;
            let (value, remaining) = quoted(after)?;
            if name.trim() == wanted {
                return Some(value);
            }
            rest = remaining;
        }
    }
}

/// Returns the position of the brace that closes the labels. Braces in quoted values do not count.
fn end_of_labels(rest: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Reads a label's value up to its closing quote. Returns the value and the text after it. Few values have escapes, and some
/// series have many labels, so the others are not copied.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text[end..].starts_with('"') {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((Cow::Owned(value), &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests;
