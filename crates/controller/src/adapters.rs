//! Asks pods for the LoRA adapters that their loaders keep in the engines. So loaders need no rights in the cluster.

use std::{collections::HashMap, sync::Arc};

use futures::{StreamExt, stream};
use longboat_api::names::ADAPTER_LOADER;
use longboat_download::adapters::{MAX_REPORT_BYTES, parse_report};
use longboat_key::{Key, Namespace};
use longboat_plan::PodAdapters;

use crate::{ask, context::Context, pod_polling::MAX_CONCURRENT_REQUESTS, watch::kinds::labelled};

/// The most characters of an error in a report, because a pod may say anything.
const MAX_ERROR: usize = 1000;

/// Returns the reports of the loaders of each service.
pub(crate) async fn collect(context: Arc<Context>) -> HashMap<Key, Vec<PodAdapters>> {
    let pods = context.caches.pods.all().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let requests = pods.filter_map(|pod| {
        let url = ask::address(&pod, ADAPTER_LOADER)?;
        let service = labelled(&pod.metadata, Namespace::of(&pod.metadata))?;
        Some((service, pod.metadata.name.clone()?, url))
    });
    let reports: Vec<(Key, PodAdapters)> = stream::iter(requests.collect::<Vec<_>>())
        .map(|(service, pod, url)| async move {
            let report = report(&url).await.map_err(|why| format!("{ADAPTER_LOADER} at {url}: {why}"));
            (service, PodAdapters { pod, report })
        })
        .buffer_unordered(MAX_CONCURRENT_REQUESTS)
        .collect()
        .await;
    let mut found: HashMap<Key, Vec<PodAdapters>> = HashMap::new();
    for (service, pod) in reports {
        found.entry(service).or_default().push(pod);
    }
    for pods in found.values_mut() {
        // The order of the answers says nothing, and must not look like a change.
        pods.sort_by(|a, b| a.pod.cmp(&b.pod));
    }
    found
}

async fn report(url: &str) -> Result<Vec<longboat_download::adapters::AdapterReport>, String> {
    let page = ask::page(url, MAX_REPORT_BYTES).await?;
    let mut report = parse_report(&page).ok_or_else(|| "its response has no adapters".to_owned())?;
    for error in report.iter_mut().filter_map(|adapter| adapter.error.as_mut()) {
        *error = error.chars().take(MAX_ERROR).collect();
    }
    Ok(report)
}
