//! The help text of the simulator's command line.

/// The flags that have an effect. Every other flag is accepted and reported as ignored.
pub const HELP: &str = "\
--simulated-engine vllm|sglang|trtllm-serve|llamacpp  engine whose metrics the simulator has; the other flags are those of its server,
                                    such as SGLang's --model-path and --context-length [vllm]
--host ADDRESS                      address to listen on [127.0.0.1]
--port PORT                         port to listen on; 0 for any free one [8000]
--model MODEL                       model, if it is not the first argument
--served-model-name NAME...         names of the served model [the model]
--lora-modules NAME=PATH...         LoRA adapters; only their names are used
--mode random|echo                  answer with filler sentences, or repeat the prompt [random]
--seed N                            seed, which makes answers repeatable
--max-model-len N                   maximum number of tokens of a prompt and its answer [1024; vllm serve: 32768]
--max-num-seqs N                    maximum number of running requests [5; vllm serve: 256]
--max-num-batched-tokens N          maximum number of tokens of a forward pass; prompts are then computed in chunks, one after the other,
                                    between the tokens of answers [prompts side by side]
--max-waiting-queue-length N        maximum number of waiting requests [1000]
--block-size N                      number of tokens in a block of the prefix cache [16]
--kv-cache-size N                   number of blocks in the prefix cache [1024; vllm serve: 8192]
--num-gpu-blocks-override N         same as --kv-cache-size
--time-to-first-token DURATION      fixed part of the time to first token [0; vllm serve: 15ms]
--prefill-overhead DURATION         same as --time-to-first-token
--prefill-time-per-token DURATION   time for each prompt token that is not cached [0; vllm serve: 60us]
--inter-token-latency DURATION      time between two tokens of an answer [0; vllm serve: 6ms]
--kv-cache-transfer-latency DURATION       fixed part of the time to transfer a KV cache from another engine [0]
--kv-cache-transfer-time-per-token DURATION  time to transfer each token [0]
--kv-transfer-loss-rate PERCENT     percentage of requests that lose the KV caches of other engines and of a shared storage; answers do not
                                    show this [0]
--kv-transfer-config JSON           as in vLLM; shared_storage_path is a folder in which engines share blocks
--modalities KIND...                inputs of the model besides text: image, audio, video [none]
--limit-mm-per-prompt JSON          maximum number of items of a kind in a prompt, as in vLLM [999]
--tokens-per-item N                 number of prompt tokens for an item [64]
--encode-time-per-item DURATION     time to encode an item [0; vllm serve: 20ms]
--ec-transfer-config JSON           as in vLLM: an ec_producer encodes items, an ec_consumer uses the embeddings;
                                    shared_storage_path is the folder of the embeddings
--ec-transfer-loss-rate PERCENT     percentage of embeddings from other engines that are lost; answers do not show this [0]
--runner auto|generate|pooling      purpose of the model; with pooling, it serves embeddings at /v1/embeddings [auto: answers]
--convert auto|none|embed           embed: same as --runner pooling
--task auto|generate|embed          embed: same as --runner pooling
--default-embedding-dimensions N    number of dimensions of an embedding [384]
--global-cache-hit-threshold PART   part of a prompt, 0 to 1, that must be cached if the request does not set it [none]
--disaggregation-mode prefill|decode|null  as in SGLang: the part of this engine in requests that two engines divide [null]
--failure-injection-rate PERCENT    percentage of requests that are refused [0]
--failure-types TYPE...             errors of refused requests: rate_limit, invalid_api_key, context_length, server_error, invalid_request,
                                    model_not_found [all]
--time-factor-under-load FACTOR     slowdown at --max-num-seqs running requests, 1.0 to 1000 [1.0]
--shutdown-timeout SECONDS          time limit for running requests at shutdown [5]
--kv-events-config JSON             publish events of the prefix cache, as in vLLM; `*` in an address means --host
--enable-kvcache                    with --zmq-endpoint: publish events of the prefix cache, as llm-d's simulator does
--zmq-endpoint ADDRESS              where these events go: `tcp://HOST:PORT`
--api-key KEY...                    keys of which requests to /v1 need one, as in vLLM [the variable VLLM_API_KEY]
--ssl-certfile FILE                 certificate for HTTPS
--ssl-keyfile FILE                  key of the certificate
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::HELP;

    #[test]
    fn every_flag_that_is_known_is_explained_and_no_other() {
        let explained: BTreeSet<&str> =
            HELP.lines().filter_map(|line| line.strip_prefix("--")?.split(' ').next()).collect();
        // The parser's match arms: lines such as `"host" => …` or `"a" | "b" => …`.
        let parsers = [include_str!("args.rs"), include_str!("../../serving/src/server_args.rs")];
        let lines = parsers.iter().flat_map(|text| text.lines());
        let arms = lines.filter_map(|line| line.trim_start().split_once("\" => "));
        let names = arms.flat_map(|(names, _)| names.split(" | "));
        let known: BTreeSet<&str> = names
            .map(|name| name.trim_matches('"'))
            .filter(|name| !["random", "echo", "vllm"].contains(name))
            .collect();
        assert_eq!(explained, known);
    }
}
