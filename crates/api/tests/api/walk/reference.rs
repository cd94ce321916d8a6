//! Parses a walk of KServe's schema.
//!
//! A line `PATH[*]  :: TYPE KEYWORD=LITERAL …` is a place; `*` means that its parent requires it. `CEL` lines below it are
//! its rules. `<PodSpec>` and `<STOP>` end the walk of a branch, and name the required fields below.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{facts::Facts, literal};

/// The walk of a CRD.
pub(super) struct Walk {
    pub(super) metadata: Value,
    pub(super) spec: Value,
    pub(super) versions: Vec<Version>,
}

/// The walk of a version.
pub(super) struct Version {
    pub(super) name: String,
    /// The fields of the version other than the schema.
    pub(super) head: Value,
    pub(super) facts: Facts,
    /// Places below which the walk says nothing.
    pub(super) stops: Vec<String>,
}

// === impl Walk ===

impl Walk {
    pub(super) fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let mut head = || literal::read(lines.next().unwrap()).0;
        let mut walk = Self { metadata: head(), spec: head(), versions: Vec::new() };
        let mut place = String::new();
        for line in lines {
            if let Some(rest) = line.strip_prefix("=====VERSION ") {
                let (name, head) = rest.split_once(' ').unwrap();
                walk.versions.push(Version {
                    name: name.to_owned(),
                    head: literal::read(head).0,
                    facts: Facts::new(),
                    stops: Vec::new(),
                });
                continue;
            }
            let version = walk.versions.last_mut().unwrap();
            if let Some((path, rest)) = line.split_once(" :: ") {
                let path = path.trim();
                path.trim_end_matches('*').clone_into(&mut place);
                let mut facts = attributes(rest);
                facts.insert("required".to_owned(), path.ends_with('*').into());
                version.facts.insert(place.clone(), facts);
            } else if !line.trim().is_empty() {
                below(line.trim(), &place, version);
            }
        }
        walk
    }
}

/// Parses a line with further facts about `place`.
fn below(line: &str, place: &str, version: &mut Version) {
    let facts = version.facts.get_mut(place).unwrap();
    if let Some(rule) = line.strip_prefix("CEL ") {
        let rules = facts.entry("x-kubernetes-validations".to_owned()).or_insert_with(|| json!([]));
        let rules = rules.as_array_mut().unwrap();
        rules.push(literal::read(rule).0);
        rules.sort_by_key(ToString::to_string);
        return;
    }
    let rest = line.strip_prefix("<PodSpec>").or_else(|| line.strip_prefix("<STOP>")).unwrap();
    let (required, rest) = literal::read(rest.trim().strip_prefix("required=").unwrap());
    facts.insert("required below".to_owned(), required);
    if let Some(keys) = rest.trim().strip_prefix("keys=") {
        facts.insert("keys".to_owned(), literal::read(keys).0);
    }
    version.stops.push(place.to_owned());
}

/// Parses `TYPE KEYWORD=LITERAL …`.
fn attributes(text: &str) -> BTreeMap<String, Value> {
    let (kind, mut rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let mut facts = BTreeMap::new();
    if !kind.is_empty() && kind != "None" {
        facts.insert("type".to_owned(), kind.into());
    }
    while let Some((key, after)) = rest.trim_start().split_once('=') {
        let (value, after) = literal::read(after);
        facts.insert(key.to_owned(), value);
        rest = after;
    }
    facts
}
