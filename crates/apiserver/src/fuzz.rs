//! What is fuzzed of this crate: one function for each parser of outside bytes, over bytes. The targets in `fuzz/` and the
//! test that replays the corpus call them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    depth,
    kinds::Registry,
    patching::{PatchKind, Write, patch},
    protobuf,
    request::{decode, path, query::Query},
    selector::{field::FieldSelector, label::LabelSelector},
    store::read_row,
    strategy::Quantity,
};

/// What runs on one input.
pub type Target = fn(&[u8]);

/// All targets by name: the folders of the corpus are named alike.
pub const ALL: [(&str, Target); 6] = [
    ("api_patch", patches),
    ("api_selector", selectors),
    ("api_body", bodies),
    ("api_cel", cel),
    ("api_journal", journal),
    ("api_quantity", quantities),
];

/// Any bytes are a patch that is carried out, or refused with a text; what comes of it can be stored.
///
/// # Panics
///
/// When that does not hold.
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

/// Any text is a selector, or is refused; one that was read can be asked.
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
    // refusals are fine
    let _ = (query.check_timeout(), query.number("limit"), query.dry_run("CreateOptions"));
    path::segments(text);
}

/// Any bytes are a body in each of the formats, or are refused; what was read can be stored.
///
/// # Panics
///
/// When that does not hold.
pub fn bodies(data: &[u8]) {
    let read = [
        decode::json(data).map(|document| document.value),
        decode::yaml(data).map(|document| document.value),
    ];
    for value in read.into_iter().flatten() {
        assert!(depth::check(&value).is_ok(), "a body is nested too deeply");
    }
    // refusals are fine
    let _ = protobuf::decode(data);
}

/// Any text is an expression that compiles and ends, or is refused.
pub fn cel(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(program) = longboat_schema::Program::compile(text) else { return };
    let value = json!({"a": 1, "s": "x", "l": [1, 2, 3], "m": {"k": "v"}});
    // an error is fine
    let _ = longboat_schema::check_expression(&program, text, &["self"]);
    let _ = program.runnable().holds(&[("self", &value), ("oldSelf", &Value::Null)]);
}

/// Any row of a journal is an object, or is left out with a reason: a line with its name, then its content.
///
/// # Panics
///
/// When that does not hold.
pub fn journal(data: &[u8]) {
    let split = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (name, rest) = data.split_at(split);
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect();
    if let Err(why) = read_row(&name, rest.get(1..).unwrap_or_default()) {
        assert!(!why.is_empty(), "a row is left out without a reason");
    }
}

/// Any text is a quantity, or none; a canonical text is its own canonical text.
///
/// # Panics
///
/// When that does not hold.
pub fn quantities(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(quantity) = Quantity::parse(text) {
        let canonical = quantity.to_string();
        let again = Quantity::parse(&canonical).map(|again| again.to_string());
        assert!(again.as_ref() == Some(&canonical), "{text:?} is {canonical}, which is {again:?}");
    }
}
