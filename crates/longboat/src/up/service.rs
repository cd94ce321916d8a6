//! Finds the address and the model name of a ready service.

use anyhow::{Context, anyhow};
use futures::StreamExt;
use k8s_openapi::api::core::v1;
use kube::{Api, Client};
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceStatus};
use longboat_dashboard::local_client;
use serde_json::Value;

use super::{
    engine_key::RequiredKey,
    question::{Gateway, Question},
};

/// How long a server may take to list its models, before the name in the status is taken.
const MODELS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// The most bytes of a response's body that are read at once.
const MAX_BODY_BYTES: usize = 4 << 20;

/// A service that is ready to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    /// The name as `namespace/name`.
    pub(crate) name: String,
    /// The URL without a slash at the end.
    pub(crate) url: String,
    /// A model name that the service accepts.
    pub(crate) model: String,
    /// A request that it answers.
    pub(crate) question: Question,
}

/// Looks up the address of a service, and asks the service for its models. If the gateway is known, its routes decide which
/// address answers.
///
/// # Errors
///
/// If the service has neither a route nor a Service.
pub(crate) async fn find(
    client: &Client,
    service: &LLMInferenceService,
    gateway: Option<&Gateway>,
) -> anyhow::Result<Service> {
    let metadata = &service.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let own = metadata.name.as_deref().unwrap_or_default();
    let name = format!("{namespace}/{own}");
    let status = service.status.clone().unwrap_or_default();
    let routed = status.url.as_deref().filter(|url| !url.is_empty());
    let url = match routed {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => workload_service_address(client, namespace, &status)
            .await
            .with_context(|| format!("cannot find the address of {name}"))?,
    };
    let question = gateway.and_then(|gateway| Question::through(gateway, service));
    let mut question = question.unwrap_or_else(|| Question::below(&url));
    question.engine_key = RequiredKey::find(client, namespace, own).await;
    let stated = stated_model(&status, namespace)
        .or_else(|| service.spec.model.name.clone().filter(|model| !model.is_empty()))
        .unwrap_or_else(|| own.to_owned());
    // A question would wait in the gateway for the first replica, and so start one.
    let is_idle =
        status.workloads.as_ref().and_then(|workloads| workloads.primary.as_ref()?.ready_replicas) == Some(0);
    let known = if is_idle { None } else { known_model(&question, &url, &stated).await };
    let model = known.unwrap_or(stated);
    Ok(Service { name, url, model, question })
}

/// Returns the address of the workload's Service, for a service without a route. This machine has no DNS, so the address is
/// an IP address.
async fn workload_service_address(
    client: &Client,
    namespace: &str,
    status: &LLMInferenceServiceStatus,
) -> anyhow::Result<String> {
    let workload = status.workloads.as_ref().and_then(|workloads| workloads.service.as_ref());
    let name = &workload.context("its status has no Service")?.name;
    let services: Api<v1::Service> = Api::namespaced(client.clone(), namespace);
    let found = services.get(name).await.with_context(|| format!("cannot read Service {name}"))?;
    let spec = found.spec.unwrap_or_default();
    // A headless Service has the address `None`.
    let address = spec.cluster_ip.filter(|address| !address.is_empty() && address != "None");
    let port = spec.ports.iter().flatten().next().map(|port| port.port);
    let (Some(address), Some(port)) = (address, port) else {
        return Err(anyhow!("Service {name} has no address or no port"));
    };
    let stated = status.addresses.first().and_then(|first| first.url.as_deref());
    let scheme = stated.and_then(|url| url.split_once("://")).map_or("http", |(scheme, _)| scheme);
    Ok(format!("{scheme}://{address}:{port}"))
}

/// Returns the model's name after all layers are merged. The status has it beside the addresses.
fn stated_model(status: &LLMInferenceServiceStatus, namespace: &str) -> Option<String> {
    let published = format!("publishers/{namespace}/models/");
    let mut models = status.addresses.iter().flat_map(|address| &address.models);
    models.find_map(|model| model.name.strip_prefix(&published)).map(ToOwned::to_owned)
}

/// Returns the model name that the server itself reports: the name from the status if the server has it, else its first
/// name. A container that sets its own served names may differ from the spec. Returns `None` if the server does not report
/// names.
async fn known_model(question: &Question, url: &str, stated: &str) -> Option<String> {
    let url = match question.base() {
        // The name of the host leads nowhere without this question.
        Some(base) if question.resolve.is_some() => format!("{base}/models"),
        _ => format!("{url}/v1/models"),
    };
    let request = local_client(question.resolved()).build().ok()?.get(url).timeout(MODELS_TIMEOUT);
    let request = question.known_key().into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    let response = request.send().await.ok()?;
    let answer: Value = serde_json::from_str(&beginning(response).await).ok()?;
    let ids: Vec<&str> = answer["data"].as_array()?.iter().filter_map(|model| model["id"].as_str()).collect();
    let known = ids.iter().find(|id| **id == stated).or(ids.first())?;
    Some((*known).to_owned())
}

/// Returns the beginning of a response's body, as far as it arrives.
pub(crate) async fn beginning(response: reqwest::Response) -> String {
    let (mut chunks, mut body) = (response.bytes_stream(), Vec::new());
    while body.len() < MAX_BODY_BYTES
        && let Some(Ok(chunk)) = chunks.next().await
    {
        body.extend_from_slice(&chunk);
    }
    body.truncate(MAX_BODY_BYTES);
    String::from_utf8_lossy(&body).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_model_is_the_merged_one_and_not_the_services_name() {
        let status = |models: Value| {
            serde_json::from_value(json!({"addresses": [
                {"url": "http://gw/ns/llm", "models": models},
            ]}))
            .unwrap()
        };
        let named = status(json!([
            {"name": "publishers/ns/models/Qwen/Qwen2"}, {"name": "Qwen/Qwen2"}, {"name": "publishers/ns/models/lora"},
        ]));
        assert_eq!(stated_model(&named, "ns").as_deref(), Some("Qwen/Qwen2"));
        assert_eq!(stated_model(&status(json!([])), "ns"), None);
    }

    #[tokio::test]
    async fn a_body_without_an_end_is_read_up_to_a_limit() {
        let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 1 << 16]));
        let response = http::Response::new(reqwest::Body::wrap_stream(chunks));
        assert_eq!(beginning(response.into()).await.len(), MAX_BODY_BYTES);
    }
}
