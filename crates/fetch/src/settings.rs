//! The environment variables of the storage initializer, read once.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use longboat_download::{ALLOW_VARIABLE, IGNORE_VARIABLE, PATIENCE_VARIABLE};
use serde_json::Value;

use crate::{FetchError, filter::Filter, retry::RetryPolicy};

const STALL_TIMEOUT_SECONDS: u64 = 300;
/// The time that a host has for its first answer, if a person waits.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
const MAX_ATTEMPTS: u32 = 12;

/// The environment variables, after the storage spec was applied.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    variables: BTreeMap<String, String>,
    /// Whether the network must not be used for any source.
    offline: bool,
    /// The time that a host has for its first answer.
    first_answer: Option<Duration>,
}

// === impl Settings ===

impl Settings {
    /// The settings of this process.
    pub fn from_environment() -> Result<Self, FetchError> {
        Self::new(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    /// Creates the settings from these variables. `STORAGE_CONFIG` overrides them.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, FetchError> {
        let mut settings = Self { variables: variables.into_iter().collect(), ..Self::default() };
        settings.apply_storage_spec()?;
        Ok(settings)
    }

    /// Returns a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the same settings, with the network forbidden.
    #[must_use]
    pub fn offline(&self) -> Self {
        Self { offline: true, ..self.with("HF_HUB_OFFLINE", "1") }
    }

    /// Returns the same settings for a person who waits. A host that does not answer is then given up after a few seconds,
    /// unless a time limit is configured.
    #[must_use]
    pub fn attended(&self) -> Self {
        let first_answer =
            if self.get(PATIENCE_VARIABLE).is_some() { self.first_answer } else { Some(FIRST_ANSWER) };
        Self { first_answer, ..self.clone() }
    }

    /// Returns the same settings with one variable changed.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.variables.insert(name.to_owned(), value.to_owned());
        changed
    }

    /// Whether the network must not be used for any source.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline
    }

    /// Whether a switch is on: `1`, `on`, `yes` or `true` in any case.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| {
            ["1", "on", "yes", "true"].iter().any(|on| value.trim().eq_ignore_ascii_case(on))
        })
    }

    /// Whether a switch that is on by default is off: `0` or `false` in any case.
    pub(crate) fn is_off(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| {
            ["0", "off", "no", "false"].iter().any(|off| value.trim().eq_ignore_ascii_case(off))
        })
    }

    /// Reads a number of seconds, which may have a fraction.
    pub(crate) fn seconds(&self, name: &str, default: u64) -> Result<Duration, FetchError> {
        let Some(text) = self.get(name) else { return Ok(Duration::from_secs(default)) };
        let seconds = text.trim().parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
        seconds.map(Duration::from_secs_f64).ok_or_else(|| {
            FetchError::setting(name, format!("`{text}`: expected a number of seconds above 0"))
        })
    }

    /// Reads a count of at least 1.
    pub(crate) fn count(&self, name: &str, default: u32) -> Result<u32, FetchError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.trim()
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| FetchError::setting(name, format!("`{text}`: expected a number above 0")))
    }

    /// Returns the limits of retries.
    pub(crate) fn retry_policy(&self) -> Result<RetryPolicy, FetchError> {
        Ok(RetryPolicy {
            attempts: MAX_ATTEMPTS,
            time: self.seconds(PATIENCE_VARIABLE, STALL_TIMEOUT_SECONDS)?,
            first_answer: self.first_answer,
        })
    }

    /// Returns the patterns that select files.
    pub fn filter(&self) -> Filter {
        Filter::new(self.get(ALLOW_VARIABLE), self.get(IGNORE_VARIABLE))
    }

    /// Returns the path of the mounted certificate bundle for all sources.
    pub(crate) fn ca_bundle(&self) -> Option<PathBuf> {
        self.get("CA_BUNDLE_CONFIGMAP_NAME")?;
        let folder = self.get("CA_BUNDLE_VOLUME_MOUNT_POINT").unwrap_or("/etc/ssl/custom-certs");
        Some(PathBuf::from(folder).join("cabundle.crt"))
    }

    /// The folder for caches, by the XDG convention.
    pub(crate) fn cache_home(&self) -> Option<PathBuf> {
        let set = self.get("XDG_CACHE_HOME").map(PathBuf::from);
        set.or_else(|| Some(self.home()?.join(".cache")))
    }

    /// The user's home folder.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    fn apply_storage_spec(&mut self) -> Result<(), FetchError> {
        let mut spec = self.json_object("STORAGE_CONFIG")?;
        spec.extend(self.json_object("STORAGE_OVERRIDE_CONFIG")?);
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default();
        // An entry without a type says nothing about how to read it: the storage initializer of the reference ignores it.
        if kind.is_empty() {
            return Ok(());
        }
        if kind != "s3" {
            return Err(FetchError::setting(
                "STORAGE_CONFIG",
                format!("`type` is `{kind}`; only `s3` is supported"),
            ));
        }
        for (key, variable) in [
            ("endpoint_url", "AWS_ENDPOINT_URL"),
            ("access_key_id", "AWS_ACCESS_KEY_ID"),
            ("secret_access_key", "AWS_SECRET_ACCESS_KEY"),
            ("region", "AWS_DEFAULT_REGION"),
            ("ca_bundle", "AWS_CA_BUNDLE"),
            ("verify_ssl", "S3_VERIFY_SSL"),
            ("anonymous", "awsAnonymousCredential"),
        ] {
            let value = match spec.get(key) {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => text.clone(),
                Some(Value::Bool(on)) => on.to_string(),
                Some(Value::Number(number)) => number.to_string(),
                Some(_) => {
                    return Err(FetchError::setting(
                        "STORAGE_CONFIG",
                        format!("`{key}`: expected a string, true or false"),
                    ));
                }
            };
            self.variables.insert(variable.into(), value);
        }
        Ok(())
    }

    /// Reads a JSON object. Errors do not show the content, because it contains keys.
    fn json_object(&self, name: &str) -> Result<serde_json::Map<String, Value>, FetchError> {
        let Some(text) = self.get(name) else { return Ok(serde_json::Map::new()) };
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(FetchError::setting(name, "it is not a JSON object")),
            Err(error) => Err(FetchError::setting(
                name,
                format!("it is not valid JSON: line {}, column {}", error.line(), error.column()),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, FetchError> {
        Settings::new(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn the_storage_spec_overrides_the_environment_and_takes_booleans() {
        let made = settings(&[
            ("AWS_ENDPOINT_URL", "http://old"),
            ("STORAGE_CONFIG", r#"{"type":"s3","endpoint_url":"http://new","anonymous":true,"region":"a"}"#),
            ("STORAGE_OVERRIDE_CONFIG", r#"{"region":"b"}"#),
        ])
        .unwrap();
        assert_eq!(made.get("AWS_ENDPOINT_URL"), Some("http://new"));
        assert_eq!(made.get("AWS_DEFAULT_REGION"), Some("b"));
        assert!(made.is_on("awsAnonymousCredential"));
    }

    #[test]
    fn a_storage_spec_without_a_type_is_ignored() {
        let spec = r#"{"endpoint_url":"http://new","bucket":"models"}"#;
        let settings = settings(&[("AWS_ENDPOINT_URL", "http://old"), ("STORAGE_CONFIG", spec)]).unwrap();
        assert_eq!(settings.get("AWS_ENDPOINT_URL"), Some("http://old"));
    }

    #[test]
    fn broken_settings_are_named_and_not_shown() {
        let error = settings(&[("STORAGE_CONFIG", "s3cr3t")]).unwrap_err().to_string();
        assert!(error.contains("STORAGE_CONFIG") && !error.contains("s3cr3t"), "{error}");
        assert!(settings(&[("STORAGE_CONFIG", r#"{"type":"hdfs"}"#)]).is_err());
        let made = settings(&[("S3_MAX_ATTEMPTS", "x"), ("S3_READ_TIMEOUT", "-1")]).unwrap();
        assert!(made.count("S3_MAX_ATTEMPTS", 3).is_err());
        assert!(made.seconds("S3_READ_TIMEOUT", 3).is_err());
    }
}
