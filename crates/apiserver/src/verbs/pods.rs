//! Subresources of pods: binding, logs. Eviction is in `eviction`. Port-forwarding is in `pods::forward`.

use serde_json::{Value, json};

use super::{
    Call,
    update::{self, Change},
};
use crate::{
    answer::{self, Answer},
    clock,
    pod_access::{LogOptions, PodAccessError, PodRef},
    request::decode,
    respond,
    status::{ApiError, StatusDetails},
    strategy,
};

/// The success Status of these subresources.
pub(super) fn done() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Reads the body, which must name the object of the path.
pub(super) fn body(call: &Call<'_>, kind: &str) -> Result<Value, ApiError> {
    let body = decode::json(&call.request.body)
        .map_err(|why| ApiError::bad_request(format!("the object provided is unrecognized: {why}")))?
        .value;
    if body["metadata"]["name"] == call.path.name.as_deref().unwrap_or_default() {
        return Ok(body);
    }
    Err(ApiError::bad_request(format!("name in URL does not match name in {kind} object")))
}

/// `POST …/binding`: puts a pod on a node.
pub(crate) async fn bind(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let dry_run = call.request.query.dry_run("CreateOptions")?;
    let body = body(call, "Binding")?;
    let node = body["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(ApiError::unexpected_error("target.name: Required value"));
    }
    // The pod is checked in each attempt: another scheduler may have bound it after the last one.
    let edit = |pod: &mut Value, node: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let about = StatusDetails { group: "", kind: "pods/binding", name };
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(ApiError::conflict(about, why));
        }
        if let Some(taken) = pod["spec"]["nodeName"].as_str().filter(|taken| !taken.is_empty()) {
            let why = format!("pod {name} is already assigned to node \"{taken}\"");
            return Err(ApiError::conflict(about, why));
        }
        pod["spec"]["nodeName"] = node.clone();
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|c| c["type"] != "PodScheduled");
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": clock::now()}));
        pod["status"]["conditions"] = Value::Array(conditions);
        Ok(())
    };
    update::change(call, Some("binding"), &Change::Edit(edit, Value::from(node)), dry_run).await?;
    Ok(respond::document(call.request, 201, &done()))
}

/// `GET …/log`.
pub(crate) async fn log(call: &Call<'_>) -> Result<Answer, ApiError> {
    let stored = call.stored()?;
    let query = &call.request.query;
    let name = call.path.name.clone().unwrap_or_default();
    let containers: Vec<&str> = ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| stored.value["spec"][*list].as_array().into_iter().flatten())
        .filter_map(|c| c["name"].as_str())
        .collect();
    let asked = query.get("container").filter(|c| !c.is_empty());
    match asked {
        Some(container) if !containers.contains(&container) => {
            return Err(ApiError::bad_request(format!("container {container} is not valid for pod {name}")));
        }
        None if stored.value["spec"]["containers"].as_array().map_or(0, Vec::len) != 1 => {
            return Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                containers.join(" ")
            )));
        }
        _ => {}
    }
    let seconds = query.number("sinceSeconds")?;
    let tail = query.number("tailLines")?;
    let limit = query.number("limitBytes")?;
    let since_time = match query.get("sinceTime").filter(|t| !t.is_empty()) {
        None => None,
        Some(text) => Some(strategy::clock::parse(text).ok_or_else(|| {
            ApiError::bad_request(format!("sinceTime: Invalid value: \"{text}\": not an RFC 3339 time"))
        })?),
    };
    let node = stored.value["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        let mut empty = answer::bytes(204, "text/plain", Vec::new());
        empty.headers_mut().remove(http::header::CONTENT_TYPE);
        return Ok(empty);
    }
    let access = access(call, node)?;
    let options = LogOptions {
        container: asked.or(containers.first().copied()).map(str::to_owned),
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        since_seconds: seconds,
        since_time,
        tail_lines: tail.and_then(|t| u64::try_from(t).ok()),
        limit_bytes: limit.and_then(|l| u64::try_from(l).ok()),
    };
    let stream = access.logs(pod_ref(call), options).await.map_err(refusal)?;
    let mut answer = answer::bytes(200, "text/plain", Vec::new());
    *answer.body_mut() = answer::streaming(stream);
    Ok(answer)
}

/// Returns the access to the pods of `node`.
pub(crate) fn access(
    call: &Call<'_>,
    node: &str,
) -> Result<std::sync::Arc<dyn crate::pod_access::PodAccess>, ApiError> {
    if let Some(access) = call.state.pods.read().clone() {
        return Ok(access);
    }
    // kube-apiserver looks for the kubelet of a node that does not exist, and answers with this error
    Err(ApiError::not_found(StatusDetails { group: "", kind: "pods", name: node }))
}

/// Returns the pod of the path in the form that the node expects.
pub(crate) fn pod_ref(call: &Call<'_>) -> PodRef {
    PodRef {
        namespace: call.path.namespace.clone().unwrap_or_default(),
        name: call.path.name.clone().unwrap_or_default(),
    }
}

/// Converts an error of the node to an answer of the API server.
pub(crate) fn refusal(error: PodAccessError) -> ApiError {
    match error {
        PodAccessError::NotFound(message) => ApiError::new(404, "NotFound", message),
        PodAccessError::BadRequest(message) => ApiError::bad_request(message),
        PodAccessError::Internal(message) => ApiError::internal(message),
    }
}

/// Returns the node of the pod. A connection into a pod needs one.
pub(crate) fn connect(call: &Call<'_>) -> Result<String, ApiError> {
    let stored = call.stored()?;
    match stored.value["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
        Some(node) => Ok(node.to_owned()),
        None => Err(ApiError::bad_request(format!(
            "pod {} does not have a host assigned",
            call.path.name.as_deref().unwrap_or_default()
        ))),
    }
}
