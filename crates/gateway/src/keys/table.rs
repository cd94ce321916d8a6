//! The keys that clients may use.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Time};
use longboat_key::{Key, Namespace};

use super::{
    scope::KeyScope,
    secret::{Digest, KeySpec, LABEL, digest, hash_keys},
};

/// The most keys of a Gateway, and of a namespace. Each has series of its own among the metrics.
pub(super) const MAX_KEYS: usize = 1000;

/// A key that clients may use.
#[derive(Debug)]
pub(crate) struct ApiKey {
    pub(crate) secret: Key,
    /// When the Secret was created.
    created: Option<Time>,
    pub(crate) spec: KeySpec,
}

/// All keys of the cluster.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    /// By namespace, then by the hash of the key.
    keys: HashMap<Namespace, HashMap<Digest, Arc<ApiKey>>>,
    /// All keys, by the name of their Secret.
    pub(crate) all: Vec<Arc<ApiKey>>,
    /// Secrets that cannot be used, and why.
    pub(crate) refused: BTreeMap<Key, String>,
}

/// The Secrets that cannot be used, as far as the log has them.
#[derive(Debug, Default)]
pub(crate) struct RefusedKeys(BTreeMap<Key, String>);

/// Returns the reason for each of these Secrets that no gateway accepts. Secrets without the label of API keys have none.
pub fn api_key_problems(secrets: impl IntoIterator<Item = Secret>) -> BTreeMap<Key, String> {
    let (mut problems, mut keys) = (BTreeMap::new(), Vec::new());
    for mut secret in secrets {
        let labels = secret.metadata.labels.as_ref();
        let Some(label) = labels.and_then(|labels| labels.get(LABEL)) else { continue };
        if label != "true" {
            let problem = format!("the label {LABEL} is {label:?}, expected \"true\"");
            problems.insert(Key::of(&secret), problem);
            continue;
        }
        // An API server does the same when it stores the Secret.
        let texts = secret.string_data.take().into_iter().flatten();
        let texts: Vec<_> = texts.map(|(name, text)| (name, ByteString(text.into_bytes()))).collect();
        secret.data.get_or_insert_default().extend(texts);
        hash_keys(&mut secret);
        keys.push(Arc::new(secret));
    }
    problems.extend(KeyTable::new(&keys).refused);
    problems
}

// === impl RefusedKeys ===

impl RefusedKeys {
    /// Logs what is new.
    pub(crate) fn log(&mut self, refused: &BTreeMap<Key, String>) {
        for (secret, reason) in refused {
            if self.0.get(secret) != Some(reason) {
                tracing::error!(%secret, reason, "A Secret with an API key cannot be used; its keys are refused.");
            }
        }
        self.0.clone_from(refused);
    }
}

// === impl KeyTable ===

impl KeyTable {
    pub(crate) fn new(secrets: &[Arc<Secret>]) -> Self {
        let mut table = Self::default();
        // The oldest first: a new Secret with a key that is in use must not stop the one that clients rely on.
        let age = |secret: &Secret| secret.metadata.creation_timestamp.clone();
        let mut sorted: Vec<_> = secrets.iter().map(|secret| (Key::of(secret.as_ref()), secret)).collect();
        sorted.sort_by(|a, b| age(a.1).cmp(&age(b.1)).then_with(|| a.0.cmp(&b.0)));
        // By namespace: none may take the places of another. How many a Gateway takes, its copy decides.
        let mut counts: HashMap<Namespace, usize> = HashMap::new();
        for (name, secret) in sorted {
            let count = counts.entry(name.namespace.clone()).or_default();
            let added = if *count < MAX_KEYS {
                table.add(name.clone(), secret)
            } else {
                Err(format!("namespace {} has more than {MAX_KEYS} keys", name.namespace))
            };
            match added {
                Ok(()) => *count += 1,
                Err(reason) => drop(table.refused.insert(name, reason)),
            }
        }
        table
    }

    fn add(&mut self, name: Key, secret: &Secret) -> Result<(), String> {
        // Nothing is added before the last check: a Secret is used with all of its keys or not at all.
        let spec = KeySpec::parse(secret)?;
        let created = secret.metadata.creation_timestamp.clone();
        let own = self.keys.entry(name.namespace.clone()).or_default();
        if let Some(other) = spec.digests.iter().find_map(|digest| own.get(digest)) {
            let rule = if other.created == created {
                "comes first by name of those created together"
            } else {
                "is older"
            };
            return Err(format!("Secret {} has the same key and {rule}", other.secret));
        }
        let key = Arc::new(ApiKey { secret: name, created, spec });
        own.extend(key.spec.digests.iter().map(|digest| (*digest, key.clone())));
        self.all.push(key);
        Ok(())
    }

    /// Finds a key that a client has sent. The hash is looked up, and not the text compared, so the time that this takes says
    /// nothing about the text of other keys.
    pub(crate) fn find(&self, scope: &KeyScope, sent: &[u8]) -> Option<&Arc<ApiKey>> {
        let digest = digest(sent);
        scope.namespaces().iter().find_map(|namespace| self.keys.get(namespace)?.get(&digest))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(namespace: &str, name: &str, key: &str) -> Arc<Secret> {
        let mut secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
        }))
        .unwrap();
        let data = [("key".to_owned(), k8s_openapi::ByteString(key.as_bytes().to_vec()))];
        secret.data = Some(data.into());
        hash_keys(&mut secret);
        Arc::new(secret)
    }

    #[test]
    fn a_key_is_found_in_the_namespaces_of_its_scope_only() {
        let (first, second) = ("sk-aaaaaaaaaaaaaaaaaaaaaaaa", "sk-bbbbbbbbbbbbbbbbbbbbbbbb");
        let table = KeyTable::new(&[
            secret("a", "one", &format!("{first}\n{second}\n")),
            secret("b", "two", first),
            secret("a", "zwei", second),
            secret("a", "short", "abc"),
        ]);
        let scope =
            |namespaces: &[&str]| KeyScope::new(namespaces.iter().map(|name| Namespace(*name).to_shared()));
        let name =
            |scope: &KeyScope, key: &str| table.find(scope, key.as_bytes()).map(|key| key.secret.to_string());
        assert_eq!(name(&scope(&["a"]), first).as_deref(), Some("a/one"));
        assert_eq!(
            name(&scope(&["a"]), second).as_deref(),
            Some("a/one"),
            "rotation: both keys of a Secret are valid"
        );
        assert_eq!(name(&scope(&["b"]), first).as_deref(), Some("b/two"));
        assert_eq!(name(&scope(&["b"]), second), None);
        assert_eq!(name(&scope(&["a"]), "abc"), None, "a Secret that cannot be read opens nothing");
        let refused: Vec<_> =
            table.refused.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        assert_eq!(
            refused,
            [
                "a/short: key 1 must have 16 to 512 visible ASCII characters, or 64 hexadecimal digits in `sha256`",
                "a/zwei: Secret a/one has the same key and comes first by name of those created together",
            ]
        );
        assert!(!format!("{table:?}").contains("sk-"));
    }

    #[test]
    fn of_two_secrets_with_a_key_the_older_one_is_used() {
        let key = "sk-aaaaaaaaaaaaaaaaaaaaaaaa";
        let created = |name: &str, time: &str| {
            let mut secret = Secret::clone(&secret("a", name, key));
            secret.metadata.creation_timestamp = Some(serde_json::from_value(json!(time)).unwrap());
            Arc::new(secret)
        };
        let table = KeyTable::new(&[
            created("late", "2026-01-02T00:00:00Z"),
            created("team", "2026-01-01T00:00:00Z"),
        ]);
        let refused: Vec<_> =
            table.refused.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        assert_eq!(refused, ["a/late: Secret a/team has the same key and is older"]);
    }
}
