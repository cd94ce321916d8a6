//! Objects in requests: decoding, checks of kind and version, unknown fields.

use std::fmt::Write as _;

use serde_json::Value;

use super::Call;
use crate::{
    depth,
    kinds::{Resource, registry::split_api_version},
    limits, patching, protobuf,
    request::{
        accept::OBJECTS,
        decode::{self, Document},
        query::FieldValidation,
    },
    status::{ApiError, Cause, StatusDetails},
    strategy,
};

const ACCEPTED_CUSTOM: &str = "application/json, application/yaml";

/// Decodes the body as an object of the call's resource (or of `resource`, for subresources of another kind).
pub(crate) fn object(call: &mut Call<'_>, options_kind: &str) -> Result<Value, ApiError> {
    let resource = std::sync::Arc::clone(&call.resource);
    let validation = FieldValidation::of(&call.request.query, options_kind)?;
    let manager = patching::check_manager(call.request.query.get("fieldManager").unwrap_or_default());
    if !manager.is_empty() {
        let about = StatusDetails { group: "meta.k8s.io", kind: options_kind, name: "" };
        return Err(ApiError::invalid(about, &manager));
    }
    let document = document(call, &resource)?;
    let value = identify(&resource, document.value, &call.request.body)?;
    normalise(call, &resource, value, document.duplicates, validation)
}

/// Decodes the body according to its media type.
pub(crate) fn document(call: &Call<'_>, resource: &Resource) -> Result<Document, ApiError> {
    let body = &call.request.body;
    let unrecognised = |why: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            resource.kind,
            excerpt(body)
        ))
    };
    match call.request.content_type().as_str() {
        "" | "application/json" => {
            let document = decode::json(body)
                .map_err(|why| unrecognised(format!("couldn't get version/kind; json parse error: {why}")))?;
            match not_an_object(&document.value) {
                None => Ok(document),
                Some(wrong) => {
                    Err(unrecognised(format!("couldn't get version/kind; json parse error: {wrong}")))
                }
            }
        }
        "application/yaml" => decode::yaml(body).map_err(unrecognised),
        "application/vnd.kubernetes.protobuf" if resource.custom().is_none() => {
            let value =
                protobuf::decode(body, &resource.api_version(), &resource.kind).map_err(
                    |error| match error.kind {
                        None => unrecognised(error.why),
                        Some((api_version, kind)) => ApiError::bad_request(format!(
                            "{kind} in version \"{}\" cannot be handled as a {}: {}",
                            split_api_version(&api_version).1,
                            resource.kind,
                            error.why
                        )),
                    },
                )?;
            depth::check(&value).map_err(|error| ApiError::bad_request(error.to_string()))?;
            Ok(Document { value, duplicates: Vec::new() })
        }
        _ if resource.custom().is_some() => Err(ApiError::unsupported_media_type(ACCEPTED_CUSTOM)),
        _ => Err(ApiError::unsupported_media_type(OBJECTS)),
    }
}

/// If a document is not an object, returns why Go's decoder finds no kind and version in it.
pub(crate) fn not_an_object(value: &Value) -> Option<String> {
    if value.is_object() || value.is_null() {
        return None;
    }
    Some(format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        longboat_schema::go_type(value)
    ))
}

/// Checks that `apiVersion` and `kind` are those of the resource. Built-in kinds may omit both.
pub(crate) fn identify(resource: &Resource, mut value: Value, body: &[u8]) -> Result<Value, ApiError> {
    if value.is_null() {
        value = Value::Object(serde_json::Map::new());
    }
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    let api_version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
    let expected = resource.api_version();
    if resource.custom().is_some() {
        for (given, name) in [(&kind, "Kind"), (&api_version, "apiVersion")] {
            if given.is_empty() {
                let text = String::from_utf8_lossy(body);
                return Err(ApiError::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): Object '{name}' is missing in '{}' ({})",
                    resource.kind,
                    text.trim(),
                    excerpt(body)
                )));
            }
        }
        if api_version != expected {
            return Err(wrong_version(&api_version, &expected));
        }
        if kind != resource.kind {
            let about = crate::status::StatusDetails {
                group: &resource.group,
                kind: &kind,
                name: value["metadata"]["name"].as_str().unwrap_or_default(),
            };
            return Err(ApiError::invalid(
                about,
                &[Cause::invalid("kind", &Value::from(kind.as_str()), format!("must be {}", resource.kind))],
            ));
        }
        return Ok(value);
    }
    if api_version.matches('/').count() > 1 {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): unexpected GroupVersion string: {api_version} ({})",
            resource.kind,
            excerpt(body)
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        let version = if api_version.is_empty() { &expected } else { &api_version };
        let (_, short) = split_api_version(version);
        let item = kind.strip_suffix("List").unwrap_or(&kind);
        if longboat_types::type_of_kind(version, item).is_none() {
            return Err(ApiError::bad_request(format!(
                "{kind} in version \"{short}\" cannot be handled as a {}: no kind \"{kind}\" is registered for version \
                 \"{version}\" in scheme \"pkg/runtime/scheme.go:110\"",
                resource.kind
            )));
        }
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"{short}\" cannot be handled as a {}: converting ({short}.{kind}) to (core.{}): unknown \
             conversion",
            resource.kind, resource.kind
        )));
    }
    if !api_version.is_empty() && api_version != expected {
        let (group, version) = split_api_version(&api_version);
        // a kind that the group never had fails to decode; another version in the same group decodes, but does not match
        if group != resource.group || group.is_empty() {
            return Err(ApiError::bad_request(format!(
                "{} in version \"{version}\" cannot be handled as a {}: no kind \"{}\" is registered for version \
                 \"{api_version}\" in scheme \"pkg/runtime/scheme.go:110\"",
                resource.kind, resource.kind, resource.kind
            )));
        }
        return Err(wrong_version(&api_version, &expected));
    }
    value["kind"] = Value::from(resource.kind.as_str());
    value["apiVersion"] = Value::from(expected);
    Ok(value)
}

fn wrong_version(given: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Does what decoding into a typed Go object would do: checks types, reports unknown and duplicate fields, fills in
/// defaults.
pub(crate) fn normalise(
    call: &mut Call<'_>,
    resource: &Resource,
    mut value: Value,
    duplicates: Vec<String>,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let mistyped = match resource.custom() {
        Some(custom) => custom.schema.coerce_metadata(&mut value),
        None => strategy::fields::mistyped_builtin_field(resource, &value),
    };
    if let Some(why) = mistyped {
        return Err(unreadable(resource, &why));
    }
    let mut problems: Vec<String> = duplicates
        .into_iter()
        .map(|path| if path.starts_with("yaml: ") { path } else { format!("duplicate field \"{path}\"") })
        .collect();
    let unknown = strategy::prune(resource, &mut value);
    problems.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
    validation.report(problems, &mut call.warnings).map_err(|why| unreadable(resource, &why))?;
    strategy::default(resource, &mut value);
    limits::refuse_large(&value)?;
    Ok(value)
}

fn unreadable(resource: &Resource, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        resource.kind, resource.version, resource.kind
    ))
}

/// Returns the start of a body as kube-apiserver shows it: as text if it is printable JSON, else in hexadecimal.
fn excerpt(body: &[u8]) -> String {
    const MAX_EXCERPT_BYTES: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let (head, more) =
        if body.len() > MAX_EXCERPT_BYTES { (&body[..MAX_EXCERPT_BYTES], " ...") } else { (body, "") };
    match std::str::from_utf8(head) {
        Ok(text) if body.first() == Some(&b'{') => format!("{text}{more}"),
        _ => {
            let mut hex = String::with_capacity(2 * head.len());
            for byte in head {
                // writing to a String cannot fail
                let _ = write!(hex, "{byte:02x}");
            }
            format!("{hex}{more}")
        }
    }
}
