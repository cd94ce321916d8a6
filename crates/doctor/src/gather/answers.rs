//! Whether services that report Ready answer.

use std::net::IpAddr;

use futures::{StreamExt, stream};
use kube::{Client, client::Body};
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_controller::reader;
use longboat_key::{Name, Namespace};
use longboat_plan::{Snapshot, names};

use super::limits::{MAX_CONCURRENT_REQUESTS, MODELS_TIMEOUT};
use crate::{
    chain::serving::is_scaled_to_zero,
    facts::{Answers, Facts},
};

/// Requests the models of services that report Ready, at their URLs and, through the API server, at their workloads. `ask` gets
/// the address of the URL's host, if only `longboat up` knows it.
pub(super) async fn of_ready_services<F>(
    client: &Client,
    facts: &mut Facts,
    ask: impl Fn(String, Option<IpAddr>) -> F,
) where
    F: Future<Output = Result<u16, String>>,
{
    let ready: Vec<_> = facts
        .services
        .iter()
        .filter(|service| {
            let conditions = service.status.iter().flat_map(|status| &status.conditions);
            // A request would wake a service that is scaled to zero.
            conditions.into_iter().any(|found| found.type_ == "Ready" && found.is_true())
                && !is_scaled_to_zero(&facts.snapshot, service)
        })
        .map(|service| {
            let address = if facts.local { gateway_address(&facts.snapshot, service) } else { None };
            (service.clone(), scheme(&facts.snapshot, service), address)
        })
        .collect();
    let asked = stream::iter(ready)
        .map(|(service, scheme, address)| {
            let (client, ask) = (client.clone(), &ask);
            async move {
                let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
                let url = service.status.as_ref().and_then(|status| status.url.clone());
                let at_url = match url {
                    Some(url) => {
                        let models = format!("{}/v1/models", url.trim_end_matches('/'));
                        let answer = tokio::time::timeout(MODELS_TIMEOUT, ask(models, address)).await;
                        Some(answer.unwrap_or_else(|_| Err(late())))
                    }
                    None => None,
                };
                let fine = matches!(at_url, None | Some(Ok(200)));
                let at_workload =
                    if fine { None } else { at_workload(&client, namespace, name, scheme).await };
                (format!("{namespace}/{name}"), Answers { at_url, at_workload })
            }
        })
        .buffered(MAX_CONCURRENT_REQUESTS);
    facts.answers = asked.collect().await;
}

/// The address of the Gateway of a service. The hostnames of a local Gateway are in no DNS: clients send them to this address.
fn gateway_address(snapshot: &Snapshot, service: &LLMInferenceService) -> Option<IpAddr> {
    let router = service.status.as_ref()?.router.as_ref()?;
    router.gateways.iter().find_map(|gateway| {
        let namespace = gateway.namespace.as_deref().map_or(Namespace::of(&service.metadata), Namespace);
        let gateway = snapshot.gateways.get(namespace, Name(&gateway.name))?;
        let mut addresses = gateway.status.iter().flat_map(|status| &status.addresses);
        addresses.find_map(|address| address.value.parse().ok())
    })
}

/// Sends the request directly to the workload, without Gateways and pickers. Returns `None` if the API server does not
/// forward requests.
async fn at_workload(
    client: &Client,
    namespace: Namespace<&str>,
    name: Name<&str>,
    scheme: &str,
) -> Option<Result<u16, String>> {
    let service = names::workload_service(name);
    let path = format!("/api/v1/namespaces/{namespace}/services/{scheme}:{service}:8000/proxy/v1/models");
    let request = http::Request::get(path).body(Body::empty()).ok()?;
    Some(match tokio::time::timeout(MODELS_TIMEOUT, client.send(request)).await {
        // The body is not read: the status says enough.
        Ok(Ok(response)) => match response.status().as_u16() {
            // The API server answers so if no pod of the Service is ready, or none accepts the connection.
            503 => Err("the API server cannot reach it".to_owned()),
            // The user may not use the proxy, or this API server has none.
            403 | 404 | 405 | 501 => return None,
            code => Ok(code),
        },
        Ok(Err(error)) => Err(reader::sentence(&error)),
        Err(_) => Err(late()),
    })
}

/// Why there is no answer in time.
fn late() -> String {
    format!("no answer within {} s", MODELS_TIMEOUT.as_secs())
}

/// Returns the scheme of a service's model servers, as their Service says.
fn scheme(snapshot: &Snapshot, service: &LLMInferenceService) -> &'static str {
    let name = names::workload_service(Name::of(&service.metadata));
    let workload = snapshot.services.get(Namespace::of(&service.metadata), Name(&name));
    let mut ports = workload.iter().filter_map(|found| found.spec.as_ref()?.ports.as_ref()).flatten();
    if ports.any(|port| port.app_protocol.as_deref() == Some("https")) { "https" } else { "http" }
}
