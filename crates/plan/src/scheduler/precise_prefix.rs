//! Rewrites the configuration of the precise prefix cache scorer for older and newer pickers.

use serde_json::{Map, Value, json};

use super::{
    config::PRECISE_SCORER,
    tokenizer,
    transform::{is_type, plugins, rename_references},
};

const PRODUCER: &str = "precise-prefix-cache-producer";
const SCORER: &str = "prefix-cache-scorer";
const TOKEN_PRODUCER: &str = "token-producer";
/// The socket of the tokenizer beside an older picker.
const SOCKET: &str = "/tmp/tokenizer/tokenizer-uds.socket";

/// Configures a picker that has the tokenizer in its own pod: the tokenizer's socket, and sizes under the names that this
/// picker reads.
pub(super) fn use_socket(config: &mut Map<String, Value>) {
    for plugin in plugins(config) {
        if is_type(plugin, PRECISE_SCORER) {
            let parameters = object(plugin, "parameters");
            let indexer = object(parameters, "indexerConfig");
            let pool = object(indexer, "tokenizersPoolConfig");
            pool.insert("modelName".into(), "base".into());
            object(pool, "uds").insert("socketFile".into(), SOCKET.into());
            if let Some(processor) = indexer.get("tokenProcessorConfig").cloned() {
                parameters.entry("tokenProcessorConfig").or_insert(processor);
            }
        } else if is_type(plugin, SCORER)
            && let Some(parameters) = plugin.get_mut("parameters").and_then(Value::as_object_mut)
            && let Some(size) = parameters.get("blockSize").cloned()
        {
            parameters.entry("blockSizeTokens").or_insert(size);
        }
    }
}

/// Splits the scorer into three plugins: one produces tokens, one finds prefixes, and one scores.
pub(super) fn decompose(config: &mut Map<String, Value>) {
    let Some(list) = config.get_mut("plugins").and_then(Value::as_array_mut) else { return };
    let is = |plugin: &Value, name: &str| plugin.get("type").and_then(Value::as_str) == Some(name);
    let Some(at) = list.iter().position(|plugin| is(plugin, PRECISE_SCORER)) else { return };
    let removed = list.remove(at);
    list.retain(|plugin| !is(plugin, SCORER));
    let parts = [
        json!({"type": TOKEN_PRODUCER}),
        producer(removed.get("parameters")),
        json!({"type": SCORER, "parameters": {"prefixMatchInfoProducerName": PRODUCER}}),
    ];
    let at = at.min(list.len());
    list.splice(at..at, parts);
    rename_references(config, PRECISE_SCORER, SCORER);
    let profiles = config.get_mut("schedulingProfiles").and_then(Value::as_array_mut).into_iter().flatten();
    for references in profiles.filter_map(|profile| profile.get_mut("plugins")?.as_array_mut()) {
        let mut seen = false;
        references.retain(|reference| {
            let scorer = reference.get("pluginRef").and_then(Value::as_str) == Some(SCORER);
            let again = scorer && seen;
            seen |= scorer;
            !again
        });
    }
}

fn producer(old: Option<&Value>) -> Value {
    let mut parameters = old.and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(Value::Object(mut indexer)) = parameters.remove("indexerConfig") {
        indexer.remove("tokenizersPoolConfig");
        if let Some(processor) = indexer.remove("tokenProcessorConfig") {
            parameters.entry("tokenProcessorConfig").or_insert(processor);
        }
        if !indexer.is_empty() {
            parameters.insert("indexerConfig".into(), Value::Object(indexer));
        }
    }
    if parameters.is_empty() {
        json!({"type": PRODUCER})
    } else {
        json!({"type": PRODUCER, "parameters": parameters})
    }
}

/// Sets the URL of the tokenizer in the token producer, unless it is set.
pub(super) fn point_to_tokenizer(config: &mut Map<String, Value>, url: &str) {
    for plugin in plugins(config).filter(|plugin| is_type(plugin, TOKEN_PRODUCER)) {
        let parameters = object(plugin, "parameters");
        parameters.entry("modelName").or_insert_with(|| tokenizer::MODEL.into());
        object(parameters, "vllm").entry("url").or_insert_with(|| url.into());
    }
}

/// Returns the object under a key. Creates it if it is missing.
fn object<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was just made one")
}
