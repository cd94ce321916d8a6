//! The fields of chat and completion requests. Like vLLM, the server ignores fields that are not listed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    body::object_only,
    layout::ReasoningEffort,
    messages::MessageField,
    transfer::{Embeddings, Handover, Part, Transfer},
};

/// `POST /v1/chat/completions` and `POST /v1/completions`.
#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
pub(crate) struct Fields {
    pub(crate) model: Option<String>,
    pub(crate) messages: Option<Vec<MessageField>>,
    pub(crate) prompt: Option<PromptField>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    pub(crate) n: Option<i64>,
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_completion_tokens: Option<i64>,
    pub(crate) echo: Option<bool>,
    pub(crate) logprobs: Option<LogprobsField>,
    pub(crate) top_logprobs: Option<i64>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<i64>,
    pub(crate) min_p: Option<f64>,
    pub(crate) presence_penalty: Option<f64>,
    pub(crate) frequency_penalty: Option<f64>,
    pub(crate) repetition_penalty: Option<f64>,
    pub(crate) seed: Option<i64>,
    pub(crate) stop: Option<OneOrMany>,
    pub(crate) include_stop_str_in_output: Option<bool>,
    pub(crate) min_tokens: Option<i64>,
    pub(crate) ignore_eos: Option<bool>,
    pub(crate) stop_token_ids: Option<Vec<u32>>,
    pub(crate) tools: Option<Vec<Value>>,
    pub(crate) tool_choice: Option<Value>,
    pub(crate) parallel_tool_calls: Option<bool>,
    pub(crate) add_generation_prompt: Option<bool>,
    pub(crate) continue_final_message: Option<bool>,
    pub(crate) chat_template_kwargs: Option<Map<String, Value>>,
    pub(crate) reasoning_effort: Option<ReasoningEffort>,
    pub(crate) request_id: Option<String>,
    pub(crate) skip_special_tokens: Option<bool>,
    pub(crate) logit_bias: Option<BTreeMap<String, f64>>,
    pub(crate) bad_words: Option<Vec<String>>,
    pub(crate) allowed_token_ids: Option<Vec<u32>>,
    pub(crate) response_format: Option<Value>,
    pub(crate) structured_outputs: Option<Value>,
    pub(crate) guided_json: Option<Value>,
    pub(crate) guided_regex: Option<Value>,
    pub(crate) guided_choice: Option<Value>,
    pub(crate) guided_grammar: Option<Value>,
    pub(crate) kv_transfer_params: Option<Transfer>,
    /// SGLang: the adapter.
    pub(crate) lora_path: Option<String>,
    pub(crate) ec_transfer_params: Option<Embeddings>,
    pub(crate) cache_hit_threshold: Option<f64>,
    pub(crate) bootstrap_host: Option<String>,
    // The following fields would change answers, but a `Job` does not have them. A request is refused unless they
    // have a neutral value.
    pub(crate) best_of: Option<i64>,
    pub(crate) use_beam_search: Option<bool>,
    pub(crate) suffix: Option<String>,
    pub(crate) prompt_logprobs: Option<i64>,
    pub(crate) truncate_prompt_tokens: Option<i64>,
    pub(crate) prompt_embeds: Option<Value>,
    pub(crate) add_special_tokens: Option<bool>,
    pub(crate) documents: Option<Vec<Value>>,
    pub(crate) chat_template: Option<Value>,
    pub(crate) mm_processor_kwargs: Option<Value>,
    pub(crate) priority: Option<i64>,
    pub(crate) cache_salt: Option<Value>,
    pub(crate) return_token_ids: Option<bool>,
    pub(crate) return_prompt_text: Option<bool>,
    pub(crate) logprob_token_ids: Option<Value>,
    pub(crate) watermarking: Option<bool>,
    pub(crate) return_tokens_as_token_ids: Option<bool>,
    pub(crate) thinking_token_budget: Option<Value>,
    pub(crate) repetition_detection: Option<Value>,
    pub(crate) logits_processors: Option<Vec<Value>>,
    pub(crate) vllm_xargs: Option<Map<String, Value>>,
    pub(crate) modalities: Option<Vec<String>>,
    pub(crate) functions: Option<Vec<Value>>,
}

/// The possible forms of a prompt.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a string, a list of strings, a list of token ids, or a list of such lists"
)]
pub(crate) enum PromptField {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// A flag in chat requests, a number in completion requests.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected a number in completions, true or false in chats")]
pub(crate) enum LogprobsField {
    Flag(bool),
    Number(i64),
}

#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
pub(crate) struct StreamOptions {
    pub(crate) include_usage: Option<bool>,
    pub(crate) continuous_usage_stats: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// `POST /tokenize`.
#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
pub(crate) struct Tokenize {
    pub(crate) prompt: Option<String>,
    pub(crate) messages: Option<Vec<MessageField>>,
    pub(crate) tools: Option<Vec<Value>>,
    pub(crate) add_generation_prompt: Option<bool>,
    pub(crate) continue_final_message: Option<bool>,
    pub(crate) chat_template_kwargs: Option<Map<String, Value>>,
    // The following fields would change tokens or answers. Any value but the neutral one is refused.
    pub(crate) add_special_tokens: Option<bool>,
    pub(crate) return_token_strs: Option<bool>,
    pub(crate) chat_template: Option<Value>,
    pub(crate) mm_processor_kwargs: Option<Value>,
}

object_only!(Fields, StreamOptions, Tokenize);

impl Fields {
    /// The part of the request that this engine computes.
    pub(crate) fn part(&self) -> Part {
        self.kv_transfer_params.as_ref().map_or(Part::Whole, Transfer::part)
    }

    /// Returns where the engines of a split request meet.
    pub(crate) fn handover(&self) -> Handover {
        let transfer = self.kv_transfer_params.as_ref();
        Handover {
            cache_host: transfer.and_then(Transfer::cache_host),
            remote: transfer.and_then(Transfer::remote),
            pull_host: transfer.and_then(Transfer::pull_host),
            bootstrap_host: self.bootstrap_host.clone(),
            embeddings: self.ec_transfer_params.as_ref().map(Embeddings::hosts).unwrap_or_default(),
            cache_hit_threshold: self.cache_hit_threshold,
        }
    }
}
