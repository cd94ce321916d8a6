//! Answers with objects and lists: shape, encoding, compression.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, header};
use serde_json::{Value, json};

use crate::{
    answer::{self, Answer},
    form::{self, RequestedObject},
    kinds::Resource,
    request::{
        Request,
        accept::{Encoding, Form, Shape},
    },
    status::ApiError,
    tables,
};

/// The smallest body to compress, as in kube-apiserver.
const GZIP_FROM: usize = 128 * 1024;

/// The content of a list answer.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) revision: u64,
    pub(crate) items: Vec<RequestedObject>,
    pub(crate) continues: Option<String>,
    pub(crate) remaining: Option<usize>,
}

/// Answers with one object.
pub(crate) fn object(
    request: &Request,
    resource: &Resource,
    code: u16,
    shown: &RequestedObject,
) -> Result<Answer, ApiError> {
    let form = request.accept.object(pretty(request))?;
    let body = match &form.shape {
        Shape::Itself | Shape::Discovery(_) => return Ok(itself(request, code, shown, form.encoding)),
        Shape::Table(version) => {
            let mut table = tables::render(resource, std::slice::from_ref(shown), include_object(request)?);
            table["apiVersion"] = Value::from(format!("meta.k8s.io/{version}"));
            table["metadata"] = json!({"resourceVersion": shown.value()["metadata"]["resourceVersion"]});
            table
        }
        Shape::Partial(version) => form::partial(shown.value(), version),
        Shape::PartialList(_) => {
            return Err(ApiError::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    go_type(resource, "")
                ),
            ));
        }
    };
    Ok(answer::value(code, &body, form.encoding))
}

/// Answers with a document that has no table form: a Status, a review, a Scale.
pub(crate) fn document(request: &Request, code: u16, value: &Value) -> Answer {
    let form = request
        .accept
        .object(pretty(request))
        .unwrap_or(Form { encoding: Encoding::Json, shape: Shape::Itself });
    answer::value(code, value, form.encoding)
}

fn itself(request: &Request, code: u16, shown: &RequestedObject, encoding: Encoding) -> Answer {
    if encoding != Encoding::Json {
        return answer::value(code, shown.value(), encoding);
    }
    let mut body = Vec::new();
    shown.write(&mut body);
    body.push(b'\n');
    compressed(request, code, body)
}

/// Answers with a list.
pub(crate) fn list(request: &Request, resource: &Resource, listing: &Listing) -> Result<Answer, ApiError> {
    let form = request.accept.object(pretty(request))?;
    let mut metadata = json!({"resourceVersion": listing.revision.to_string()});
    if resource.custom().is_some() && form.shape == Shape::Itself {
        metadata["continue"] = Value::from("");
    }
    if let Some(token) = &listing.continues {
        metadata["continue"] = Value::from(token.as_str());
    }
    if let Some(remaining) = listing.remaining {
        metadata["remainingItemCount"] = Value::from(remaining);
    }
    let body = match &form.shape {
        Shape::Itself | Shape::Discovery(_) => {
            if form.encoding == Encoding::Json {
                return Ok(compressed(request, 200, json_list(resource, listing, &metadata)));
            }
            let items: Vec<Value> = listing.items.iter().map(|shown| list_item(resource, shown)).collect();
            json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata,
                "items": items})
        }
        Shape::Table(version) => {
            let mut table = tables::render(resource, &listing.items, include_object(request)?);
            table["apiVersion"] = Value::from(format!("meta.k8s.io/{version}"));
            table["metadata"] = metadata;
            table
        }
        Shape::PartialList(version) => {
            let items: Vec<Value> = listing.items.iter().map(|s| form::partial(s.value(), version)).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": metadata, "items": items})
        }
        Shape::Partial(_) => {
            return Err(ApiError::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({})",
                    go_type(resource, "List")
                ),
            ));
        }
    };
    Ok(answer::value(200, &body, form.encoding))
}

fn json_list(resource: &Resource, listing: &Listing, metadata: &Value) -> Vec<u8> {
    let mut body = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        Value::from(resource.list_kind.as_str()),
        Value::from(resource.api_version())
    )
    .into_bytes();
    for (index, shown) in listing.items.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        if resource.custom().is_some() {
            shown.write(&mut body);
        } else {
            shown.write_bare(&mut body);
        }
    }
    body.extend_from_slice(b"]}\n");
    body
}

fn list_item(resource: &Resource, shown: &RequestedObject) -> Value {
    let mut item = shown.value().clone();
    if resource.custom().is_none()
        && let Some(fields) = item.as_object_mut()
    {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

/// Reads what each row of a table carries: `None`, `Metadata` or `Object`.
pub(crate) fn include_object(request: &Request) -> Result<tables::Include, ApiError> {
    match request.query.get("includeObject") {
        None | Some("" | "Metadata") => Ok(tables::Include::Metadata),
        Some("None") => Ok(tables::Include::Nothing),
        Some("Object") => Ok(tables::Include::Object),
        Some(other) => Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
             'Object', 'None', or empty"
        ))),
    }
}

pub(crate) fn pretty(request: &Request) -> bool {
    request.query.get("pretty").is_some_and(|p| p == "true" || p == "1")
}

fn go_type(resource: &Resource, suffix: &str) -> String {
    if resource.custom().is_some() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let package = match resource.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("*{package}.{}{suffix}", resource.kind)
}

/// Compresses large bodies for clients that accept gzip.
fn compressed(request: &Request, code: u16, body: Vec<u8>) -> Answer {
    if body.len() < GZIP_FROM || !takes_gzip(request) {
        return answer::bytes(code, "application/json", body);
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    let packed = encoder.write_all(&body).and_then(|()| encoder.finish());
    let Ok(packed) = packed else {
        return answer::bytes(code, "application/json", body);
    };
    let mut answer = answer::bytes(code, "application/json", packed);
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

fn takes_gzip(request: &Request) -> bool {
    request.header("accept-encoding").split(',').any(|part| part.trim().split(';').next() == Some("gzip"))
}
