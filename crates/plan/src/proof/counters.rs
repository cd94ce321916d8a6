//! The series of an engine's metrics that show what the engine did with a request.

use longboat_api::series::Series;

/// The most bytes of a metrics page that are read.
pub const MAX_METRICS_BYTES: usize = 4 << 20;

/// What one engine has counted since it started, summed over all labels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Prompt tokens that the engine processed.
    pub(crate) prompt_tokens: Option<f64>,
    /// Prompt tokens whose KV cache came from another engine.
    pub(crate) external_tokens: Option<f64>,
    /// Bytes that NIXL transferred.
    pub(crate) nixl_bytes: Option<f64>,
    /// Transfers by NIXL.
    pub(crate) nixl_transfers: Option<f64>,
    /// Transfers by NIXL that failed.
    pub(crate) nixl_failures: Option<f64>,
}

// === impl Counters ===

impl Counters {
    /// Reads a page in the Prometheus text format. Ignores lines that it does not understand.
    pub fn read(page: &[u8]) -> Self {
        let mut counters = Self::default();
        for line in page[..page.len().min(MAX_METRICS_BYTES)].split(|byte| *byte == b'\n') {
            let Some((name, series)) = std::str::from_utf8(line).ok().and_then(Series::of_line) else {
                continue;
            };
            let name = name.strip_suffix("_total").unwrap_or(name);
            let counter = match name {
                "vllm:prompt_tokens" | "sglang:prompt_tokens" => &mut counters.prompt_tokens,
                "vllm:external_prefix_cache_hits" => &mut counters.external_tokens,
                "vllm:prompt_tokens_by_source"
                    if series.label("source").as_deref() == Some("external_kv_transfer") =>
                {
                    &mut counters.external_tokens
                }
                "vllm:nixl_bytes_transferred_sum" => &mut counters.nixl_bytes,
                "vllm:nixl_xfer_time_seconds_count" => &mut counters.nixl_transfers,
                "vllm:nixl_num_failed_transfers" => &mut counters.nixl_failures,
                _ => continue,
            };
            *counter = Some(counter.unwrap_or_default() + series.value);
        }
        counters
    }

    /// The growth of each counter since `before`. `None` for a counter that fell: the engine restarted.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let grown = |now: Option<f64>, before: Option<f64>| {
            let grown = now? - before.unwrap_or_default();
            (grown >= 0.0).then_some(grown)
        };
        self.with(before, grown)
    }

    /// The sum of each counter with that of another engine.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.with(other, |one, other| one.map_or(other, |one| Some(one + other.unwrap_or_default())))
    }

    fn with(&self, other: &Self, by: impl Fn(Option<f64>, Option<f64>) -> Option<f64>) -> Self {
        Self {
            prompt_tokens: by(self.prompt_tokens, other.prompt_tokens),
            external_tokens: by(self.external_tokens, other.external_tokens),
            nixl_bytes: by(self.nixl_bytes, other.nixl_bytes),
            nixl_transfers: by(self.nixl_transfers, other.nixl_transfers),
            nixl_failures: by(self.nixl_failures, other.nixl_failures),
        }
    }

    /// Whether the engine counts transfers at all.
    pub(crate) fn counts_transfers(&self) -> bool {
        self.external_tokens.or(self.nixl_bytes).or(self.nixl_transfers).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_over_their_labels_whatever_stands_in_these() {
        let page = br#"# HELP vllm:prompt_tokens_total Tokens
vllm:prompt_tokens_total{engine="stop",model_name="a}b\"} 9"} 2
vllm:prompt_tokens_total{engine="length"} 3.0 1700000000
vllm:external_prefix_cache_hits_total{engine="0"} 48
vllm:prompt_tokens_by_source_total{source="local_compute"} 7
vllm:nixl_bytes_transferred_sum 1024
vllm:nixl_num_failed_transfers_total 0
vllm:prompt_tokens_total{broken 1
vllm:prompt_tokens_total NaN
vllm:prompt_tokens_total
"#;
        let read = Counters::read(page);
        assert_eq!(read.prompt_tokens, Some(5.0));
        assert_eq!(read.external_tokens, Some(48.0));
        assert_eq!((read.nixl_bytes, read.nixl_transfers), (Some(1024.0), None));
        assert_eq!(read.nixl_failures, Some(0.0));
        assert_eq!(Counters::read(b"\xff\n{}\n"), Counters::default());
    }

    #[test]
    fn what_was_reset_says_nothing_and_what_is_new_counts_from_zero() {
        let before = Counters { prompt_tokens: Some(9.0), ..Counters::default() };
        let now = Counters { prompt_tokens: Some(1.0), external_tokens: Some(16.0), ..Counters::default() };
        let grown = now.since(&before);
        assert_eq!((grown.prompt_tokens, grown.external_tokens), (None, Some(16.0)));
    }
}
