//! SGLang's command line and metrics. The simulator behind them is the same.

/// Flags of SGLang, and the simulator's flags of the same meaning.
const FLAGS: [(&str, &str); 6] = [
    ("model-path", "model"),
    ("context-length", "max-model-len"),
    ("max-running-requests", "max-num-seqs"),
    ("max-queued-requests", "max-waiting-queue-length"),
    ("page-size", "block-size"),
    ("random-seed", "seed"),
];

/// The metrics that both engines have, under their names in vLLM and in SGLang.
const METRICS: [(&str, &str); 10] = [
    ("vllm:num_requests_running", "sglang:num_running_reqs"),
    ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
    ("vllm:kv_cache_usage_perc", "sglang:token_usage"),
    ("vllm:cache_config_info", "sglang:cache_config_info"),
    ("vllm:prompt_tokens", "sglang:prompt_tokens"),
    ("vllm:generation_tokens", "sglang:generation_tokens"),
    ("vllm:request_queue_time", "sglang:queue_time"),
    ("vllm:time_to_first_token", "sglang:time_to_first_token"),
    ("vllm:inter_token_latency", "sglang:inter_token_latency"),
    ("vllm:e2e_request_latency", "sglang:e2e_request_latency"),
];

/// Labels in vLLM and in SGLang.
const LABELS: [(&str, &str); 3] = [
    ("engine=\"0\"", "engine_type=\"unified\""),
    ("block_size=", "page_size="),
    ("num_gpu_blocks=", "num_pages="),
];

/// The simulator's name of a flag.
pub(crate) fn flag(name: &str) -> &str {
    FLAGS.iter().find(|(sglang, _)| *sglang == name).map_or(name, |(_, own)| own)
}

/// A page of vLLM's metrics as SGLang's. Metrics that SGLang does not have are left out.
pub(crate) fn page(vllm: &str) -> String {
    let mut page = String::with_capacity(vllm.len());
    for line in vllm.lines() {
        if line == "# EOF" {
            page.push_str("# EOF\n");
            continue;
        }
        // The name of the metric comes first, or after `# HELP` and `# TYPE`.
        let Some(at) = line.find("vllm:") else { continue };
        let (before, rest) = line.split_at(at);
        let found = METRICS.iter().find_map(|(vllm, sglang)| {
            let after = rest.strip_prefix(vllm)?;
            (after.is_empty() || after.starts_with(['{', ' ', '_'])).then_some((sglang, after))
        });
        let Some((name, after)) = found else { continue };
        let after =
            LABELS.iter().fold(after.to_owned(), |text, (vllm, sglang)| text.replacen(vllm, sglang, 1));
        page.extend([before, name, &after, "\n"]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn metrics_have_the_names_and_labels_of_sglang() {
        let vllm = "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n\
                    vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 2\n\
                    vllm:cache_config_info{model_name=\"m\",engine=\"0\",block_size=\"16\",num_gpu_blocks=\"8\"} 1\n\
                    vllm:prompt_tokens_total{model_name=\"m\",engine=\"0\"} 5\n\
                    vllm:nixl_xfer_time{engine=\"0\"} 1\n# EOF\n";
        let sglang = "# HELP sglang:num_running_reqs Requests.\n# TYPE sglang:num_running_reqs gauge\n\
                      sglang:num_running_reqs{model_name=\"m\",engine_type=\"unified\"} 2\n\
                      sglang:cache_config_info{model_name=\"m\",engine_type=\"unified\",page_size=\"16\",num_pages=\"8\"} 1\n\
                      sglang:prompt_tokens_total{model_name=\"m\",engine_type=\"unified\"} 5\n# EOF\n";
        assert_eq!(page(vllm), sglang);
    }
}
