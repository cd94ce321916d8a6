//! Compares Longboat's CRDs with KServe's, leaf by leaf.
//!
//! A difference that is not listed fails, and so does a line of the list without a difference.

mod differences;
mod facts;
mod literal;
mod reference;

use std::collections::BTreeSet;

use longboat_api::crd;
use serde_json::{Value, json};

use differences::{Difference, INTENDED, compare};

/// The walks, and the kinds of their CRDs.
const WALKS: [(&str, &str); 2] = [
    ("llminferenceservices.txt", "LLMInferenceService"),
    ("llminferenceserviceconfigs.txt", "LLMInferenceServiceConfig"),
];

fn own(kind: &str) -> Value {
    crd::own().into_iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap()
}

#[test]
fn our_crds_are_those_of_the_contract_but_for_the_listed_differences() {
    let mut found = BTreeSet::new();
    for (file, kind) in WALKS {
        let walk = reference::Walk::read(&longboat_golden::part("schema").join(file).read());
        let crd = own(kind);
        assert_eq!(crd["metadata"]["name"], walk.metadata["name"]);
        for field in ["group", "names", "scope"] {
            assert_eq!(crd["spec"][field], walk.spec[field], "{kind} {field}");
        }
        let versions: Vec<_> = crd["spec"]["versions"].as_array().unwrap().iter().collect();
        let names: Vec<_> = versions.iter().map(|version| version["name"].as_str().unwrap()).collect();
        assert_eq!(names, walk.versions.iter().map(|version| version.name.as_str()).collect::<Vec<_>>());
        for (ours, theirs) in versions.into_iter().zip(&walk.versions) {
            for field in ["served", "storage", "subresources"] {
                assert_eq!(ours[field], theirs.head[field], "{kind} {} {field}", theirs.name);
            }
            // Longboat's additional column comes after KServe's (`compatibility.yaml#progress`).
            let mut columns = theirs.head["additionalPrinterColumns"].clone();
            if kind == "LLMInferenceService" {
                columns.as_array_mut().unwrap().push(json!({
                    "name": "Download", "type": "string", "priority": 1,
                    "jsonPath": ".status.conditions[?(@.type=='ModelFetched')].message",
                }));
            }
            assert_eq!(ours["additionalPrinterColumns"], columns, "{kind} {}", theirs.name);
            found.extend(compare(kind, &theirs.name, theirs, &ours["schema"]["openAPIV3Schema"]));
        }
    }
    let is_listed = |difference: &&Difference| INTENDED.iter().any(|intended| intended.covers(difference));
    let unlisted: Vec<_> = found.iter().filter(|difference| !is_listed(difference)).collect();
    let gone: Vec<_> = INTENDED
        .iter()
        .filter(|intended| !found.iter().any(|difference| intended.covers(difference)))
        .collect();
    let text = |list: Vec<String>| list.join("\n  ");
    assert!(
        unlisted.is_empty() && gone.is_empty(),
        "differences that are not listed:\n  {}\nlines of the list without a difference:\n  {}",
        text(unlisted.into_iter().map(ToString::to_string).collect()),
        text(gone.into_iter().map(|intended| format!("{intended:?}")).collect()),
    );
}
