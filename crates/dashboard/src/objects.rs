//! Reads and writes objects for the page: events, logs, and the manifest of a service.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, Client,
    api::{ListParams, LogParams, PostParams},
    core::DynamicObject,
    discovery::ApiResource,
};
use longboat_api::{annotations::LAST_APPLIED, v1alpha2::LLMInferenceService};
use longboat_controller::reader;
use serde_json::{Value, json};

use longboat_key::{Key, Name, Namespace};

use crate::{
    answer::Problem,
    owned::{self, MAX_READ},
};

/// The most events that are shown.
const MAX_SHOWN: usize = 100;
/// The most pages of a namespace's events to read.
const MAX_PAGES: usize = 10;
/// The part at the end of a log that is shown.
const MAX_LOG_LINES: i64 = 1000;
const MAX_LOG_BYTES: i64 = 256 << 10;

/// Refuses a service that does not exist.
pub(crate) async fn exists(client: &Client, service: &Key) -> Result<(), Problem> {
    let api = Api::<LLMInferenceService>::namespaced(client.clone(), &service.namespace);
    match api.get_metadata(&service.name).await {
        Err(error) if reader::is_missing(&error) => Err(failed(&error)),
        // Whoever may not read the service may still read other things about it.
        _ => Ok(()),
    }
}

/// Returns the newest events of a service and of the objects that it owns, newest first.
pub(crate) async fn events(client: &Client, service: &Key) -> Result<Value, Problem> {
    let owned = owned::uids(client, service).await.map_err(|error| failed(&error))?;
    let api = Api::<Event>::namespaced(client.clone(), &service.namespace);
    let is_about = |event: &Event| event.involved_object.uid.as_ref().is_some_and(|uid| owned.contains(uid));
    let mut parameters = ListParams::default().limit(MAX_READ);
    let mut events = Vec::new();
    // A list is sorted by name, so the newest events may be on any page.
    for _ in 0..MAX_PAGES {
        let page = api.list(&parameters).await.map_err(|error| failed(&error))?;
        events.extend(page.items.into_iter().filter(is_about).map(shown));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    events.sort_by(|one, other| other["time"].as_str().cmp(&one["time"].as_str()));
    events.truncate(MAX_SHOWN);
    Ok(json!({"events": events}))
}

fn shown(event: Event) -> Value {
    let micro = event.event_time.map(|time| time.0);
    let time = event.last_timestamp.or(event.first_timestamp).map(|time| time.0).or(micro);
    let count = event.series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    json!({
        "time": time.map(|time| time.to_string()),
        "type": event.type_,
        "reason": event.reason,
        "object": format!(
            "{} {}",
            event.involved_object.kind.unwrap_or_default(),
            event.involved_object.name.unwrap_or_default()
        ),
        "message": event.message,
        "count": count,
    })
}

/// Returns the end of a container's log.
pub(crate) async fn logs(
    client: &Client,
    namespace: Namespace<&str>,
    pod: Name<&str>,
    container: &str,
) -> Result<String, Problem> {
    let parameters = LogParams {
        container: Some(container.to_owned()),
        tail_lines: Some(MAX_LOG_LINES),
        limit_bytes: Some(MAX_LOG_BYTES),
        ..LogParams::default()
    };
    let api = Api::<Pod>::namespaced(client.clone(), &namespace);
    api.logs(&pod, &parameters).await.map_err(|error| failed(&error))
}

/// Returns a service in the form for editing: without the fields that the API server maintains.
pub(crate) async fn manifest(client: &Client, service: &Key) -> Result<String, Problem> {
    let api = Api::<LLMInferenceService>::namespaced(client.clone(), &service.namespace);
    let found = api.get(&service.name).await.map_err(|error| failed(&error))?;
    let mut object = serde_json::to_value(found).map_err(|error| Problem::failed(error.to_string()))?;
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // `resourceVersion` stays: with it, `replace` refuses to overwrite what somebody else has changed.
            for field in ["managedFields", "uid", "generation", "creationTimestamp"] {
                metadata.remove(field);
            }
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.remove(LAST_APPLIED);
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
        }
    }
    serde_saphyr::to_string(&object).map_err(|error| Problem::failed(error.to_string()))
}

/// Replaces a service. If somebody has changed the object since it was read, its `resourceVersion` causes a conflict.
pub(crate) async fn replace(client: &Client, service: &Key, manifest: &str) -> Result<(), Problem> {
    let new = edited(service, manifest)?;
    let kind = ApiResource::erase::<LLMInferenceService>(&());
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &service.namespace, &kind);
    api.replace(&service.name, &PostParams::default(), &new).await.map_err(|error| failed(&error))?;
    Ok(())
}

/// Returns the object of an edited manifest. It must be the service that was read.
pub(crate) fn edited(service: &Key, manifest: &str) -> Result<DynamicObject, Problem> {
    let documents =
        longboat_manifest::parse("manifest", manifest).map_err(|error| Problem::wrong(error.to_string()))?;
    let object = match <[_; 1]>::try_from(documents) {
        Ok([document]) => document.object,
        Err(several) => {
            return Err(Problem::wrong(format!("expected one object, found {}", several.len())));
        }
    };
    let is_same = object["metadata"]["name"] == *service.name
        && object["metadata"]["namespace"].as_str().unwrap_or(&service.namespace) == &*service.namespace
        && object["kind"] == "LLMInferenceService";
    if !is_same {
        return Err(Problem::wrong(format!("the manifest is not LLMInferenceService {service}")));
    }
    if !object["metadata"]["resourceVersion"].is_string() {
        return Err(Problem::wrong(
            "metadata.resourceVersion is missing: read the service again, and edit the new version",
        ));
    }
    // The object is untyped: if the Rust type lacks a field, the field must reach the API server, which validates it.
    let new: DynamicObject =
        serde_json::from_value(object).map_err(|error| Problem::wrong(error.to_string()))?;
    let kind = ApiResource::erase::<LLMInferenceService>(&());
    let written = new.types.as_ref().map_or("", |types| types.api_version.as_str());
    if written != kind.api_version {
        return Err(Problem::wrong(format!("apiVersion: expected `{}`", kind.api_version)));
    }
    Ok(new)
}

fn failed(error: &kube::Error) -> Problem {
    let mut problem = Problem::failed(reader::sentence(error));
    if let kube::Error::Api(status) = error
        && let Ok(code) = http::StatusCode::from_u16(status.code)
        && code.is_client_error()
        // Status 401 would mean that this server's token is wrong.
        && code != http::StatusCode::UNAUTHORIZED
    {
        problem.status = code;
    }
    problem
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn events_are_read_from_every_page() {
        let event = |uid: &str, minute: u8| {
            json!({
                "metadata": {"name": format!("{uid}.{minute}"), "namespace": "ns"},
                "involvedObject": {"kind": "Pod", "name": "p", "uid": uid}, "reason": "Pulled",
                "lastTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
            })
        };
        let answer = move |request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            let answer = match request.uri().path() {
                "/apis/serving.kserve.io/v1alpha2/namespaces/ns/llminferenceservices/a" => {
                    json!({"metadata": {"name": "a", "uid": "own"}})
                }
                "/api/v1/namespaces/ns/events" if query.contains("continue=next") => {
                    json!({"metadata": {}, "items": [event("own", 2)]})
                }
                "/api/v1/namespaces/ns/events" => {
                    json!({"metadata": {"continue": "next"}, "items": [event("own", 1), event("other", 3)]})
                }
                _ => json!({"metadata": {}, "items": []}),
            };
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        };
        let client = Client::new(tower::service_fn(answer), "ns");
        let found = events(&client, &Key::new(Namespace("ns"), Name("a"))).await.unwrap();
        let times: Vec<_> = found["events"].as_array().unwrap().iter().map(|event| &event["time"]).collect();
        assert_eq!(times, ["2026-01-01T00:02:00Z", "2026-01-01T00:01:00Z"]);
    }
}
