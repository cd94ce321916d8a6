//! What cannot be converted.

use serde_json::Value;

use super::Version;

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// Nothing is known of the version.
    #[error(
        "{object}: apiVersion `{api_version}` is not known; it must be serving.kserve.io/v1alpha1 or serving.kserve.io/v1alpha2"
    )]
    UnknownVersion {
        /// The object.
        object: String,
        /// Its `apiVersion`, or nothing.
        api_version: String,
    },
    /// Nothing is known of the version that is asked for.
    #[error(
        "version `{api_version}` is not known; it must be serving.kserve.io/v1alpha1 or serving.kserve.io/v1alpha2"
    )]
    UnknownTarget {
        /// What was asked for.
        api_version: String,
    },
    /// Nothing is known of the kind.
    #[error(
        "{object}: kind `{kind}` is not known; it must be LLMInferenceService or LLMInferenceServiceConfig"
    )]
    UnknownKind {
        /// The object.
        object: String,
        /// Its `kind`, or nothing.
        kind: String,
    },
    /// There is nothing to convert, and whoever asks for it is mistaken about something.
    #[error("{object}: apiVersion is {version} already")]
    SameVersion {
        /// The object.
        object: String,
        /// Its version.
        version: Version,
    },
    /// What the version cannot express has no place, as something else than annotations is there.
    #[error("{object}: {path} must be a map")]
    NotAMap {
        /// The object.
        object: String,
        /// Where.
        path: &'static str,
    },
}

/// An object as errors name it: `LLMInferenceService ns/name`.
pub(super) fn describe(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata");
    let part = |name: &str| text(metadata.and_then(|metadata| metadata.get(name)));
    let kind = match text(object.get("kind")) {
        kind if kind.is_empty() => "object".to_owned(),
        kind => kind,
    };
    match (part("namespace"), part("name")) {
        (_, name) if name.is_empty() => format!("{kind} without a name"),
        (namespace, name) if namespace.is_empty() => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}
