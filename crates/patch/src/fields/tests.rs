use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Element, FieldsError, Path, Set};

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        "[a-c]".prop_map(Element::Field),
        "[a-c]".prop_map(|name| Element::Key(vec![
            ("name".to_owned(), json!(name)),
            ("port".to_owned(), json!(80))
        ])),
        (0..3).prop_map(|number| Element::Value(json!(number))),
        (0..3_i64).prop_map(Element::Index),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    prop::collection::vec(prop::collection::vec(element(), 1..4).prop_map(Path), 0..8)
        .prop_map(|paths| Set::of(&paths))
}

proptest! {
    #[test]
    fn the_algebra_has_the_laws_of_sets(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b.union(&c)), a.union(&b).union(&c));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.difference(&b.union(&c)), a.difference(&b).difference(&c));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert!(a.difference(&a).is_empty());
        prop_assert_eq!(a.union(&b).len() + a.intersection(&b).len(), a.len() + b.len());
        for path in a.paths() {
            prop_assert!(a.has(&path.0));
            prop_assert_eq!(a.difference(&b).has(&path.0), !b.has(&path.0));
        }
        for path in a.recursive_difference(&b).paths() {
            prop_assert!((1..=path.0.len()).all(|end| !b.has(&path.0[..end])));
        }
    }

    #[test]
    fn a_set_reads_back_as_it_was_written(a in set()) {
        prop_assert_eq!(Set::from_fields_v1(&a.to_fields_v1()), Ok(a));
    }
}

#[test]
fn what_a_server_writes_is_read_and_written_alike() {
    let fields = json!({
        "f:metadata": {"f:finalizers": {".": {}, "v:\"a.b/1\"": {}}, "f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:selector": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
            "f:odd": {"i:3": {}},
        },
    });
    let set = Set::from_fields_v1(&fields).unwrap();
    assert_eq!(set.to_fields_v1(), fields);
    let texts: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            ".metadata.finalizers",
            ".metadata.finalizers[=\"a.b/1\"]",
            ".metadata.labels",
            ".metadata.labels.app",
            ".spec.odd[3]",
            ".spec.ports[containerPort=80,protocol=\"TCP\"]",
            ".spec.ports[containerPort=80,protocol=\"TCP\"].containerPort",
            ".spec.selector",
        ]
    );
}

#[test]
fn malformed_sets_are_refused() {
    let read = |value: Value| Set::from_fields_v1(&value).unwrap_err();
    assert_eq!(read(json!([])), FieldsError::NotAnObject);
    assert_eq!(read(json!({"x": {}})), FieldsError::UnknownElement("x".to_owned()));
    assert_eq!(read(json!({"k:{": {}})), FieldsError::Malformed("k:{".to_owned()));
    assert_eq!(read(json!({"i:one": {}})), FieldsError::Malformed("i:one".to_owned()));
}

#[test]
fn an_object_as_a_key_stands_in_a_path_as_its_fields() {
    let key = |value| Element::Key(vec![("name".to_owned(), value)]).to_string();
    assert_eq!(key(json!({})), "[name=]");
    assert_eq!(key(json!({"a": "b"})), "[name=a=\"b\"]");
}
