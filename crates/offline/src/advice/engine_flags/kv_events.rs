//! The events of KV caches that vLLM publishes, as its arguments say.

use k8s_openapi::api::core::v1::Container;
use longboat_api::engine::VLLM;
use longboat_plan::kv_connector;
use serde_json::{Map, Value};

use super::{
    reading::json,
    uses::{FlagUse, Uses},
    words::words,
};

/// vLLM's defaults.
const ENDPOINT: &str = "tcp://*:5557";
const BLOCK: i64 = 16;

/// Flags that make blocks larger by a factor.
const CONTEXT_PARALLEL: [&str; 2] = ["--decode-context-parallel-size", "--prefill-context-parallel-size"];

/// What is known of the events of an engine.
pub(in crate::advice) enum Events {
    /// A file, a variable or another program decides.
    Unknown,
    Silent,
    Published(Publisher),
}

/// An engine that publishes.
pub(in crate::advice) struct Publisher {
    /// The field with `--kv-events-config`.
    pub path: String,
    pub endpoint: String,
    /// The beginning of the topic, and whether that is all of it.
    pub topic: (String, bool),
    /// The size of a block with the field that has it, or the usual size.
    pub block: Option<(Option<String>, i64)>,
    /// Names under which it serves the model, beside that of the service.
    pub names: Vec<String>,
}

// === impl Publisher ===

impl Publisher {
    /// The port on which it listens. `None` if it connects elsewhere, or if the port is not known.
    pub(in crate::advice) fn port(&self) -> Option<u16> {
        let listens = self.endpoint.contains('*') || self.endpoint.contains("::");
        self.endpoint.rsplit_once(':').filter(|_| listens)?.1.parse().ok()
    }
}

/// Reads the arguments of a vLLM at a path.
pub(in crate::advice) fn of(path: &str, main: &Container) -> Events {
    let words = words(path, main);
    let uses = Uses::of(&words);
    let all: Vec<&FlagUse<'_>> = uses.all.iter().filter(|used| used.is("--kv-events-config")).collect();
    let Some(last) = all.last() else {
        let text = kv_connector::words(main);
        let is_elsewhere = ["kv-events", "kv_events", "--config"].iter().any(|part| text.contains(part));
        return if is_elsewhere { Events::Unknown } else { Events::Silent };
    };
    let Some(config) = merged(&all).filter(|_| !uses.is_open && uses.last("--config").is_none()) else {
        return Events::Unknown;
    };
    if config.get("enable_kv_cache_events").is_none_or(|value| value == false)
        || config.get("publisher").is_some_and(|publisher| publisher == "null")
    {
        return Events::Silent;
    }
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let topic = resolved(text("topic").unwrap_or_default(), main);
    let known = topic.find(['$', '{']).unwrap_or(topic.len());
    let block = uses.last("--block-size");
    let size = if block.is_some() { block.and_then(FlagUse::number) } else { Some(BLOCK) };
    let is_multiple = CONTEXT_PARALLEL.iter().any(|flag| uses.last(flag).is_some());
    let names = uses.last(VLLM.served_name).map(FlagUse::texts).unwrap_or_default();
    Events::Published(Publisher {
        path: last.word.path.clone(),
        endpoint: text("endpoint").unwrap_or(ENDPOINT).to_owned(),
        topic: (topic[..known].to_owned(), known == topic.len()),
        block: size.filter(|_| !is_multiple).map(|size| (block.map(|used| used.word.path.clone()), size)),
        names: names.into_iter().map(str::to_owned).collect(),
    })
}

/// Merges JSON with the keys of flags such as `--kv-events-config.topic`.
fn merged(all: &[&FlagUse<'_>]) -> Option<Map<String, Value>> {
    let mut merged = Map::new();
    for used in all {
        let value = used.texts().into_iter().next()?;
        match used.name.split_once('.') {
            Some((_, key)) => {
                merged.insert(key.to_owned(), json(value).unwrap_or_else(|_| value.into()));
            }
            None => merged.extend(json(value).ok()?.as_object()?.clone()),
        }
    }
    Some(merged)
}

/// Puts a letter in place of variables with a field of the pod, none of which has an `@`.
fn resolved(topic: &str, main: &Container) -> String {
    let fields = main
        .env
        .iter()
        .flatten()
        .filter(|variable| variable.value_from.as_ref().is_some_and(|source| source.field_ref.is_some()));
    let names = fields.map(|variable| &variable.name);
    names.fold(topic.to_owned(), |topic, name| {
        topic.replace(&format!("$({name})"), "x").replace(&format!("${{{name}}}"), "x")
    })
}
