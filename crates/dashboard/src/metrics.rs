//! Parses the metrics of a model server that the page shows. Pure functions.

use std::collections::HashMap;

use longboat_api::series::Series;
use serde::Serialize;

/// The most bounds of a histogram that are read. vLLM has 22.
const MAX_BUCKETS: usize = 64;

/// The metrics of a model server. Counters grow until its process ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    /// Counter of prompt tokens.
    pub(crate) prompt_tokens: f64,
    /// Counter of generated tokens.
    pub(crate) tokens: f64,
    /// Counter of requests that ended, and the part of them that ended with an error.
    pub(crate) requests: f64,
    pub(crate) errors: f64,
    /// Counters: the total time to first tokens in seconds, and the number of first tokens.
    pub(crate) first_token_seconds: f64,
    pub(crate) first_tokens: f64,
    /// Counters of first tokens by their time.
    pub(crate) first_token_buckets: Vec<Bucket>,
}

/// The number of observations between two bounds of a histogram, which is not 0. Without an upper bound, everything above
/// the lower one. JSON: `[lower, upper, count]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Bucket(pub(crate) f64, pub(crate) Option<f64>, pub(crate) f64);

/// The metrics of a picker.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PickerSample {
    /// Counter of requests, and the part of them that failed: refused, or answered with an error.
    pub(crate) requests: f64,
    pub(crate) errors: f64,
    /// Requests in flight.
    pub(crate) running: f64,
    /// Requests that wait in the picker for a free replica.
    pub(crate) waiting: f64,
    /// Counters: the time of all picks in seconds, and their number.
    pub(crate) pick_seconds: f64,
    pub(crate) picks: f64,
}

/// Parses the metrics page of a model server. One process may serve several engines, so series that differ only in labels are
/// added. For shares, the largest counts.
pub(crate) fn read(page: &str) -> Sample {
    let mut sample = Sample::default();
    let mut cumulative = Vec::new();
    for line in page.lines() {
        let Some((name, series)) = Series::of_line(line) else { continue };
        let value = series.value;
        // Earlier releases of vLLM have some names with `gpu_`. Of other engines, these are the metrics that mean the same.
        let place = match name {
            "vllm:num_requests_waiting"
            | "sglang:num_queue_reqs"
            | "trtllm_num_requests_waiting"
            | "llamacpp:requests_deferred" => &mut sample.waiting,
            "vllm:num_requests_running"
            | "sglang:num_running_reqs"
            | "trtllm_num_requests_running"
            | "llamacpp:requests_processing" => &mut sample.running,
            "vllm:kv_cache_usage_perc"
            | "vllm:gpu_cache_usage_perc"
            | "sglang:token_usage"
            | "trtllm_kv_cache_utilization" => {
                sample.kv_usage = sample.kv_usage.max(value);
                continue;
            }
            "vllm:prefix_cache_queries_total" | "vllm:gpu_prefix_cache_queries_total" => &mut sample.queries,
            "vllm:prefix_cache_hits_total" | "vllm:gpu_prefix_cache_hits_total" => &mut sample.hits,
            "vllm:prompt_tokens_total" | "sglang:prompt_tokens_total" | "llamacpp:prompt_tokens_total" => {
                &mut sample.prompt_tokens
            }
            "vllm:generation_tokens_total"
            | "sglang:generation_tokens_total"
            | "llamacpp:tokens_predicted_total" => &mut sample.tokens,
            "vllm:request_success_total" => {
                if series.label("finished_reason").as_deref() == Some("error") {
                    sample.errors += value;
                }
                &mut sample.requests
            }
            "sglang:e2e_request_latency_seconds_count" | "trtllm_e2e_request_latency_seconds_count" => {
                &mut sample.requests
            }
            "vllm:time_to_first_token_seconds_sum"
            | "sglang:time_to_first_token_seconds_sum"
            | "trtllm_time_to_first_token_seconds_sum" => &mut sample.first_token_seconds,
            "vllm:time_to_first_token_seconds_count"
            | "sglang:time_to_first_token_seconds_count"
            | "trtllm_time_to_first_token_seconds_count" => &mut sample.first_tokens,
            "vllm:time_to_first_token_seconds_bucket"
            | "sglang:time_to_first_token_seconds_bucket"
            | "trtllm_time_to_first_token_seconds_bucket" => {
                add(&mut cumulative, series.label("le").as_deref(), value);
                continue;
            }
            _ => continue,
        };
        *place += value;
    }
    sample.first_token_buckets = buckets(cumulative);
    sample
}

/// Parses the metrics page of a picker. A picker may serve a series under a present and an earlier name; both have the same
/// values.
pub(crate) fn read_picker(page: &str) -> PickerSample {
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for (name, series) in page.lines().filter_map(Series::of_line) {
        *sums.entry(name).or_default() += series.value;
    }
    let of = |present, earlier| {
        let sum = |name| sums.get(name).copied().unwrap_or_default();
        sum(present).max(sum(earlier))
    };
    PickerSample {
        requests: of("llm_d_epp_request_total", "inference_objective_request_total"),
        errors: of("llm_d_epp_request_error_total", "inference_objective_request_error_total"),
        running: of("llm_d_epp_request_running", "inference_objective_running_requests"),
        waiting: of("llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size"),
        pick_seconds: of(
            "llm_d_epp_scheduler_e2e_duration_seconds_sum",
            "inference_extension_scheduler_e2e_duration_seconds_sum",
        ),
        picks: of(
            "llm_d_epp_scheduler_e2e_duration_seconds_count",
            "inference_extension_scheduler_e2e_duration_seconds_count",
        ),
    }
}

/// Adds the value of a histogram's series to those of other series with the same bound.
fn add(cumulative: &mut Vec<(f64, f64)>, bound: Option<&str>, value: f64) {
    let Some(bound) = bound.and_then(|bound| bound.parse::<f64>().ok()).filter(|bound| !bound.is_nan())
    else {
        return;
    };
    match cumulative.iter().position(|(known, _)| known.total_cmp(&bound).is_eq()) {
        Some(index) => cumulative[index].1 += value,
        None if cumulative.len() < MAX_BUCKETS => cumulative.push((bound, value)),
        None => {}
    }
}

/// Returns the buckets of a histogram that are not empty. Its series count everything below their bounds.
fn buckets(mut cumulative: Vec<(f64, f64)>) -> Vec<Bucket> {
    cumulative.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut lower, mut below) = (0.0, 0.0);
    let mut found = Vec::new();
    for (upper, count) in cumulative {
        if count > below {
            found.push(Bucket(lower, upper.is_finite().then_some(upper), count - below));
            below = count;
        }
        lower = upper;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_page_is_read(page in "(vllm:(num_requests_running|kv_cache_usage_perc|time_to_first_token_seconds_bucket|x)[{} =,\"a-z0-9.NaInf+é-]*\n?)*") {
            let sample = read(&page);
            proptest::prop_assert!(sample.running.is_finite() && sample.kv_usage.is_finite());
            proptest::prop_assert!(sample.first_token_buckets.iter().all(|bucket| bucket.2 > 0.0));
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
vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} 1
vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"0.1\"} 0
vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"0.5\"} 1
vllm:time_to_first_token_seconds_bucket{le=\"1\"} 2
vllm:time_to_first_token_seconds_bucket{model=\"a,le=\\\"9\\\"\",le=\"+Inf\"} 3
vllm:prompt_tokens_total 70
vllm:request_success_total{finished_reason=\"stop\"} 4
vllm:request_success_total{finished_reason=\"error\"} 1
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
            prompt_tokens: 70.0,
            requests: 5.0,
            errors: 1.0,
            first_token_seconds: 1.5,
            first_tokens: 3.0,
            first_token_buckets: vec![Bucket(0.1, Some(0.5), 2.0), Bucket(1.0, None, 1.0)],
        };
        assert_eq!(read(page), expected);
    }

    #[test]
    fn engines_other_than_vllm_are_read_under_their_names() {
        let page = "\
sglang:num_queue_reqs{engine_type=\"unified\"} 3
sglang:num_running_reqs{engine_type=\"unified\"} 2
sglang:token_usage 0.5
sglang:generation_tokens_total 12
sglang:e2e_request_latency_seconds_count 4
sglang:time_to_first_token_seconds_bucket{le=\"+Inf\"} 3
";
        let sglang = Sample {
            waiting: 3.0,
            running: 2.0,
            kv_usage: 0.5,
            tokens: 12.0,
            requests: 4.0,
            first_token_buckets: vec![Bucket(0.0, None, 3.0)],
            ..Sample::default()
        };
        assert_eq!(read(page), sglang);
        let page = "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:tokens_predicted_total 5\n";
        let llama = Sample { waiting: 1.0, running: 2.0, tokens: 5.0, ..Sample::default() };
        assert_eq!(read(page), llama);
    }

    #[test]
    fn a_picker_is_read_under_its_present_and_its_earlier_names() {
        let expected = PickerSample {
            requests: 5.0,
            errors: 1.0,
            running: 2.0,
            waiting: 3.0,
            pick_seconds: 0.5,
            picks: 4.0,
        };
        let earlier = "\
inference_objective_request_total{model_name=\"a\"} 3
inference_objective_request_total{model_name=\"b\"} 2
inference_objective_request_error_total{error_code=\"x\"} 1
inference_objective_running_requests 2
inference_extension_flow_control_queue_size 3
inference_extension_scheduler_e2e_duration_seconds_sum 0.5
inference_extension_scheduler_e2e_duration_seconds_count 4
";
        let present = "\
llm_d_epp_request_total{model_name=\"a\"} 5
llm_d_epp_request_error_total 1
llm_d_epp_request_running 2
llm_d_epp_flow_control_queue_size 3
llm_d_epp_scheduler_e2e_duration_seconds_sum 0.5
llm_d_epp_scheduler_e2e_duration_seconds_count 4
";
        for page in [earlier, present, &format!("{present}{earlier}")] {
            assert_eq!(read_picker(page), expected, "{page}");
        }
    }
}
