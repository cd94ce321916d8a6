//! Flags that former versions of vLLM had.

/// The flags, and what replaces them.
pub(super) const FORMER: [(&str, &str); 22] = [
    ("--cuda-graph-sizes", "write --cudagraph-capture-sizes"),
    ("--device", "remove it: vLLM uses the devices for which the image is built"),
    ("--disable-frontend-multiprocessing", "remove it: nothing replaces it"),
    (
        "--disable-log-requests",
        "remove it: vLLM does not log requests, unless --enable-log-requests is given",
    ),
    ("--disable-mm-preprocessor-cache", "write --mm-processor-cache-gb 0"),
    ("--enable-lora-bias", "remove it: nothing replaces it"),
    ("--enable-prompt-adapter", "remove it: nothing replaces it"),
    ("--enable-reasoning", "remove it: --reasoning-parser alone turns reasoning on"),
    (
        "--guided-decoding-backend",
        "write --structured-outputs-config, with the backend: {\"backend\": \"xgrammar\"}",
    ),
    ("--lora-extra-vocab-size", "remove it: nothing replaces it"),
    ("--max-seq-len-to-capture", "remove it: --max-cudagraph-capture-size limits batches, not lengths"),
    ("--num-scheduler-steps", "remove it: nothing replaces it"),
    ("--num-speculative-tokens", "write --speculative-config, with num_speculative_tokens"),
    ("--override-pooler-config", "write --pooler-config"),
    ("--preemption-mode", "remove it: nothing replaces it"),
    ("--rope-scaling", "write --hf-overrides, with the field of the model's configuration"),
    ("--rope-theta", "write --hf-overrides, with the field of the model's configuration"),
    ("--speculative-model", "write --speculative-config, with model and num_speculative_tokens"),
    ("--swap-space", "remove it: vLLM no longer swaps its KV cache"),
    ("--task", "write --runner, and --convert for the kind of pooling"),
    ("--use-v2-block-manager", "remove it: there is only this one"),
    ("--worker-use-ray", "write --distributed-executor-backend ray"),
];

/// Returns what replaces a flag.
pub(super) fn replacement(flag: &str) -> Option<&'static str> {
    let flag = flag.split(['=', '.']).next()?.replace('_', "-");
    FORMER.iter().find(|(former, _)| *former == flag).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use longboat_api::vllm;

    use super::FORMER;

    #[test]
    fn former_flags_are_gone_and_what_replaces_them_is_there() {
        for (former, instead) in FORMER {
            let known = vllm::flags::find(former).map(|(name, _)| name);
            assert_ne!(known, Some(former));
            for flag in instead.split([' ', ',', ':']).filter(|word| word.starts_with("--")) {
                assert_eq!(vllm::flags::find(flag).map(|(name, _)| name), Some(flag), "{former}");
            }
        }
    }
}
