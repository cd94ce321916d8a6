//! The differences between Longboat's schemas and KServe's, and the intended ones.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::{facts, reference::Version};

/// A fact that differs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Difference {
    kind: String,
    version: String,
    place: String,
    fact: String,
    values: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}: {}", self.kind, self.version, self.place, self.fact, self.values)
    }
}

/// Compares a version of a CRD with the recorded walk of KServe's schema.
pub(super) fn compare(kind: &str, version: &str, theirs: &Version, schema: &Value) -> BTreeSet<Difference> {
    let ours = facts::of(schema, &|place| theirs.stops.iter().any(|stop| stop == place));
    let mut found = BTreeSet::new();
    let mut note = |place: &str, fact: &str, values: String| {
        found.insert(Difference {
            kind: kind.to_owned(),
            version: version.to_owned(),
            place: place.to_owned(),
            fact: fact.to_owned(),
            values,
        });
    };
    for place in ours.keys().chain(theirs.facts.keys()) {
        let (Some(mine), Some(reference)) = (ours.get(place), theirs.facts.get(place)) else {
            note(place, if ours.contains_key(place) { "extra" } else { "missing" }, String::new());
            continue;
        };
        for fact in mine.keys().chain(reference.keys()) {
            // Where the walk stops, it does not always name the fields.
            if fact == "keys" && !reference.contains_key(fact) {
                continue;
            }
            let (mine, reference) = (mine.get(fact), reference.get(fact));
            let text = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), ToString::to_string);
            if mine != reference {
                note(place, fact, format!("ours {}, the reference's {}", text(mine), text(reference)));
            }
        }
    }
    found
}

/// An intended difference: a keyword, at the places that end in `place`.
#[derive(Debug)]
pub(super) struct Intended {
    place: &'static str,
    keyword: &'static str,
    /// An id of `compatibility.yaml`.
    id: &'static str,
}

const RULES: &str = "x-kubernetes-validations";

pub(super) const INTENDED: [Intended; 6] = [
    Intended { place: ".spec.runtime", keyword: "extra", id: "runtime-field" },
    Intended { place: ".status.appliedConfigs[].namespace", keyword: "required", id: "runtime-field" },
    Intended { place: ".status.appliedConfigs[].source", keyword: "enum", id: "runtime-field" },
    Intended { place: ".scaling.wva", keyword: RULES, id: "cel-scaling-modifiers" },
    Intended { place: ".scaling.wva.keda", keyword: RULES, id: "cel-hpa-name" },
    Intended { place: ".scaling.keda", keyword: RULES, id: "cel-hpa-name" },
];

impl Intended {
    pub(super) fn covers(&self, difference: &Difference) -> bool {
        longboat_golden::compatibility::deviation(self.id);
        difference.fact == self.keyword && difference.place.ends_with(self.place)
    }
}
