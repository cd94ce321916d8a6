//! Credentials for registries: the files of image pull secrets, and the challenges of registries.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::{FetchError, settings::Settings};

const VARIABLE: &str = "KSERVE_OCI_DOCKER_CONFIG";
const DEFAULT: &str = "/mnt/oci-fetch-auth/config.json";

/// Credentials for a registry.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// A user and a password.
    User { name: String, password: String },
    /// An identity token, which is exchanged for access tokens.
    Identity(String),
}

/// The authentication that a registry requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// User and password.
    Basic,
    /// A token from the server at this address.
    Bearer {
        /// The address of the token server.
        realm: String,
        /// The service that tokens are for.
        service: Option<String>,
        /// The scope of tokens.
        scope: Option<String>,
    },
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

/// Returns the login for a repository of a registry. The setting is a comma-separated list of files. The first file with a
/// login counts, and in it the longest matching key.
pub(super) fn login(settings: &Settings, host: &str, repository: &str) -> Result<Option<Login>, FetchError> {
    let set = settings.get(VARIABLE);
    for file in set.unwrap_or(DEFAULT).split(',').map(|file| PathBuf::from(file.trim())) {
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(_) if set.is_none() => continue,
            Err(error) => {
                let why = format!("cannot read `{}`: {error}", file.display());
                return Err(FetchError::setting(VARIABLE, why));
            }
        };
        let config: Config = serde_json::from_slice(&text).map_err(|_| {
            FetchError::setting(
                VARIABLE,
                format!("`{}` is not a Docker config: expected a JSON object with `auths`", file.display()),
            )
        })?;
        if let Some(login) = config.find(host, repository) {
            return Ok(Some(login));
        }
    }
    Ok(None)
}

// === impl Config ===

impl Config {
    fn find(&self, host: &str, repository: &str) -> Option<Login> {
        let name = if is_docker_hub(host) { "docker.io" } else { host };
        let full = format!("{name}/{repository}");
        let fits = |key: &str| {
            let key = key.split_once("://").map_or(key, |(_, rest)| rest);
            let key = key.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/v2");
            let (registry, path) = key.split_once('/').unwrap_or((key, ""));
            let registry = if is_docker_hub(registry) { "docker.io" } else { registry };
            let key = if path.is_empty() { registry.to_owned() } else { format!("{registry}/{path}") };
            let plain_host = name.split_once(':').map(|(host, _)| host);
            let is_prefix = full == key || full.strip_prefix(&key).is_some_and(|rest| rest.starts_with('/'));
            (is_prefix || Some(key.as_str()) == plain_host).then_some(key.len())
        };
        let mut found: Vec<(usize, &Entry)> =
            self.auths.iter().filter_map(|(key, entry)| Some((fits(key)?, entry))).collect();
        found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        found.into_iter().find_map(|(_, entry)| entry.login())
    }
}

fn is_docker_hub(host: &str) -> bool {
    matches!(host, "docker.io" | "index.docker.io" | "registry-1.docker.io")
}

// === impl Entry ===

impl Entry {
    fn login(&self) -> Option<Login> {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = set(&self.identitytoken).or_else(|| set(&self.registrytoken)) {
            return Some(Login::Identity(token));
        }
        if let (Some(name), Some(password)) = (set(&self.username), set(&self.password)) {
            return Some(Login::User { name, password });
        }
        let decoded = STANDARD.decode(set(&self.auth)?.trim()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        let (name, password) = text.trim_end_matches('\0').split_once(':')?;
        Some(Login::User { name: name.to_owned(), password: password.to_owned() })
    }
}

// === impl Login ===

impl Login {
    /// Returns the header for basic authentication.
    pub(super) fn basic(&self) -> Option<String> {
        let Self::User { name, password } = self else { return None };
        Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
    }
}

// === impl Challenge ===

impl Challenge {
    /// Reads a `WWW-Authenticate` header.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut values = BTreeMap::new();
        let mut rest = rest.trim();
        while let Some((name, after)) = rest.split_once('=') {
            let (value, after) = match after.strip_prefix('"') {
                Some(after) => after.split_once('"')?,
                None => after.split_at(after.find(',').unwrap_or(after.len())),
            };
            values.insert(name.trim().to_ascii_lowercase(), value.to_owned());
            rest = after.trim_start_matches([',', ' ']);
        }
        let realm = values.remove("realm")?;
        Some(Self::Bearer { realm, service: values.remove("service"), scope: values.remove("scope") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(
            Challenge::parse(r#"Bearer realm="https://a/t?x=1",service=r, scope="repository:o/m:pull,push""#),
            Some(Challenge::Bearer {
                realm: "https://a/t?x=1".into(),
                service: Some("r".into()),
                scope: Some("repository:o/m:pull,push".into()),
            })
        );
        for wrong in ["", "Bearer", "Digest realm=x", "Bearer realm=\"x"] {
            assert_eq!(Challenge::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_first_of_several_files_that_knows_the_registry_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, auths: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!(r#"{{"auths":{{{auths}}}}}"#)).unwrap();
            path.display().to_string()
        };
        let files = [
            file("one", r#""other":{"username":"x","password":"p"}"#),
            file("two", r#""r":{"username":"a","password":"p"}"#),
            file("three", r#""r":{"username":"b","password":"p"}"#),
        ];
        let settings = |value: String| Settings::new([(VARIABLE.to_owned(), value)]).unwrap();
        let found = login(&settings(files.join(", ")), "r", "m").unwrap();
        assert!(found == Some(Login::User { name: "a".into(), password: "p".into() }));
        assert!(login(&settings(files[0].clone()), "r", "m").unwrap().is_none());
        assert!(login(&settings(format!("{},/nowhere", files[0])), "r", "m").is_err());
    }

    #[test]
    fn every_form_of_a_docker_config_is_understood() {
        let user = |name: &str| Some(Login::User { name: name.into(), password: "p".into() });
        let auth = STANDARD.encode("a:p");
        for (key, host) in [
            ("r:5000", "r:5000"),
            ("https://r:5000", "r:5000"),
            ("https://r:5000/v2/", "r:5000"),
            ("r", "r:5000"),
            ("https://index.docker.io/v1/", "docker.io"),
            ("docker.io", "registry-1.docker.io"),
            ("r:5000/org", "r:5000"),
        ] {
            let text = format!(r#"{{"auths":{{"{key}":{{"auth":"{auth}"}}}}}}"#);
            let config: Config = serde_json::from_str(&text).unwrap();
            assert!(config.find(host, "org/m") == user("a"), "{key} {host}");
            assert!(config.find("other", "org/m").is_none());
        }
        let text = r#"{"auths":{"r":{"username":"b","password":"p"},"r/org/m":{"username":"c","password":"p"},
            "i":{"identitytoken":"t"}}}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert!(config.find("r", "org/m") == user("c") && config.find("r", "org/n") == user("b"));
        assert!(config.find("i", "x") == Some(Login::Identity("t".into())));
    }
}
