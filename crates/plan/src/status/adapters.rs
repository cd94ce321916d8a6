//! Whether all pods have the LoRA adapters that are loaded while pods run.

use std::collections::BTreeMap;

use longboat_api::{
    conditions::{Conditions, types::ADAPTERS_LOADED},
    reasons::condition as reason,
};
use longboat_download::adapters::{AdapterReport, ListedAdapter};

use crate::{context::Context, counted, workload::runtime_adapters};

/// The most adapters that a message describes.
const MAX_DESCRIBED: usize = 5;

/// What the loader of one pod says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAdapters {
    /// The name of the pod.
    pub pod: String,
    /// Its adapters, or why it does not tell.
    pub report: Result<Vec<AdapterReport>, String>,
}

/// Reports the adapters. `Ready` does not depend on them: a wrong adapter stops neither the model nor other adapters.
pub(super) fn report(context: &Context, pods: &[PodAdapters], conditions: &mut Conditions) {
    match runtime_adapters::loader(context) {
        None => conditions.clear(ADAPTERS_LOADED),
        Some(Err(why)) => {
            let message = format!("a change of the adapters replaces the pods, because {why}");
            conditions.mark_false(ADAPTERS_LOADED, reason::ADAPTERS_NEED_ROLLOUT, &message);
        }
        Some(Ok(_)) => match runtime_adapters::listed(context) {
            Ok(listed) => compare(&listed.unwrap_or_default(), pods, conditions),
            // The workload's condition has the same cause.
            Err(why) => conditions.mark_false(ADAPTERS_LOADED, reason::ADAPTER_FAILED, &why),
        },
    }
}

fn compare(listed: &[ListedAdapter], pods: &[PodAdapters], conditions: &mut Conditions) {
    if let Some((pod, why)) = pods.iter().find_map(|pod| Some((&pod.pod, pod.report.as_ref().err()?))) {
        let message = format!("pod {pod} does not tell its adapters: {why}");
        conditions.mark_false(ADAPTERS_LOADED, reason::PROGRESS_UNKNOWN, &message);
        return;
    }
    let known = |pod: &PodAdapters, adapter: &ListedAdapter| {
        let mut reports = pod.report.iter().flatten();
        reports.find(|known| known.folder == adapter.folder).cloned()
    };
    let (mut failed, mut waiting) = (Vec::new(), Vec::new());
    for adapter in listed {
        let all: Vec<_> = pods.iter().map(|pod| (&pod.pod, known(pod, adapter))).collect();
        let loaded = all.iter().filter(|(_, known)| known.as_ref().is_some_and(|known| known.loaded)).count();
        let error = all.iter().find_map(|(pod, known)| Some((pod, known.as_ref()?.error.as_ref()?)));
        if let Some((pod, error)) = error {
            failed.push(format!("{}: pod {pod}: {error}", adapter.name));
        } else if loaded < pods.len() {
            waiting.push(format!("{} is loaded in {loaded} of {}", adapter.name, counted(pods.len(), "pod")));
        }
    }
    let mut leaving: BTreeMap<&str, usize> = BTreeMap::new();
    for report in pods.iter().flat_map(|pod| pod.report.iter().flatten()).filter(|report| report.loaded) {
        if listed.iter().all(|adapter| adapter.name != report.name) {
            *leaving.entry(&report.name).or_default() += 1;
        }
    }
    let leaving =
        leaving.iter().map(|(name, count)| format!("{name} is still loaded in {}", counted(*count, "pod")));
    waiting.extend(leaving);
    if !failed.is_empty() {
        conditions.mark_false(ADAPTERS_LOADED, reason::ADAPTER_FAILED, &described(&failed));
    } else if !waiting.is_empty() {
        conditions.mark_false(ADAPTERS_LOADED, reason::LOADING_ADAPTERS, &described(&waiting));
    } else if pods.is_empty() {
        conditions.mark_false(ADAPTERS_LOADED, reason::LOADING_ADAPTERS, "no pod has told its adapters yet");
    } else {
        let names: Vec<String> = listed.iter().map(|adapter| adapter.name.clone()).collect();
        let names = if names.is_empty() { "no adapters".to_owned() } else { described(&names) };
        let message = format!("{names} in {}", counted(pods.len(), "pod"));
        conditions.mark_true_with_reason(ADAPTERS_LOADED, reason::ALL_ADAPTERS_LOADED, &message);
    }
}

/// Joins what is said of adapters.
fn described(all: &[String]) -> String {
    let text = all.iter().take(MAX_DESCRIBED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_DESCRIBED) {
        0 => text,
        more => format!("{text}, and {more} more"),
    }
}
