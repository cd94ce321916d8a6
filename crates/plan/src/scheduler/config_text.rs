//! Parses the configuration text in a picker's arguments.
//!
//! Most services of a cluster use one of a few texts, and every reconcile reads them. Parsing this YAML took a third of the
//! time to compose and plan a service, so the results are cached by text.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use serde_json::{Map, Value};

/// The most texts in the cache. When it is full, it is cleared.
const MAX_CACHED_TEXTS: usize = 32;
/// The longest text that is cached, in bytes.
const MAX_CACHED_TEXT_BYTES: usize = 16 << 10;

type Configs = HashMap<Box<str>, Arc<Map<String, Value>>>;

static CACHE: LazyLock<Mutex<Configs>> = LazyLock::new(Mutex::default);

/// Returns the configuration in a text, or an empty map if the text is not a mapping.
pub(super) fn parse(text: &str) -> Arc<Map<String, Value>> {
    if let Some(config) = CACHE.lock().get(text) {
        return config.clone();
    }
    // Without the lock: two threads that parse one text at a time cost less than all that wait for it.
    let config = Arc::new(match serde_saphyr::from_str(text) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    });
    if text.len() <= MAX_CACHED_TEXT_BYTES {
        let mut known = CACHE.lock();
        if known.len() >= MAX_CACHED_TEXTS {
            known.clear();
        }
        known.insert(text.into(), config.clone());
    }
    config
}

#[cfg(test)]
mod tests {
    use super::{MAX_CACHED_TEXTS, parse};

    #[test]
    fn more_texts_than_are_remembered_are_each_read_for_what_they_are() {
        for round in 0..2 {
            for number in 0..=MAX_CACHED_TEXTS {
                let config = parse(&format!("kind: number-{number}"));
                assert_eq!(config["kind"], format!("number-{number}"), "in round {round}");
            }
        }
        assert!(parse("- a").is_empty() && parse("{").is_empty());
    }
}
