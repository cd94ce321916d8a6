//! Conversion between the versions of both kinds, in place on JSON.
//!
//! Conversions get whole objects, but also parts of objects: server-side apply converts the remainder of an object after the
//! fields of a manager were removed. So this code does not expect parents, list items or types: a missing field stays
//! missing, and a value of a wrong type is copied, so that the schema refuses it.
//!
//! The fields that `v1alpha1` lacks are kept there as annotations (those of the spec begin with [`KEPT_PREFIX`]; that of the
//! status is [`KEPT_STATUS`] in `status.annotations`, so that replacing an object does not lose its status). The conversion
//! to `v1alpha2` puts them back. They are never visible in `v1alpha2`. Fields are only put back under parents that still
//! exist, and into list items with the same name. Annotations with other text are ignored.
//!
//! `v1alpha2` → `v1alpha1` → `v1alpha2` gives back the object. The exceptions are those of KServe's conversion: entries of
//! [`LORA_CRITICALITIES`] that name no adapter are dropped, and a pool gets the defaults that its schema would give it
//! (`kind`, `failureMode`, `appProtocol`). `v1alpha1` → `v1alpha2` → `v1alpha1` additionally fills in the port of a picker
//! that is a Service (9002), drops an empty `criticality`, and drops a `status.router`, which never was converted. URIs stay
//! as they are written.

mod criticality;
mod error;
mod fields;
mod kept;
mod pool;
mod status;
mod version;

use serde_json::Value;

pub use criticality::{LORA_CRITICALITIES, MODEL_CRITICALITY};
pub use error::ConversionError;
pub use kept::KEPT_PREFIX;
pub use status::KEPT_STATUS;
pub use version::Version;

use fields::{Fields, annotations};

/// Converts an LLMInferenceService or LLMInferenceServiceConfig, or a part of one, to `target`.
///
/// # Errors
///
/// If the object has another kind, an unknown version, or already the version `target`; or if there is no place for
/// annotations because another value is there. The object is unusable after an error.
pub fn convert(object: &mut Value, target: Version) -> Result<(), ConversionError> {
    let from = version_of(object)?;
    if from == target {
        return Err(ConversionError::SameVersion { object: error::describe(object), version: target });
    }
    let converted = object.as_object_mut().map_or(Ok(()), |fields| match target {
        Version::V1Alpha1 => down(fields),
        Version::V1Alpha2 => up(fields),
    });
    converted.map_err(|path| ConversionError::NotAMap { object: error::describe(object), path })?;
    object["apiVersion"] = Value::from(target.api_version());
    Ok(())
}

/// Like [`convert`], to the version of an `apiVersion`.
///
/// # Errors
///
/// If the version is unknown, and as [`convert`].
pub fn convert_to(object: &mut Value, api_version: &str) -> Result<(), ConversionError> {
    let target = Version::of_api_version(api_version)
        .ok_or_else(|| ConversionError::UnknownTarget { api_version: api_version.to_owned() })?;
    convert(object, target)
}

/// Returns the version of an object of one of Longboat's kinds.
fn version_of(object: &Value) -> Result<Version, ConversionError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let Some(version) = Version::of_api_version(text("apiVersion")) else {
        return Err(ConversionError::UnknownVersion {
            object: error::describe(object),
            api_version: text("apiVersion").to_owned(),
        });
    };
    match text("kind") {
        "LLMInferenceService" | "LLMInferenceServiceConfig" => Ok(version),
        kind => Err(ConversionError::UnknownKind { object: error::describe(object), kind: kind.to_owned() }),
    }
}

/// Converts `v1alpha2` to `v1alpha1`. The error is the path of a value that must be a map.
fn down(object: &mut Fields) -> Result<(), &'static str> {
    // The keys belong to the conversion, so they have no meaning in a v1alpha2 object.
    take_kept(object);
    let criticalities = criticality::take_by_position(object);
    let kept = match object.get_mut("spec") {
        Some(Value::Object(spec)) => kept::take(spec, &criticalities),
        _ => Fields::new(),
    };
    criticality::restore(object, &criticalities);
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status::down(status)?;
    }
    let kept = kept::write(&kept);
    if !kept.is_empty() {
        annotations(object)?.extend(kept);
    }
    Ok(())
}

/// Converts `v1alpha1` to `v1alpha2`. The error is the path of a value that must be a map.
fn up(object: &mut Fields) -> Result<(), &'static str> {
    let kept = kept::read(take_kept(object));
    criticality::move_to_annotations(object)?;
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        kept::put_back(spec, kept);
    }
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status::up(status);
    }
    Ok(())
}

/// Removes and returns the annotations that keep fields in an object's metadata. Removes an empty map, too.
fn take_kept(object: &mut Fields) -> Fields {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return Fields::new() };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return Fields::new() };
    if !annotations.keys().any(|key| key.starts_with(KEPT_PREFIX)) {
        return Fields::new();
    }
    let (kept, others) =
        std::mem::take(annotations).into_iter().partition(|(key, _)| key.starts_with(KEPT_PREFIX));
    *annotations = others;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    kept
}
