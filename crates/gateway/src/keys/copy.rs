//! The API keys that the pods of a Gateway check on a cluster.
//!
//! Pods must not read the Secrets with the keys: Kubernetes limits no right to a label, so they would read every Secret of every
//! namespace. The controller reads them, and copies what the pods need into one Secret beside the Gateway, which is the only one
//! that they may read. A copy has hashes of keys, allowed models and limits, and only those of namespaces that have sent traffic
//! to the Gateway by a route or a ReferenceGrant of their own. Pure functions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_key::{Key, Namespace};

use super::table::{ApiKey, KeyTable, MAX_KEYS};

/// The type of the Secret with a copy.
pub(crate) const TYPE: &str = "longboat.dev/api-keys";

/// The most bytes of a copy. A Secret has at most 1 MiB.
const MAX_COPY_BYTES: usize = 900 << 10;

/// The entries of Secrets with keys, by the name of the Secret.
type Entries = BTreeMap<String, BTreeMap<String, String>>;

/// Room for this many keys, and for the bytes of their entries.
#[derive(Debug, Clone, Copy)]
struct Room {
    keys: usize,
    bytes: usize,
}

/// The keys for one Gateway.
#[derive(Debug, Default)]
pub(crate) struct KeyCopy {
    /// The data of the Secret: for each namespace the entries of its Secrets, as JSON.
    pub(crate) data: BTreeMap<String, ByteString>,
    /// The Secrets whose keys had no room.
    pub(crate) left_out: Vec<Key>,
}

/// Returns the Secrets of a copy, as if they had been read themselves. Keys in a form that this build does not know are
/// unknown, so nobody can use them.
pub(crate) fn secrets(copy: &Secret) -> Vec<Arc<Secret>> {
    let of_namespace = |(namespace, ByteString(text)): (&String, &ByteString)| {
        let all: Entries = serde_json::from_slice(text).unwrap_or_default();
        all.into_iter()
            .map(|(name, entries)| {
                let metadata = ObjectMeta {
                    name: Some(name),
                    namespace: Some(namespace.clone()),
                    ..ObjectMeta::default()
                };
                let data = entries.into_iter().map(|(name, value)| (name, ByteString(value.into_bytes())));
                Arc::new(Secret { metadata, data: Some(data.collect()), ..Secret::default() })
            })
            .collect::<Vec<_>>()
    };
    copy.data.iter().flatten().flat_map(of_namespace).collect()
}

// === impl Room ===

impl Room {
    /// Takes room for a key with an entry of this length. Returns whether there is enough.
    fn take(&mut self, length: usize) -> bool {
        let fits = self.keys > 0 && self.bytes >= length;
        if fits {
            self.keys -= 1;
            self.bytes -= length;
        }
        fits
    }
}

// === impl KeyCopy ===

impl KeyCopy {
    pub(crate) fn new(table: &KeyTable, namespaces: &BTreeSet<Namespace>) -> Self {
        let keys: Vec<_> =
            table.all.iter().filter(|key| namespaces.contains(&key.secret.namespace)).collect();
        let count = keys.iter().map(|key| &key.secret.namespace).collect::<BTreeSet<_>>().len().max(1);
        // Each namespace has an equal share, which no other one can take. What nobody needs is for those who need more.
        let share = Room { keys: MAX_KEYS / count, bytes: MAX_COPY_BYTES / count };
        let mut shares: HashMap<&Namespace, Room> = HashMap::new();
        let mut left = Room { keys: MAX_KEYS, bytes: MAX_COPY_BYTES };
        let (mut all, mut waiting) = (BTreeMap::new(), Vec::new());
        // The oldest first, here and below, so that a new key takes no room from one that is in use.
        for key in keys {
            if shares.entry(&key.secret.namespace).or_insert(share).take(length(key)) {
                left.take(length(key));
                add(&mut all, key);
            } else {
                waiting.push(key);
            }
        }
        let mut left_out = Vec::new();
        for key in waiting {
            if left.take(length(key)) {
                add(&mut all, key);
            } else {
                left_out.push(key.secret.clone());
            }
        }
        let bytes = |all: &Entries| ByteString(serde_json::json!(all).to_string().into_bytes());
        let data = all.into_iter().map(|(namespace, all)| (namespace, bytes(&all))).collect();
        Self { data, left_out }
    }
}

/// The length of a key's entry as JSON, with a comma.
fn length(key: &ApiKey) -> usize {
    serde_json::json!({&*key.secret.name: key.spec.entries()}).to_string().len()
}

fn add(all: &mut BTreeMap<String, Entries>, key: &ApiKey) {
    let Key { namespace, name } = &key.secret;
    all.entry(namespace.to_string()).or_default().insert(name.to_string(), key.spec.entries());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keys::{scope::KeyScope, secret::hash_keys};

    fn secret(namespace: &str, name: &str, entries: &[(&str, &str)]) -> Arc<Secret> {
        let mut secret = Secret {
            metadata: serde_json::from_value(json!({"name": name, "namespace": namespace})).unwrap(),
            data: Some(
                entries
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec())))
                    .collect(),
            ),
            ..Secret::default()
        };
        hash_keys(&mut secret);
        Arc::new(secret)
    }

    fn read(copy: &KeyCopy) -> KeyTable {
        KeyTable::new(&secrets(&Secret { data: Some(copy.data.clone()), ..Secret::default() }))
    }

    #[test]
    fn a_copy_means_what_the_secrets_mean_and_has_no_key() {
        let (old, new) = ("sk-aaaaaaaaaaaaaaaaaaaaaaaa", "sk-bbbbbbbbbbbbbbbbbbbbbbbb");
        let both = format!("{old}\n{new}");
        let table = KeyTable::new(&[
            secret("a", "team", &[("key", &both), ("models", "m, n"), ("tokensPerDay", "7")]),
            secret("a", "wrong", &[("key", "sk-cccccccccccccccccccccccc"), ("password", "hunter2")]),
            secret("b", "other", &[("key", old)]),
        ]);
        let only = Namespace("a").to_shared();
        let copy = KeyCopy::new(&table, &[only.clone()].into());
        let text = format!(
            "{:?}",
            copy.data.values().map(|data| String::from_utf8_lossy(&data.0)).collect::<Vec<_>>()
        );
        assert!(!text.contains("sk-") && !text.contains("hunter2"), "{text}");
        assert_eq!(
            copy.data.keys().collect::<Vec<_>>(),
            ["a"],
            "other namespaces are none of the Gateway's business"
        );
        let read = read(&copy);
        for key in [old, new] {
            let found = read.find(&KeyScope::new([only.clone()]), key.as_bytes()).unwrap();
            let known = table.find(&KeyScope::new([only.clone()]), key.as_bytes()).unwrap();
            assert_eq!(
                (&found.secret, &found.spec.models, &found.spec.limits),
                (&known.secret, &known.spec.models, &known.spec.limits)
            );
        }
        assert_eq!(read.all.len(), 1);
        assert!(read.refused.is_empty());
        let foreign =
            Secret { data: Some([("a".to_owned(), ByteString(b"{".to_vec()))].into()), ..Secret::default() };
        assert!(secrets(&foreign).is_empty());
    }

    #[test]
    fn a_copy_fits_into_a_secret_and_each_namespace_has_its_share() {
        let key = |number: usize| format!("sk-{number:024}");
        let small = |namespace: &str, number: usize| {
            secret(namespace, &format!("s{number:04}"), &[("key", &key(number))])
        };
        // As JSON, a quote takes two bytes.
        let models: Vec<_> = (0..200).map(|number| format!("{number}{}", "\"".repeat(500))).collect();
        let models = models.join(",");
        let large = (0..20).map(|number| {
            secret("a", &format!("l{number:02}"), &[("key", &key(number)), ("models", &models)])
        });
        let many = |namespace: &'static str| (0..1001).map(move |number| small(namespace, number));
        // What is taken of the namespaces, and what is not. Those of a namespace begin with its larger keys.
        for (secrets, namespaces, taken, left_out) in [
            (large.clone().collect::<Vec<_>>(), vec!["a"], vec![4], 16),
            (large.chain([small("a", 20), small("b", 0)]).collect(), vec!["a", "b"], vec![5, 1], 16),
            (many("a").chain([small("b", 0)]).collect(), vec!["a", "b"], vec![999, 1], 1),
            (many("a").chain(many("b")).collect(), vec!["a", "b"], vec![500, 500], 1000),
            (many("a").chain([small("b", 0)]).collect(), vec!["b"], vec![1], 0),
        ] {
            let table = KeyTable::new(&secrets);
            let copy =
                KeyCopy::new(&table, &namespaces.iter().map(|name| Namespace(*name).to_shared()).collect());
            let size: usize = copy.data.values().map(|data| data.0.len()).sum();
            assert!(size < 1 << 20, "{size}");
            let all = read(&copy).all;
            let of = |name: &&str| all.iter().filter(|key| &*key.secret.namespace == *name).count();
            assert_eq!(
                (namespaces.iter().map(of).collect::<Vec<_>>(), copy.left_out.len()),
                (taken, left_out)
            );
        }
    }
}
