//! The command lines and metrics of engines other than vLLM. The simulator behind them is the same.

use longboat_api::{
    engine::{Engine, LLAMA_CPP, SGLANG, TENSORRT_LLM},
    series::Series,
};

/// What an engine calls the things that the simulator has under vLLM's names.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) engine: &'static Engine,
    /// What its lists of models say as `owned_by`.
    pub(crate) owner: &'static str,
    /// The word between the program and the model.
    subcommand: Option<&'static str>,
    /// Its flags, and the simulator's flags of the same meaning.
    flags: &'static [(&'static str, &'static str)],
    /// The flag without which it has no metrics.
    pub(crate) metrics_flag: Option<&'static str>,
    /// The metrics that both engines have, under their names in vLLM and in this engine.
    metrics: &'static [(&'static str, &'static str)],
    /// The label in place of vLLM's `engine`. `None` if its metrics have no labels.
    label: Option<&'static str>,
    /// The labels of `vllm:cache_config_info` that are metrics of this engine.
    cache: &'static [(&'static str, &'static str)],
    /// Whether it answers requests for any model.
    pub(crate) answers_any_model: bool,
}

/// All dialects.
static DIALECTS: [Dialect; 3] = [
    Dialect {
        engine: &SGLANG,
        owner: "sglang",
        subcommand: None,
        flags: &[
            ("model-path", "model"),
            ("lora-paths", "lora-modules"),
            ("context-length", "max-model-len"),
            ("max-running-requests", "max-num-seqs"),
            ("max-queued-requests", "max-waiting-queue-length"),
            ("page-size", "block-size"),
            ("random-seed", "seed"),
        ],
        metrics_flag: Some("enable-metrics"),
        metrics: &[
            ("vllm:num_requests_running", "sglang:num_running_reqs"),
            ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
            ("vllm:kv_cache_usage_perc", "sglang:token_usage"),
            ("vllm:prompt_tokens", "sglang:prompt_tokens"),
            ("vllm:generation_tokens", "sglang:generation_tokens"),
            ("vllm:request_queue_time", "sglang:queue_time"),
            ("vllm:time_to_first_token", "sglang:time_to_first_token"),
            ("vllm:inter_token_latency", "sglang:inter_token_latency"),
            ("vllm:e2e_request_latency", "sglang:e2e_request_latency"),
        ],
        label: Some("engine_type=\"unified\""),
        cache: &[("block_size", "sglang:page_size"), ("num_gpu_blocks", "sglang:num_pages")],
        answers_any_model: true,
    },
    Dialect {
        engine: &TENSORRT_LLM,
        owner: "tensorrt_llm",
        subcommand: Some("serve"),
        flags: &[("max-seq-len", "max-model-len"), ("max-batch-size", "max-num-seqs")],
        metrics_flag: None,
        metrics: &[
            ("vllm:num_requests_running", "trtllm_num_requests_running"),
            ("vllm:num_requests_waiting", "trtllm_num_requests_waiting"),
            ("vllm:kv_cache_usage_perc", "trtllm_kv_cache_utilization"),
            ("vllm:request_queue_time", "trtllm_request_queue_time"),
            ("vllm:time_to_first_token", "trtllm_time_to_first_token"),
            ("vllm:e2e_request_latency", "trtllm_e2e_request_latency"),
        ],
        label: Some("engine_type=\"undefined\""),
        cache: &[],
        answers_any_model: false,
    },
    Dialect {
        engine: &LLAMA_CPP,
        owner: "llamacpp",
        subcommand: None,
        flags: &[("alias", "served-model-name"), ("ctx-size", "max-model-len"), ("parallel", "max-num-seqs")],
        metrics_flag: Some("metrics"),
        metrics: &[
            ("vllm:num_requests_running", "llamacpp:requests_processing"),
            ("vllm:num_requests_waiting", "llamacpp:requests_deferred"),
            ("vllm:prompt_tokens", "llamacpp:prompt_tokens"),
            ("vllm:generation_tokens", "llamacpp:tokens_predicted"),
        ],
        label: None,
        cache: &[],
        answers_any_model: true,
    },
];

/// The labels of engines that can be simulated, for messages.
pub(crate) const NAMES: &str = "`vllm`, `sglang`, `trtllm-serve` or `llamacpp`";

// === impl Dialect ===

impl Dialect {
    /// The dialect of the engine with this label. `None` for vLLM, and for engines that are not simulated.
    pub(crate) fn of(label: &str) -> Option<&'static Self> {
        DIALECTS.iter().find(|dialect| dialect.engine.label == label)
    }

    /// The simulator's name of a flag.
    pub(crate) fn flag<'a>(&self, name: &'a str) -> &'a str {
        self.flags.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, own)| *own)
    }

    /// The arguments without the subcommand.
    pub(crate) fn arguments(&self, words: Vec<String>) -> Vec<String> {
        let is_subcommand = words.first().map(String::as_str) == self.subcommand && self.subcommand.is_some();
        words.into_iter().skip(usize::from(is_subcommand)).collect()
    }

    /// A page of vLLM's metrics as this engine's. Metrics that it does not have are left out.
    pub(crate) fn page(&self, vllm: &str) -> String {
        let mut page = String::with_capacity(vllm.len());
        for line in vllm.lines() {
            if line == "# EOF" {
                page.push_str("# EOF\n");
                continue;
            }
            // The name of the metric comes first, or after `# HELP` and `# TYPE`.
            let Some(at) = line.find("vllm:") else { continue };
            let (before, rest) = line.split_at(at);
            if let Some(("vllm:cache_config_info", series)) = Series::of_line(rest) {
                for (label, name) in self.cache {
                    if let Some(value) = series.label(label) {
                        page.extend(["# TYPE ", name, " gauge\n", name, " ", &value, "\n"]);
                    }
                }
                continue;
            }
            // Suffixes such as `_total` and `_bucket` are the same for all engines.
            let found = self.metrics.iter().find_map(|(vllm, own)| {
                let after = rest.strip_prefix(vllm)?;
                (after.is_empty() || after.starts_with(['{', ' ', '_'])).then_some((own, after))
            });
            let Some((name, after)) = found else { continue };
            let after = match self.label {
                Some(label) => after.replacen("engine=\"0\"", label, 1),
                None => without_labels(after),
            };
            page.extend([before, name, &after, "\n"]);
        }
        page
    }
}

/// The rest of a line after the name of its metric, without labels.
fn without_labels(after: &str) -> String {
    match (after.find('{'), after.rfind("} ")) {
        (Some(start), Some(end)) if start < end => [&after[..start], &after[end + 1..]].concat(),
        _ => after.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect;

    const PAGE: &str = "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n\
                        vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 2\n\
                        vllm:cache_config_info{model_name=\"m\",engine=\"0\",block_size=\"16\",num_gpu_blocks=\"8\"} 1\n\
                        vllm:prompt_tokens_total{model_name=\"m} 1\",engine=\"0\"} 5\n\
                        vllm:nixl_xfer_time{engine=\"0\"} 1\n# EOF\n";

    #[test]
    fn metrics_have_the_names_and_labels_of_the_engine() {
        let sglang = "# HELP sglang:num_running_reqs Requests.\n# TYPE sglang:num_running_reqs gauge\n\
                      sglang:num_running_reqs{model_name=\"m\",engine_type=\"unified\"} 2\n\
                      # TYPE sglang:page_size gauge\nsglang:page_size 16\n\
                      # TYPE sglang:num_pages gauge\nsglang:num_pages 8\n\
                      sglang:prompt_tokens_total{model_name=\"m} 1\",engine_type=\"unified\"} 5\n# EOF\n";
        let trtllm = "# HELP trtllm_num_requests_running Requests.\n# TYPE trtllm_num_requests_running gauge\n\
                      trtllm_num_requests_running{model_name=\"m\",engine_type=\"undefined\"} 2\n# EOF\n";
        let llama = "# HELP llamacpp:requests_processing Requests.\n# TYPE llamacpp:requests_processing gauge\n\
                     llamacpp:requests_processing 2\nllamacpp:prompt_tokens_total 5\n# EOF\n";
        for (label, expected) in [("sglang", sglang), ("trtllm-serve", trtllm), ("llamacpp", llama)] {
            assert_eq!(Dialect::of(label).unwrap().page(PAGE), expected, "{label}");
        }
        assert!(Dialect::of("vllm").is_none());
    }
}
