//! Errors of conversions.

use serde_json::Value;

use super::version::Version;

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// The object's version is unknown.
    #[error(
        "{object}: apiVersion `{api_version}` is not known; it must be serving.kserve.io/v1alpha1 or serving.kserve.io/v1alpha2"
    )]
    UnknownVersion {
        /// The object.
        object: String,
        /// Its `apiVersion`; may be empty.
        api_version: String,
    },
    /// The target version is unknown.
    #[error(
        "version `{api_version}` is not known; it must be serving.kserve.io/v1alpha1 or serving.kserve.io/v1alpha2"
    )]
    UnknownTarget {
        /// The target.
        api_version: String,
    },
    /// The object's kind is unknown.
    #[error(
        "{object}: kind `{kind}` is not known; it must be LLMInferenceService or LLMInferenceServiceConfig"
    )]
    UnknownKind {
        /// The object.
        object: String,
        /// Its `kind`; may be empty.
        kind: String,
    },
    /// The object already has the target version, so the caller has made a mistake.
    #[error("{object}: apiVersion is {version} already")]
    SameVersion {
        /// The object.
        object: String,
        /// Its version.
        version: Version,
    },
    /// There is no place for fields that the target version does not have, because another value is where their annotations
    /// would be.
    #[error("{object}: {path} must be a map")]
    NotAMap {
        /// The object.
        object: String,
        /// The path of that value.
        path: &'static str,
    },
}

/// Returns an object's name for errors: `LLMInferenceService ns/name`.
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
