//! Where an engine has the API key that its requests need: a flag, or vLLM's variable.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, SecretKeySelector};

use super::VLLM;

/// The flag of vLLM, SGLang and llama.cpp.
const FLAG: &str = "--api-key";
/// The variable that counts without the flag.
const VARIABLE: &str = "VLLM_API_KEY";
/// The most variables on the way to a key, each of which refers to the next.
const MAX_REFERENCES: usize = 4;

/// Where a container has the key of its engine.
#[derive(Clone, PartialEq, Eq)]
pub enum EngineKey {
    /// The key itself, in the manifest.
    Text(String),
    /// An entry of a Secret.
    Secret {
        /// The name of the Secret.
        name: String,
        /// The name of the entry.
        entry: String,
    },
    /// Another place, such as a ConfigMap, or a variable that the container does not set.
    Elsewhere,
}

// === impl EngineKey ===

/// Shows no key.
impl fmt::Debug for EngineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::Secret { name, entry } => write!(f, "Secret {name}, entry {entry}"),
            Self::Elsewhere => f.write_str("Elsewhere"),
        }
    }
}

impl EngineKey {
    /// Returns where the engine of a container has its key, or `None` if it asks for none. Of several keys, it is the first one.
    pub fn of(container: &Container) -> Option<Self> {
        let key = match flag_value(container) {
            Some(value) => Self::of_text(container, value),
            None => Self::of_variable(container, variable(container, VARIABLE)?, MAX_REFERENCES),
        };
        let is_none = matches!(&key, Self::Text(text) if text.is_empty() || text == "None");
        (!is_none).then_some(key)
    }

    /// Returns a variable with this name that gives another container the same key, unless the key is elsewhere.
    pub fn variable(&self, name: &str) -> Option<EnvVar> {
        let name = name.to_owned();
        match self {
            Self::Text(text) => Some(EnvVar { name, value: Some(text.clone()), value_from: None }),
            Self::Secret { name: secret, entry } => {
                let entry = SecretKeySelector { name: secret.clone(), key: entry.clone(), optional: None };
                let source = EnvVarSource { secret_key_ref: Some(entry), ..EnvVarSource::default() };
                Some(EnvVar { name, value: None, value_from: Some(source) })
            }
            Self::Elsewhere => None,
        }
    }

    fn of_text(container: &Container, text: String) -> Self {
        let Some(name) = reference(&text) else { return Self::Text(text) };
        match variable(container, name) {
            Some(found) => Self::of_variable(container, found, MAX_REFERENCES),
            None => Self::of_whole_secret(container, name),
        }
    }

    fn of_variable(container: &Container, found: &EnvVar, references: usize) -> Self {
        let secret = found.value_from.as_ref().and_then(|source| source.secret_key_ref.as_ref());
        match (&found.value, secret) {
            (_, Some(secret)) => Self::Secret { name: secret.name.clone(), entry: secret.key.clone() },
            (Some(text), None) => match reference(text).map(|name| variable(container, name)) {
                None => Self::Text(text.clone()),
                Some(Some(next)) if references > 0 => Self::of_variable(container, next, references - 1),
                Some(_) => Self::Elsewhere,
            },
            (None, None) if found.value_from.is_none() => Self::Text(String::new()),
            (None, None) => Self::Elsewhere,
        }
    }

    /// A variable from a Secret of which all entries are variables, if there is one such Secret only.
    fn of_whole_secret(container: &Container, name: &str) -> Self {
        let mut sources = container.env_from.iter().flatten();
        let (Some(source), None) = (sources.next(), sources.next()) else { return Self::Elsewhere };
        let entry = name.strip_prefix(source.prefix.as_deref().unwrap_or_default());
        match (&source.secret_ref, entry) {
            (Some(secret), Some(entry)) => {
                Self::Secret { name: secret.name.clone(), entry: entry.to_owned() }
            }
            _ => Self::Elsewhere,
        }
    }
}

/// The variable of a container with this name. Of several, the last one counts.
fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a EnvVar> {
    container.env.iter().flatten().rfind(|variable| variable.name == name)
}

/// The name of the variable if a text is a reference to one, for the kubelet or for a shell.
fn reference(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('$')?;
    let bare = |open, close| inner.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
    Some(bare('(', ')').or_else(|| bare('{', '}')).unwrap_or(inner))
}

/// The first value of the flag, in the arguments or in a script.
fn flag_value(container: &Container) -> Option<String> {
    let variables = container.env.iter().flatten();
    let added = variables.filter(|variable| Some(variable.name.as_str()) == VLLM.arguments);
    let added = added.filter_map(|variable| variable.value.as_ref());
    let items = container.command.iter().chain(&container.args).flatten().chain(added);
    // A script may have the flag between other words, and a YAML list has one word in each item.
    let mut words = items.flat_map(|item| item.split_ascii_whitespace()).map(unquoted);
    while let Some(word) = words.next() {
        let word = word.replace("--api_key", FLAG);
        if word == FLAG {
            return Some(
                words.next().filter(|value| !value.starts_with("--")).unwrap_or_default().to_owned(),
            );
        }
        if let Some(value) = word.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('=')) {
            return Some(unquoted(value).to_owned());
        }
    }
    None
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(fields: Value) -> Container {
        let mut fields = fields;
        fields["name"] = "main".into();
        serde_json::from_value(fields).unwrap()
    }

    fn secret(name: &str, entry: &str) -> EngineKey {
        EngineKey::Secret { name: name.into(), entry: entry.into() }
    }

    #[test]
    fn the_key_is_found_where_manifests_have_it() {
        let env = json!([
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "llm"}}},
            {"name": "AGAIN", "value": "$(KEY)"},
            {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "llm"}}},
            {"name": "LOOP", "value": "$(LOOP)"},
        ]);
        let text = |text: &str| Some(EngineKey::Text(text.into()));
        for (args, expected) in [
            (json!(["--port", "8000"]), None),
            (json!(["--api-key", "$(KEY)", "--port", "8000"]), Some(secret("keys", "llm"))),
            (json!(["--api_key=$(AGAIN)"]), Some(secret("keys", "llm"))),
            (json!(["vllm serve /mnt/models --api-key \"${KEY}\" --port 8000"]), Some(secret("keys", "llm"))),
            (json!(["--api-key", "one", "two"]), text("one")),
            (json!(["--api-key=''"]), None),
            (json!(["--api-key", "$(MAP)"]), Some(EngineKey::Elsewhere)),
            (json!(["--api-key", "$(LOOP)"]), Some(EngineKey::Elsewhere)),
            (json!(["--api-key", "$(NONE)"]), Some(EngineKey::Elsewhere)),
        ] {
            assert_eq!(EngineKey::of(&container(json!({"args": args, "env": env}))), expected, "{args}");
        }
        let whole = json!({"args": ["--api-key", "$(A_KEY)"], "envFrom": [{"prefix": "A_", "secretRef": {"name": "s"}}]});
        assert_eq!(EngineKey::of(&container(whole)), Some(secret("s", "KEY")));
        let added = json!({"env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--api-key 'sk-1'"}]});
        assert_eq!(EngineKey::of(&container(added)), text("sk-1"));
        let variable = json!({"env": [{"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "k", "key": "e"}}}]});
        assert_eq!(EngineKey::of(&container(variable)), Some(secret("k", "e")));
        assert!(!format!("{:?}", EngineKey::Text("sk-1".into())).contains("sk-1"));
    }

    #[test]
    fn another_container_gets_the_key_from_the_same_place() {
        let found = secret("keys", "llm").variable("OTHER");
        let source = json!({"secretKeyRef": {"name": "keys", "key": "llm"}});
        assert_eq!(json!(found), json!({"name": "OTHER", "valueFrom": source}));
        let found = EngineKey::Text("a".into()).variable("OTHER");
        assert_eq!(json!(found), json!({"name": "OTHER", "value": "a"}));
        assert_eq!(EngineKey::Elsewhere.variable("OTHER"), None);
    }
}
