//! Requests that no route matches: the index, the list of models, and requests that are routed by the model in their body.

use std::net::SocketAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts,
    uri::PathAndQuery,
};

use super::{
    answer::{ApiError, TEXT, json_response, page, refused},
    body::ProxyBody,
    completion::Completion,
    upload::Upload,
};
use longboat_key::Key;

use crate::{model_directory::Directory, tables::Tables};

/// How to handle a request to the root.
pub(super) enum Root {
    /// Send this response.
    Answer(Response<ProxyBody>),
    /// Route the request to this service, with the table of this socket: its head was changed so that the service's route
    /// matches.
    Route(Key, SocketAddr),
}

/// Handles a request that no route matches. Returns `None` if the path is unknown here, too.
pub(super) async fn root(
    tables: &Tables,
    own: SocketAddr,
    head: &mut Parts,
    upload: &mut Upload,
) -> Option<Root> {
    let directory = tables.directory();
    let path = head.uri.path();
    let mut socket = own;
    let reads = head.method == Method::GET || head.method == Method::HEAD;
    match path {
        "/" if reads => return Some(Root::Answer(index(directory, &head.headers))),
        "/v1/models" if reads => return Some(Root::Answer(json_response(StatusCode::OK, &directory.list()))),
        _ => {}
    }
    if reads {
        let model = path.strip_prefix("/v1/models/")?.to_owned();
        let found = directory.model(&model);
        return Some(Root::Answer(
            found.map_or_else(|| unknown(directory, &model), |model| json_response(StatusCode::OK, &model)),
        ));
    }
    if head.method != Method::POST || !path.starts_with("/v1/") {
        return None;
    }
    if let Err(error) = upload.read().await {
        return Some(Root::Answer(refused(&error, upload).await));
    }
    let model = match model(upload) {
        Ok(model) => model,
        Err(message) => {
            let message = format!("{message}; {}", directory.names());
            return Some(Root::Answer(error(StatusCode::BAD_REQUEST, &message, None)));
        }
    };
    let Some((service, place)) =
        directory.service(&model).and_then(|service| Some((service, service.place()?)))
    else {
        return Some(Root::Answer(unknown(directory, &model)));
    };
    let target = if let Some(entrance) = tables.entrance(service, path) {
        socket = entrance.socket;
        if let Some(host) = entrance.host.and_then(|host| HeaderValue::from_str(&host).ok()) {
            head.headers.insert(header::HOST, host);
        }
        for (name, value) in entrance.headers {
            head.headers.insert(name.parse::<HeaderName>().ok()?, HeaderValue::from_str(&value).ok()?);
        }
        with_query(entrance.path, head.uri.query())
    } else {
        // No back end can serve now. The place of the service leads to the rule that says why.
        let (host, prefix) = place;
        // The routes of a service may require a host.
        if let Some(host) = host.and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
            head.headers.insert(header::HOST, host);
        }
        with_query(format!("{prefix}{path}"), head.uri.query())
    };
    // Without the authority: the host of the service's route is in `Host` now.
    let target: PathAndQuery = target.parse().ok()?;
    head.uri = target.into();
    Some(Root::Route(service.name.clone(), socket))
}

fn with_query(path: String, query: Option<&str>) -> String {
    match query {
        None => path,
        Some(query) => format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' }),
    }
}

/// Returns the model that a body names.
fn model(upload: &Upload) -> Result<String, String> {
    let body = Completion::of(upload.chunks())
        .map_err(|error| format!("the body must be a JSON object with a `model`: {error}"))?;
    body.model.ok_or_else(|| "the request has no field `model`".to_owned())
}

fn unknown(directory: &Directory, model: &str) -> Response<ProxyBody> {
    let message = format!("The model `{model}` does not exist: {}", directory.names());
    error(StatusCode::NOT_FOUND, &message, Some("model_not_found"))
}

/// An error about the field `model`.
fn error(status: StatusCode, message: &str, code: Option<&str>) -> Response<ProxyBody> {
    ApiError { kind: "invalid_request_error", message, param: Some("model"), code }.response(status)
}

fn index(directory: &Directory, headers: &HeaderMap) -> Response<ProxyBody> {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let json = accepted.flat_map(|value| value.split(',')).any(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    });
    let mut response = if json {
        json_response(StatusCode::OK, &directory.index())
    } else {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        page(StatusCode::OK, TEXT, directory.text(&format!("http://{host}")))
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}
