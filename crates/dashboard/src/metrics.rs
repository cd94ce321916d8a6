//! Parses the metrics of a model server that the page shows. Pure functions.

use serde::Serialize;

/// The metrics of a replica. Counters grow until its process ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sample {
    pub(crate) waiting: f64,
    pub(crate) running: f64,
    /// Share of the KV cache in use, 0 to 1.
    pub(crate) kv_usage: f64,
    /// Counter of prompt tokens that were looked up in the prefix cache.
    pub(crate) queries: f64,
    /// Counter of looked-up tokens that were in the prefix cache.
    pub(crate) hits: f64,
    /// Counter of generated tokens.
    pub(crate) tokens: f64,
    /// Counters: the total time to first tokens in seconds, and the number of first tokens.
    pub(crate) first_token_seconds: f64,
    pub(crate) first_tokens: f64,
}

/// Parses a metrics page. One process may serve several engines, so series that differ only in labels are added. For shares,
/// the largest counts.
pub(crate) fn read(page: &str) -> Sample {
    let mut sample = Sample::default();
    for line in page.lines() {
        let Some((name, value)) = series(line) else { continue };
        let Some(name) = name.strip_prefix("vllm:") else { continue };
        let place = match name {
            "num_requests_waiting" => &mut sample.waiting,
            "num_requests_running" => &mut sample.running,
            "kv_cache_usage_perc" | "gpu_cache_usage_perc" => {
                sample.kv_usage = sample.kv_usage.max(value);
                continue;
            }
            "prefix_cache_queries_total" | "gpu_prefix_cache_queries_total" => &mut sample.queries,
            "prefix_cache_hits_total" | "gpu_prefix_cache_hits_total" => &mut sample.hits,
            "generation_tokens_total" => &mut sample.tokens,
            "time_to_first_token_seconds_sum" => &mut sample.first_token_seconds,
            "time_to_first_token_seconds_count" => &mut sample.first_tokens,
            _ => continue,
        };
        *place += value;
    }
    sample
}

/// Returns the name and the value of a series. Label values may contain spaces and braces, so the value follows the last
/// brace.
fn series(line: &str) -> Option<(&str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let rest = line.rfind('}').map_or(&line[end..], |brace| line.get(brace + 1..).unwrap_or_default());
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some((&line[..end], value))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_page_is_read(page in "(vllm:(num_requests_running|kv_cache_usage_perc|x)[{} =\"a-z0-9.NaInf+é-]*\n?)*") {
            let sample = read(&page);
            proptest::prop_assert!(sample.running.is_finite() && sample.kv_usage.is_finite());
        }
    }

    #[test]
    fn numbers_are_found_whatever_their_labels_hold() {
        let page = "\
# HELP vllm:num_requests_running Requests.
vllm:num_requests_running{engine=\"0\",model_name=\"a } b {\"} 2.0
vllm:num_requests_running{engine=\"1\"} 1 1700000000
vllm:num_requests_waiting 3
vllm:kv_cache_usage_perc{engine=\"0\"} 0.25
vllm:kv_cache_usage_perc{engine=\"1\"} 0.5
vllm:prefix_cache_queries_total{} 100
vllm:prefix_cache_hits_total{} 40
vllm:generation_tokens_total NaN
vllm:generation_tokens_total{x=\"y\"} 12
vllm:time_to_first_token_seconds_sum{} 1.5
vllm:time_to_first_token_seconds_count{} 3
vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 3
other:num_requests_running 9
broken{
}
";
        let expected = Sample {
            waiting: 3.0,
            running: 3.0,
            kv_usage: 0.5,
            queries: 100.0,
            hits: 40.0,
            tokens: 12.0,
            first_token_seconds: 1.5,
            first_tokens: 3.0,
        };
        assert_eq!(read(page), expected);
    }
}
