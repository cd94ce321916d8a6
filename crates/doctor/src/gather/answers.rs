//! Whether services that report Ready answer.

use futures::{StreamExt, stream};
use kube::Client;
use longboat_controller::reader;
use longboat_key::{Name, Namespace};
use longboat_plan::names;

use super::{MAX_CONCURRENT_REQUESTS, MODELS_TIMEOUT};
use crate::facts::{Answers, Facts};

/// Requests the models of services that report Ready, at their URLs and, through the API server, at their workloads.
pub(super) async fn of_ready_services<F>(client: &Client, facts: &mut Facts, ask: impl Fn(String) -> F)
where
    F: Future<Output = Result<u16, String>>,
{
    let ready: Vec<_> = facts
        .services
        .iter()
        .filter(|service| {
            let conditions = service.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|found| found.type_ == "Ready" && found.is_true())
        })
        .cloned()
        .collect();
    let asked = stream::iter(ready)
        .map(|service| {
            let (client, ask) = (client.clone(), &ask);
            async move {
                let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
                let url = service.status.as_ref().and_then(|status| status.url.clone());
                let at_url = match url {
                    Some(url) => {
                        let models = format!("{}/v1/models", url.trim_end_matches('/'));
                        let late = || Err(format!("no answer within {} s", MODELS_TIMEOUT.as_secs()));
                        Some(
                            tokio::time::timeout(MODELS_TIMEOUT, ask(models))
                                .await
                                .unwrap_or_else(|_| late()),
                        )
                    }
                    None => None,
                };
                let fine = matches!(at_url, None | Some(Ok(200)));
                let at_workload = if fine { None } else { at_workload(&client, namespace, name).await };
                (format!("{namespace}/{name}"), Answers { at_url, at_workload })
            }
        })
        .buffered(MAX_CONCURRENT_REQUESTS);
    facts.answers = asked.collect().await;
}

/// Sends the request directly to the workload, without Gateways and pickers. Returns `None` if the API server does not
/// forward requests.
async fn at_workload(
    client: &Client,
    namespace: Namespace<&str>,
    name: Name<&str>,
) -> Option<Result<u16, String>> {
    let service = names::workload_service(name);
    for scheme in ["https", "http"] {
        let path = format!("/api/v1/namespaces/{namespace}/services/{scheme}:{service}:8000/proxy/v1/models");
        let request = http::Request::get(path).body(Vec::new()).ok()?;
        let answer = tokio::time::timeout(MODELS_TIMEOUT, client.request_text(request)).await;
        match answer {
            Ok(Ok(_)) => return Some(Ok(200)),
            // The server uses the other scheme.
            Ok(Err(kube::Error::Api(status))) if status.code == 503 || status.code == 400 => {}
            Ok(Err(kube::Error::Api(status))) if [403, 404, 405, 501].contains(&status.code) => return None,
            Ok(Err(kube::Error::Api(status))) => return Some(Ok(status.code)),
            Ok(Err(error)) => return Some(Err(reader::sentence(&error))),
            Err(_) => return Some(Err(format!("no answer within {} s", MODELS_TIMEOUT.as_secs()))),
        }
    }
    Some(Err("the API server cannot reach it".to_owned()))
}
