//! A picker's configuration as a tree, from the text that stands in its arguments.
//!
//! Nearly all services of a cluster run with one of a few texts, and each is read at every reconcile: reading YAML was a third
//! of what composing and planning a service takes. What a text means does not change, so it is remembered.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use serde_json::{Map, Value};

/// Texts to remember; beyond that all are forgotten at once.
const MOST: usize = 32;
/// Bytes of the longest text that is remembered.
const LONGEST: usize = 16 << 10;

type Configs = HashMap<Box<str>, Arc<Map<String, Value>>>;

static READ: LazyLock<Mutex<Configs>> = LazyLock::new(Mutex::default);

/// The configuration in a text; empty if it is no mapping.
pub(super) fn parse(text: &str) -> Arc<Map<String, Value>> {
    if let Some(config) = READ.lock().get(text) {
        return config.clone();
    }
    let config = Arc::new(match serde_saphyr::from_str(text) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    });
    if text.len() <= LONGEST {
        let mut known = READ.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(text.into(), config.clone());
    }
    config
}

#[cfg(test)]
mod tests {
    use super::{MOST, parse};

    #[test]
    fn more_texts_than_are_remembered_are_each_read_for_what_they_are() {
        for round in 0..2 {
            for number in 0..=MOST {
                let config = parse(&format!("kind: number-{number}"));
                assert_eq!(config["kind"], format!("number-{number}"), "in round {round}");
            }
        }
        assert!(parse("- a").is_empty() && parse("{").is_empty());
    }
}
