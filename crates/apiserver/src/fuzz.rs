//! The fuzz targets of this crate: one function for each parser of outside bytes. The targets in `fuzz/` and the test that
//! replays the corpus call them.

use jiff::Timestamp;
use longboat_quantity::Quantity;
use serde_json::{Value, json};

use crate::{
    depth,
    kinds::Registry,
    patching::{PatchKind, Write, patch},
    protobuf,
    request::{decode, path, query::Query},
    selector::{field::FieldSelector, label::LabelSelector},
    store::read_row,
};

/// A function that runs on one input.
pub type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub const ALL: [(&str, Target); 6] = [
    ("api_patch", patches),
    ("api_selector", selectors),
    ("api_body", bodies),
    ("api_cel", cel),
    ("api_journal", journal),
    ("api_quantity", quantities),
];

/// Treats the input as a patch. The patch is either applied or refused with a message, and its result can be stored.
///
/// # Panics
///
/// If an assertion of the target fails.
pub fn patches(data: &[u8]) {
    let registry = Registry::default();
    let live = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["a/b", "c/d"]},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]},
    });
    let Some(resource) = registry.find_kind("v1", "Pod") else { return };
    let write = Write {
        registry: &registry,
        resource: &resource,
        subresource: None,
        manager: "fuzz",
        force: true,
        now: Timestamp::UNIX_EPOCH,
    };
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic, PatchKind::Apply] {
        match patch(&write, kind, data, Some(&live)) {
            Ok(patched) => assert!(
                depth::check(&patched.object).is_ok() || kind == PatchKind::Apply,
                "a patch nested the object too deeply"
            ),
            Err(refused) => assert!(!refused.message.is_empty(), "a refusal says nothing"),
        }
    }
}

/// Treats the input as a selector and as a query. A text that parses as a selector can be matched against an object.
pub fn selectors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let object =
        json!({"metadata": {"name": "a", "labels": {"a": "b", "n": "5"}}, "spec": {"nodeName": "n"}});
    if let Ok(selector) = LabelSelector::parse(text) {
        selector.matches(&object["metadata"]["labels"]);
    }
    if let Some(resource) = Registry::default().find_kind("v1", "Pod")
        && let Ok(selector) = FieldSelector::parse(text)
        && selector.check(&resource).is_ok()
    {
        selector.matches(&object);
    }
    let query = Query::parse(text);
    // errors are fine
    let _ = (query.check_timeout(), query.number("limit"), query.dry_run("CreateOptions"));
    path::segments(text);
}

/// Decodes the input as a body in each of the formats. A body that decodes can be stored.
///
/// # Panics
///
/// If an assertion of the target fails.
pub fn bodies(data: &[u8]) {
    let read = [
        decode::json(data).map(|document| document.value),
        decode::yaml(data).map(|document| document.value),
    ];
    for value in read.into_iter().flatten() {
        assert!(depth::check(&value).is_ok(), "a body is nested too deeply");
    }
    // errors are fine
    let _ = protobuf::decode(data, "v1", "Pod");
}

/// Compiles the input as a CEL expression. If the expression compiles, its evaluation ends.
pub fn cel(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(program) = longboat_schema::Program::compile(text) else { return };
    let value = json!({"a": 1, "s": "x", "l": [1, 2, 3], "m": {"k": "v"}});
    // an error is fine
    let _ = longboat_schema::check_expression(&program, text, &["self"]);
    let _ = program.runnable().holds(&[("self", &value), ("oldSelf", &Value::Null)]);
}

/// Reads the input as a row of a journal: a line with the row's name, then its content. The row is either an object or an
/// error.
///
/// # Panics
///
/// If an assertion of the target fails.
pub fn journal(data: &[u8]) {
    let split = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (name, rest) = data.split_at(split);
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect();
    if let Err(why) = read_row(&name, rest.get(1..).unwrap_or_default()) {
        assert!(!why.is_empty(), "a row is left out without a reason");
    }
}

/// Parses the input as a quantity. The canonical form of a canonical form is the same text.
///
/// # Panics
///
/// If an assertion of the target fails.
pub fn quantities(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(quantity) = Quantity::parse(text) {
        let canonical = quantity.to_string();
        let again = Quantity::parse(&canonical).map(|again| again.to_string());
        assert!(again.as_ref() == Some(&canonical), "{text:?} is {canonical}, which is {again:?}");
    }
}
