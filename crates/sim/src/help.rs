//! The help text of the simulator's command line.

/// The flags that have an effect. Every other flag is accepted and reported as ignored.
pub const HELP: &str = "\
--host ADDRESS                      address to listen on [127.0.0.1]
--port PORT                         port to listen on; 0 for any free one [8000]
--model MODEL                       the model, if it is not the first argument
--served-model-name NAME...         names under which it is served [the model]
--lora-modules NAME=PATH...         adapters, of which the names are served
--mode random|echo                  filler sentences, or the prompt repeated [random]
--seed N                            makes answers repeatable
--max-model-len N                   tokens of a prompt and its answer [1024; vllm serve: 32768]
--max-num-seqs N                    requests at once [5; vllm serve: 256]
--max-waiting-queue-length N        requests that wait [1000]
--block-size N                      tokens of a block of the prefix cache [16]
--kv-cache-size N                   blocks of the prefix cache [1024; vllm serve: 8192]
--num-gpu-blocks-override N         the same
--time-to-first-token DURATION      fixed part of it [0; vllm serve: 15ms]
--prefill-overhead DURATION         the same
--prefill-time-per-token DURATION   for each token of a prompt that is not cached [0; vllm serve: 60us]
--inter-token-latency DURATION      between two tokens of an answer [0; vllm serve: 6ms]
--kv-cache-transfer-latency DURATION       until a cache has come from another engine [0]
--kv-cache-transfer-time-per-token DURATION  for each of its tokens [0]
--kv-transfer-loss-rate PERCENT     of the requests that get nothing of other engines' caches, or of a shared storage; answers do not
                                    say so [0]
--kv-transfer-config JSON           as vLLM; shared_storage_path is a folder in which engines find each other's blocks
--modalities KIND...                what the model takes besides text: image, audio, video [none: it is not multimodal]
--limit-mm-per-prompt JSON          items of a kind that a prompt may have, as vLLM [999]
--tokens-per-item N                 tokens that an item takes up in a prompt [64]
--encode-time-per-item DURATION     until an item is encoded [0; vllm serve: 20ms]
--ec-transfer-config JSON           as vLLM: an ec_producer encodes for others, an ec_consumer takes what it has encoded;
                                    shared_storage_path is a folder in which they find it
--ec-transfer-loss-rate PERCENT     of the items that others have encoded which do not come; answers do not say so [0]
--runner auto|generate|pooling      what the model is for; pooling makes vectors of texts, at /v1/embeddings [auto: answers]
--convert auto|none|embed           embed: the same
--task auto|generate|embed          embed: the same
--default-embedding-dimensions N    numbers of a vector [384]
--global-cache-hit-threshold PART   of a prompt, 0 to 1, that has to be cached where the request does not say [none]
--disaggregation-mode prefill|decode|null  as SGLang: the part of this engine where it meets another [null]
--failure-injection-rate PERCENT    of the requests that are refused [0]
--failure-types TYPE...             rate_limit, invalid_api_key, context_length, server_error, invalid_request, model_not_found [all]
--time-factor-under-load FACTOR     how many times longer it takes at --max-num-seqs, 1.0 to 1000 [1.0]
--shutdown-timeout SECONDS          for requests that have begun [5]
--kv-events-config JSON             publishes what the prefix cache does, as vLLM; `*` in an address is --host
--ssl-certfile FILE                 certificate, to serve HTTPS
--ssl-keyfile FILE                  its key
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
        let arms = include_str!("args.rs").lines().filter_map(|line| line.trim_start().split_once("\" => "));
        let names = arms.flat_map(|(names, _)| names.split(" | "));
        let known: BTreeSet<&str> = names
            .map(|name| name.trim_matches('"'))
            .filter(|name| !["random", "echo"].contains(name))
            .collect();
        assert_eq!(explained, known);
    }
}
