//! Reports the progress of model downloads. If the node knows it, it is in a condition of the pod. If the platform makes init
//! containers listen for this, one pod of each service is asked.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use longboat_api::names::STORAGE_INITIALIZER;
use longboat_download::{PROGRESS_CONDITION, Progress};
use longboat_key::{Key, Namespace};
use longboat_plan::Download;

use crate::{ask, context::Context, pod_polling::MAX_CONCURRENT_REQUESTS, watch::kinds::labelled};

/// The most bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 4 << 10;

/// A pod that downloads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DownloadPod {
    pod: String,
    source: ProgressSource,
}

/// The source of the progress.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProgressSource {
    /// A condition from the pod's node, with this message.
    Condition(String),
    /// The pod itself, at this URL.
    Page(String),
}

/// Returns the progress of each service whose pods download.
pub(crate) async fn collect(context: Arc<Context>) -> HashMap<Key, Download> {
    stream::iter(running(context.caches.pods.all()))
        .map(|(service, pods)| async move { Some((service, report_progress(&pods).await?)) })
        .buffer_unordered(MAX_CONCURRENT_REQUESTS)
        .filter_map(std::future::ready)
        .collect()
        .await
}

/// The pods that download, grouped by service and sorted by name.
fn running(pods: impl Iterator<Item = Arc<Pod>>) -> BTreeMap<Key, Vec<DownloadPod>> {
    let mut found: BTreeMap<Key, Vec<DownloadPod>> = BTreeMap::new();
    for pod in pods.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let Some(source) = progress_source(&pod) else { continue };
        let Some(service) = labelled(&pod.metadata, Namespace::of(&pod.metadata)) else { continue };
        let pod = pod.metadata.name.clone().unwrap_or_default();
        found.entry(service).or_default().push(DownloadPod { pod, source });
    }
    for pods in found.values_mut() {
        pods.sort_by(|a, b| a.pod.cmp(&b.pod));
    }
    found
}

/// Returns the source of the pod's progress, or `None` if no init container is downloading.
fn progress_source(pod: &Pod) -> Option<ProgressSource> {
    let status = pod.status.as_ref()?;
    let condition = status.conditions.iter().flatten().find(|found| found.type_ == PROGRESS_CONDITION);
    if let Some(condition) = condition.filter(|condition| condition.status == "False") {
        return Some(ProgressSource::Condition(condition.message.clone().unwrap_or_default()));
    }
    Some(ProgressSource::Page(ask::address(pod, STORAGE_INITIALIZER)?))
}

/// Returns the progress of the first pod. The other pods download the same model.
async fn report_progress(pods: &[DownloadPod]) -> Option<Download> {
    let first = pods.first()?;
    let others = match pods.len() {
        1 => String::new(),
        count => format!(" (pod {}, and {} more)", first.pod, count - 1),
    };
    Some(match &first.source {
        ProgressSource::Condition(text) => Download::Progress(format!("{text}{others}")),
        ProgressSource::Page(url) => match progress(url).await {
            Ok(progress) => Download::Progress(format!("{progress}{others}")),
            Err(why) => Download::Silent(format!(
                "{STORAGE_INITIALIZER} of pod {} runs, but reports no progress at {url}: {why}",
                first.pod
            )),
        },
    })
}

/// Returns the progress, or why it is unknown. Only numbers are taken from the pod's response.
async fn progress(url: &str) -> Result<Progress, String> {
    let page = ask::page(url, MAX_RESPONSE_BYTES).await?;
    Progress::parse(&page).ok_or_else(|| "its response has no progress".to_owned())
}

#[cfg(test)]
mod tests {
    use longboat_download::PORT_VARIABLE;
    use longboat_key::{Key, Name, Namespace};
    use serde_json::{Value, json};

    use super::*;
    use crate::watch::pod::kept;

    fn pod(name: &str, state: &Value, conditions: &Value) -> Pod {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {
                "app.kubernetes.io/name": "llm", "app.kubernetes.io/part-of": "llminferenceservice",
            }},
            "spec": {
                "initContainers": [
                    {"name": "first"},
                    {"name": "storage-initializer", "image": "i", "env": [{"name": PORT_VARIABLE, "value": "9418"}],
                     "ports": [{"containerPort": 9418}]},
                ],
                "containers": [{"name": "main", "image": "large"}],
            },
            "status": {
                "podIP": "fd00::7", "conditions": conditions,
                "initContainerStatuses": [
                    {"name": "storage-initializer", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state},
                ],
            },
        }))
        .unwrap();
        let (spec, conditions) = kept(&pod);
        pod.spec = spec;
        pod.status.as_mut().unwrap().conditions = conditions;
        pod
    }

    #[test]
    fn a_pod_that_downloads_is_asked_and_one_whose_node_tells_is_not() {
        let other = json!([{"type": "Ready", "status": "False"}]);
        let conditions =
            json!([{"type": PROGRESS_CONDITION, "status": "False", "message": "downloading 1/2 B"}]);
        let pods = [
            pod("b", &json!({"running": {}}), &other),
            pod("a", &json!({"running": {}}), &conditions),
            pod("c", &json!({"terminated": {"exitCode": 0}}), &other),
            pod("d", &json!({"waiting": {"reason": "PodInitializing"}}), &other),
        ];
        let found = running(pods.into_iter().map(Arc::new));
        let of = |pod: &str, source| DownloadPod { pod: pod.into(), source };
        let all = vec![
            of("a", ProgressSource::Condition("downloading 1/2 B".into())),
            of("b", ProgressSource::Page("http://[fd00::7]:9418/".into())),
        ];
        assert_eq!(found, BTreeMap::from([(Key::new(Namespace("ns"), Name("llm")), all)]));
    }

    #[test]
    fn what_is_kept_of_a_pod_is_little_and_nothing_once_it_has_downloaded() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let ended = pod("c", &json!({"terminated": {"exitCode": 0}}), &ready);
        assert_eq!((ended.spec, ended.status.unwrap().conditions), (None, None));
        let running = pod("c", &json!({"running": {}}), &ready).spec.unwrap();
        assert_eq!((running.containers.len(), running.init_containers.unwrap().len()), (0, 1));
    }
}
