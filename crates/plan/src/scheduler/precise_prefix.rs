//! Rewrites the configuration of the precise prefix cache scorer for older and newer pickers.

use longboat_api::picker_plugins::{PRECISE_PRODUCER, PRECISE_SCORER, PREFIX_SCORER, TOKEN_PRODUCER};
use serde_json::{Map, Value, json};

use super::{
    plugin_list::{is_type, name_of, plugins_mut, rename_references},
    tokenizer,
};

/// The socket of the tokenizer beside an older picker.
const SOCKET: &str = "/tmp/tokenizer/tokenizer-uds.socket";

/// Configures a picker that has the tokenizer in its own pod: the tokenizer's socket, and sizes under the names that this
/// picker reads.
pub(super) fn use_socket(config: &mut Map<String, Value>) {
    for plugin in plugins_mut(config) {
        if is_type(plugin, PRECISE_SCORER) {
            let parameters = object(plugin, "parameters");
            let indexer = object(parameters, "indexerConfig");
            let pool = object(indexer, "tokenizersPoolConfig");
            pool.insert("modelName".into(), "base".into());
            object(pool, "uds").insert("socketFile".into(), SOCKET.into());
            if let Some(processor) = indexer.get("tokenProcessorConfig").cloned() {
                parameters.entry("tokenProcessorConfig").or_insert(processor);
            }
        } else if is_type(plugin, PREFIX_SCORER)
            && let Some(parameters) = plugin.get_mut("parameters").and_then(Value::as_object_mut)
            && let Some(size) = parameters.get("blockSize").cloned()
        {
            parameters.entry("blockSizeTokens").or_insert(size);
        }
    }
}

/// Splits each precise scorer into three plugins: one produces tokens, one finds prefixes, and one scores.
///
/// A picker does not start with two plugins of one name, or with references to a plugin that is gone. So a token producer that is there
/// already stays the only one, and scorers with names of their own keep them (compatibility.yaml#precise-names).
pub(super) fn decompose(config: &mut Map<String, Value>) {
    while decompose_first(config) {}
}

/// Splits the first precise scorer. Returns whether there was one.
fn decompose_first(config: &mut Map<String, Value>) -> bool {
    let used = used_in_profiles(config);
    let Some(list) = config.get_mut("plugins").and_then(Value::as_array_mut) else { return false };
    let is = |plugin: &Value, name: &str| plugin.get("type").and_then(Value::as_str) == Some(name);
    let Some(at) = list.iter().position(|plugin| is(plugin, PRECISE_SCORER)) else { return false };
    let removed = list.remove(at);
    let own_name = name_of(&removed).filter(|name| *name != PRECISE_SCORER);
    list.retain(|plugin| {
        let is_used = |name: &str| name != PREFIX_SCORER && used.iter().any(|used| used == name);
        !is(plugin, PREFIX_SCORER) || own_name.is_some() || name_of(plugin).is_some_and(is_used)
    });
    let tokens = list.iter().all(|plugin| name_of(plugin) != Some(TOKEN_PRODUCER));
    let mut producer = producer(removed.get("parameters"));
    // Scorers with the same parameters share a producer, which indexes the events of all engines. Others need one each.
    let is_same =
        |known: &Value| is(known, PRECISE_PRODUCER) && known.get("parameters") == producer.get("parameters");
    let known = list.iter().find(|known| is_same(known)).and_then(name_of).map(str::to_owned);
    let is_shared = known.is_some();
    let producer_name = known.unwrap_or_else(|| {
        if list.iter().all(|plugin| name_of(plugin) != Some(PRECISE_PRODUCER)) {
            return PRECISE_PRODUCER.to_owned();
        }
        let name = format!("{PRECISE_PRODUCER}-{}", own_name.unwrap_or(PRECISE_SCORER));
        producer["name"] = name.as_str().into();
        name
    });
    let mut scorer =
        json!({"type": PREFIX_SCORER, "parameters": {"prefixMatchInfoProducerName": producer_name}});
    if let Some(name) = own_name {
        scorer["name"] = name.into();
    }
    let tokens = tokens.then(|| json!({"type": TOKEN_PRODUCER}));
    let producer = (!is_shared).then_some(producer);
    let parts = tokens.into_iter().chain(producer).chain([scorer]);
    let at = at.min(list.len());
    list.splice(at..at, parts);
    rename_references(config, PRECISE_SCORER, PREFIX_SCORER);
    let profiles = config.get_mut("schedulingProfiles").and_then(Value::as_array_mut).into_iter().flatten();
    for references in profiles.filter_map(|profile| profile.get_mut("plugins")?.as_array_mut()) {
        let mut seen = false;
        references.retain(|reference| {
            let scorer = reference.get("pluginRef").and_then(Value::as_str) == Some(PREFIX_SCORER);
            let again = scorer && seen;
            seen |= scorer;
            !again
        });
    }
    true
}

/// The plugins to which profiles refer.
fn used_in_profiles(config: &Map<String, Value>) -> Vec<String> {
    let profiles = config.get("schedulingProfiles").and_then(Value::as_array).into_iter().flatten();
    let references = profiles.filter_map(|profile| profile.get("plugins")?.as_array()).flatten();
    references.filter_map(|reference| Some(reference.get("pluginRef")?.as_str()?.to_owned())).collect()
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
        json!({"type": PRECISE_PRODUCER})
    } else {
        json!({"type": PRECISE_PRODUCER, "parameters": parameters})
    }
}

/// Sets the URL of the tokenizer in the token producer, unless it is set.
pub(super) fn point_to_tokenizer(config: &mut Map<String, Value>, url: &str) {
    for plugin in plugins_mut(config).filter(|plugin| is_type(plugin, TOKEN_PRODUCER)) {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::decompose;
    use crate::scheduler::loading::refusal_of_text;

    /// The names of the plugins, and those that the profile uses.
    fn decomposed(plugins: &Value, used: &[&str]) -> (Vec<String>, Vec<String>) {
        let references: Vec<Value> = used.iter().map(|name| json!({"pluginRef": name})).collect();
        let config =
            json!({"plugins": plugins, "schedulingProfiles": [{"name": "default", "plugins": references}]});
        let Value::Object(mut config) = config else { unreachable!("it is an object") };
        decompose(&mut config);
        let plugins = config["plugins"].as_array().unwrap();
        (
            plugins.iter().map(|plugin| super::name_of(plugin).unwrap().to_owned()).collect(),
            super::used_in_profiles(&config),
        )
    }

    const PRECISE: &str = "precise-prefix-cache-scorer";
    const PRODUCERS: [&str; 2] = ["token-producer", "precise-prefix-cache-producer"];

    #[test]
    fn the_token_producer_that_is_there_is_the_only_one() {
        let plugins =
            json!([{"type": "token-producer", "parameters": {"modelName": "m"}}, {"type": PRECISE}]);
        let (plugins, used) = decomposed(&plugins, &[PRECISE]);
        assert_eq!(plugins, [PRODUCERS[0], PRODUCERS[1], "prefix-cache-scorer"]);
        assert_eq!(used, ["prefix-cache-scorer"]);
    }

    #[test]
    fn scorers_with_names_of_their_own_keep_them() {
        let precise = json!([{"type": PRECISE, "name": "precise"}, {"type": "prefix-cache-scorer"}]);
        let (plugins, used) = decomposed(&precise, &["precise", "prefix-cache-scorer"]);
        assert_eq!(plugins, [PRODUCERS[0], PRODUCERS[1], "precise", "prefix-cache-scorer"]);
        assert_eq!(used, ["precise", "prefix-cache-scorer"]);
        let guessed = json!([{"type": "prefix-cache-scorer", "name": "guessed"}, {"type": PRECISE}]);
        let (plugins, _) = decomposed(&guessed, &["guessed", PRECISE]);
        assert_eq!(plugins, ["guessed", PRODUCERS[0], PRODUCERS[1], "prefix-cache-scorer"]);
        let two = json!([{"type": PRECISE, "name": "a"}, {"type": PRECISE, "name": "b"}]);
        let (plugins, used) = decomposed(&two, &["a", "b"]);
        assert_eq!(plugins, [PRODUCERS[0], PRODUCERS[1], "a", "b"]);
        assert_eq!(used, ["a", "b"]);
        let two = json!([{"type": PRECISE, "name": "a", "parameters": {"x": 1}}, {"type": PRECISE}]);
        let (plugins, used) = decomposed(&two, &["a", PRECISE]);
        let second = "precise-prefix-cache-producer-precise-prefix-cache-scorer";
        assert_eq!(plugins, [PRODUCERS[0], PRODUCERS[1], "a", second, "prefix-cache-scorer"]);
        assert_eq!(used, ["a", "prefix-cache-scorer"]);
        let hashing = json!({"tokenProcessorConfig": {"blockSize": 32}});
        let mut config = json!({
            "kind": "EndpointPickerConfig", "apiVersion": "llm-d.ai/v1alpha1",
            "plugins": [{"type": PRECISE, "name": "a", "parameters": hashing}, {"type": PRECISE}],
            "schedulingProfiles": [{"name": "default", "plugins": [{"pluginRef": "a"}, {"pluginRef": PRECISE}]}],
        });
        decompose(config.as_object_mut().unwrap());
        assert_eq!(refusal_of_text(&config.to_string()).map(|(_, error)| error.to_string()), None);
        // What no profile uses goes, as in the reference.
        let (plugins, _) = decomposed(&guessed, &[PRECISE]);
        assert_eq!(plugins, [PRODUCERS[0], PRODUCERS[1], "prefix-cache-scorer"]);
    }
}
