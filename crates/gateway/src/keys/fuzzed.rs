//! Reads arbitrary bytes as the content of a Secret and as the response of an engine, for fuzzing.

use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use longboat_key::{Key, Namespace};

use super::{scope::KeyScope, secret::hash_keys, table::KeyTable, usage::UsageReader};

/// Reads the content of a Secret: a line with the name of each entry, its value up to an empty line.
///
/// # Panics
///
/// If a key stays in memory, if a Secret is neither used nor refused with a reason, or if a key of a Secret that is used is not
/// found.
pub fn key_secret(bytes: &[u8]) {
    let mut secret = Secret::default();
    secret.metadata.name = Some("a".into());
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
        let (entry, after) = rest.split_at(end);
        rest = after.get(2..).unwrap_or_default();
        let name = entry.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let value = entry.get(name.len() + 1..).unwrap_or_default();
        let data = secret.data.get_or_insert_default();
        data.insert(String::from_utf8_lossy(name).into_owned(), ByteString(value.to_vec()));
    }
    let keys = secret.data.as_ref().and_then(|data| data.get("key")).map(|ByteString(keys)| keys.clone());
    hash_keys(&mut secret);
    assert!(secret.data.as_ref().is_none_or(|data| !data.contains_key("key")), "a key stays in memory");
    let table = KeyTable::new(&[Arc::new(secret.clone())]);
    let name = Key::of(&secret);
    let reason = table.refused.get(&name);
    assert_eq!(reason.is_none(), table.all.len() == 1, "a Secret is both used and refused, or neither");
    assert!(reason.is_none_or(|reason| !reason.is_empty()), "a refusal says nothing");
    if reason.is_none() {
        let scope = KeyScope::new([Namespace("").to_shared()]);
        let keys = keys.iter().flat_map(|keys| keys.split(|byte| *byte == b'\n')).map(<[u8]>::trim_ascii);
        for key in keys.filter(|key| !key.is_empty()) {
            assert!(table.find(&scope, key).is_some(), "a valid key is not found");
        }
    }
}

/// Reads the response of an engine, as JSON and as events.
///
/// # Panics
///
/// If the tokens depend on how the response is cut, or if a client that asks for everything does not get everything.
pub fn usage(bytes: &[u8]) {
    for kind in ["application/json", "text/event-stream"] {
        for hides in [false, true] {
            let read = |size: usize| {
                let mut reader = UsageReader::new(kind, hides);
                let mut passed = Vec::new();
                for piece in bytes.chunks(size) {
                    passed.extend_from_slice(&reader.read(Bytes::copy_from_slice(piece)));
                }
                passed.extend_from_slice(&reader.rest());
                (passed, reader.tokens())
            };
            let whole = read(bytes.len().max(1));
            assert_eq!(whole, read(3), "{kind}: the response depends on how it is cut");
            assert!(hides || whole.0 == bytes, "{kind}: the response is changed");
        }
    }
}
