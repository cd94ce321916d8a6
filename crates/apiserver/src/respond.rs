//! Answers with objects and lists: shape, encoding, compression.

use std::{io::Write, iter};

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
/// The smallest list that is written while it is sent.
const STREAM_FROM: usize = 1024 * 1024;
/// The smallest chunk of such a list, except for the last. A chunk may have a whole object.
const CHUNK_BYTES: usize = 64 * 1024;

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
        Shape::Table(version) => tables::render_one(resource, shown, include_object(request)?, version),
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
pub(crate) fn list(request: &Request, resource: &Resource, listing: Listing) -> Result<Answer, ApiError> {
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
                return Ok(json_list(request, resource, listing, &metadata));
            }
            let items: Vec<Value> =
                listing.items.iter().map(|shown| list_item(resource, &shown.for_reader())).collect();
            json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata,
                "items": items})
        }
        Shape::Table(version) => {
            tables::render(resource, &listing.items, include_object(request)?, version, &metadata)
        }
        Shape::PartialList(version) => {
            let items: Vec<Value> =
                listing.items.iter().map(|s| form::partial(s.for_reader().value(), version)).collect();
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

/// Answers with a list as JSON. A large one is written object by object while it is sent: together, its objects may be larger than
/// the memory.
fn json_list(request: &Request, resource: &Resource, listing: Listing, metadata: &Value) -> Answer {
    let bytes: usize = listing.items.iter().map(RequestedObject::json_bytes).sum();
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        Value::from(resource.list_kind.as_str()),
        Value::from(resource.api_version())
    )
    .into_bytes();
    let is_custom = resource.custom().is_some();
    let items = listing.items.into_iter().enumerate().map(move |(index, shown)| {
        let mut piece = if index > 0 { vec![b','] } else { Vec::new() };
        // What it decompresses is freed with the copy.
        let shown = shown.for_reader();
        if is_custom {
            shown.write(&mut piece);
        } else {
            shown.write_bare(&mut piece);
        }
        piece
    });
    let pieces = iter::once(head).chain(items).chain(iter::once(b"]}\n".to_vec()));
    let gzip = bytes >= GZIP_FROM && takes_gzip(request);
    let mut chunks = chunks(pieces, gzip);
    let mut answer = answer::bytes(200, "application/json", Vec::new());
    *answer.body_mut() = if bytes < STREAM_FROM {
        let mut whole = chunks.next().unwrap_or_default();
        chunks.for_each(|chunk| whole.extend(chunk));
        answer::full(whole)
    } else {
        answer::streaming(futures::stream::iter(chunks.map(|chunk| Ok(chunk.into()))))
    };
    if gzip {
        gzipped(&mut answer);
    }
    answer
}

/// Joins pieces of text, and compresses them if asked to.
fn chunks(pieces: impl Iterator<Item = Vec<u8>>, gzip: bool) -> impl Iterator<Item = Vec<u8>> {
    let mut pieces = pieces.fuse();
    let mut encoder = gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
    iter::from_fn(move || {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES {
            match (&mut encoder, pieces.next()) {
                (None, Some(piece)) => chunk.extend(piece),
                (Some(packed), Some(piece)) => {
                    // Writing to memory cannot fail.
                    let _ = packed.write_all(&piece);
                    chunk.append(packed.get_mut());
                }
                (_, None) => {
                    let Some(packed) = encoder.take() else { break };
                    chunk.extend(packed.finish().unwrap_or_default());
                }
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    })
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
    gzipped(&mut answer);
    answer
}

fn gzipped(answer: &mut Answer) {
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

fn takes_gzip(request: &Request) -> bool {
    request.header("accept-encoding").split(',').any(|part| part.trim().split(';').next() == Some("gzip"))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, io::Read};

    use flate2::read::GzDecoder;

    use super::{CHUNK_BYTES, chunks};

    #[test]
    fn a_list_is_written_as_it_is_sent() {
        const PIECE: usize = 50_000;
        let text: Vec<u8> = (0..20 * PIECE).map(|at| u8::try_from(at * at / 7 % 251).unwrap()).collect();
        for gzip in [false, true] {
            let read = Cell::new(0);
            let pieces = text.chunks(PIECE).map(<[u8]>::to_vec).inspect(|_| read.set(read.get() + 1));
            let mut sent = Vec::new();
            for chunk in chunks(pieces, gzip) {
                assert!(chunk.len() < CHUNK_BYTES + 2 * PIECE, "{}", chunk.len());
                assert!(sent.len() + 3 * CHUNK_BYTES + 2 * PIECE > read.get() * PIECE || gzip);
                sent.extend(chunk);
            }
            let mut plain = Vec::new();
            if gzip {
                GzDecoder::new(&*sent).read_to_end(&mut plain).unwrap();
            }
            assert!(text == if gzip { plain } else { sent });
        }
    }
}
