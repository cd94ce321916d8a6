//! A section of the settings: the JSON under a key of the ConfigMap.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The type of the section `longboat`, in errors.
pub(super) const LONGBOAT: &str = "LongboatConfig";

/// An error in the settings, with upstream's text. If several quantities are invalid, the text names the first one in the
/// order of the documentation; upstream names a random one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// The ConfigMap does not exist.
    #[error("failed to load ingress config: configmaps \"{name}\" not found")]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// The value of a key is invalid.
    #[error(
        "failed to load ingress config: failed to convert InferenceServiceConfigMap to {target}: {problem}"
    )]
    Invalid {
        /// The type that the value is parsed into.
        target: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// The types that the keys of the ConfigMap are parsed into, as errors name them.
const SECTION_TYPES: [(&str, &str); 7] = [
    ("IngressConfig", "ingress"),
    ("StorageInitializerConfig", "storageInitializer"),
    ("CredentialConfig", "credentials"),
    ("SchedulerConfig", "scheduler"),
    ("LocalModelConfig", "localModel"),
    ("WVAControllerConfig", "autoscaling-wva-controller-config"),
    (LONGBOAT, "longboat"),
];

impl PlatformError {
    /// The key of the ConfigMap whose value is wrong.
    pub fn section(&self) -> Option<&'static str> {
        let Self::Invalid { target, .. } = self else { return None };
        SECTION_TYPES.iter().find(|(name, _)| name == target).map(|(_, section)| *section)
    }
}

/// Parses the JSON of a key. Returns `None` if the key is absent.
pub(super) fn section<T: for<'de> Deserialize<'de>>(
    data: &BTreeMap<String, String>,
    key: &str,
) -> Result<Option<T>, PlatformError> {
    let Some(text) = data.get(key) else { return Ok(None) };
    serde_json::from_str(text).map(Some).map_err(|e| PlatformError::Invalid {
        target: SECTION_TYPES.iter().find(|(_, section)| *section == key).map_or("", |(name, _)| name),
        problem: format!("unable to parse \"{key}\" in the ConfigMap as JSON: {e}"),
    })
}
