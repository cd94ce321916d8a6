//! The metrics of a service's own pods. They stand in for Prometheus and for adapters that serve metrics.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use longboat_api::labels::{NAME, PART_OF, PART_OF_VALUE};
use longboat_api::series::Series;
use longboat_autoscale::{Labels, Sample};

use super::{QueueMetrics, Target};
use crate::controllers::pods::ready_since;
use crate::controllers::selector;
use crate::controllers::setup::Caches;
use crate::probe::{http, port_number};

/// The time limit for a page.
const LIMIT: Duration = Duration::from_secs(2);
/// The longest page in bytes.
const MAX_PAGE: usize = 4 << 20;
/// The most pods whose pages are read.
const MAX_PODS: usize = 64;
/// The most series that are read from a page.
const MAX_SERIES: usize = 4096;

/// Where a pod has a page of metrics.
struct Page {
    pod: Arc<Pod>,
    ip: String,
    port: u16,
    https: bool,
}

/// Reads the series with these names from all ready pods of the service to which the target belongs, and from the gateway.
/// Fails if there are pods, and no page can be read.
pub(super) async fn read(
    caches: &Caches,
    queue: &QueueMetrics,
    target: &Target,
    names: &[&str],
) -> Result<Vec<Sample>, String> {
    let names: HashSet<&str> = names.iter().copied().collect();
    let pages: Vec<Page> = pods(caches, target).iter().flat_map(pages).collect();
    let bodies =
        join_all(pages.iter().map(|page| http::page(&page.ip, page.port, page.https, LIMIT, MAX_PAGE))).await;
    let mut samples = queue.read(target);
    samples.retain(|sample| names.contains(&*sample.name));
    let mut failure = None;
    for (page, body) in pages.iter().zip(&bodies) {
        match body {
            Ok(body) => samples.extend(series(&whole_lines(body), &names).map(|mut sample| {
                let own = [
                    ("namespace", page.pod.namespace().unwrap_or_default()),
                    ("pod", page.pod.name_any()),
                    ("instance", format!("{}:{}", page.ip, page.port)),
                ];
                sample.labels.extend(own.map(|(label, value)| (label.to_owned(), value)));
                sample
            })),
            Err(error) => failure = Some(format!("pod {}: {error}", page.pod.name_any())),
        }
    }
    match failure {
        Some(failure) if bodies.iter().all(Result::is_err) => {
            Err(format!("no pod's metrics can be read: {failure}"))
        }
        _ => Ok(samples),
    }
}

/// The ready pods of the service to which the target belongs; without one, the pods of the target.
fn pods(caches: &Caches, target: &Target) -> Vec<Arc<Pod>> {
    let label = |labels: &BTreeMap<String, String>, key| labels.get(key).cloned();
    let deployment = (target.kind == "Deployment")
        .then(|| caches.deployments.get(&target.namespace, &target.name))
        .flatten();
    let own = match &deployment {
        Some(deployment) => deployment.metadata.labels.clone(),
        None => caches
            .leader_worker_sets
            .get(&target.namespace, &target.name)
            .and_then(|set| set.metadata.labels.clone()),
    }
    .unwrap_or_default();
    let service = label(&own, NAME).filter(|_| label(&own, PART_OF).as_deref() == Some(PART_OF_VALUE));
    let selects =
        deployment.as_ref().and_then(|deployment| deployment.spec.as_ref()?.selector.match_labels.clone());
    let mut all = caches.pods.all();
    all.retain(|pod| {
        pod.namespace().as_deref() == Some(&*target.namespace)
            && ready_since(pod).is_some()
            && match &service {
                Some(service) => {
                    label(pod.labels(), NAME).as_ref() == Some(service)
                        && label(pod.labels(), PART_OF).as_deref() == Some(PART_OF_VALUE)
                }
                None => selector::matches(selects.as_ref(), Some(pod.labels())),
            }
    });
    all.truncate(MAX_PODS);
    all
}

/// The pages of a pod: where its container `main` is probed, and the ports with the name `metrics`.
fn pages(pod: &Arc<Pod>) -> Vec<Page> {
    let Some(ip) = pod.status.as_ref().and_then(|status| status.pod_ip.clone()) else { return Vec::new() };
    let page = |port, https| Page { pod: pod.clone(), ip: ip.clone(), port, https };
    let mut found = Vec::new();
    for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
        found.extend(probed(container).map(|(port, https)| page(port, https)));
        let ports = container.ports.iter().flatten().filter(|port| port.name.as_deref() == Some("metrics"));
        found.extend(ports.filter_map(|port| Some(page(u16::try_from(port.container_port).ok()?, false))));
    }
    found
}

fn probed(container: &Container) -> Option<(u16, bool)> {
    let probe = container.readiness_probe.as_ref().filter(|_| container.name == "main")?;
    let action = probe.http_get.as_ref()?;
    let https = action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    Some((port_number(&action.port, container).ok()?, https))
}

/// The text of a page. Of a page that is too long, the last line is only a part of a line, so its number may be wrong.
fn whole_lines(body: &[u8]) -> Cow<'_, str> {
    let end = if body.len() < MAX_PAGE {
        body.len()
    } else {
        body.iter().rposition(|byte| *byte == b'\n').unwrap_or(0)
    };
    String::from_utf8_lossy(&body[..end])
}

/// Returns the series of a page that have one of these names. Lines that cannot be read are left out.
fn series<'a>(page: &'a str, names: &'a HashSet<&str>) -> impl Iterator<Item = Sample> + 'a {
    let wanted = page.lines().filter_map(Series::of_line).filter(|(name, _)| names.contains(name));
    let read = wanted.filter_map(|(name, series)| {
        let labels: Option<Labels> = series
            .labels()
            .map(|label| label.map(|(name, value)| (name.to_owned(), value.into_owned())))
            .collect();
        Some(Sample { name: name.to_owned(), labels: labels?, value: series.value })
    });
    read.take(MAX_SERIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_series_with_wanted_names_are_read_and_hostile_lines_are_left_out() {
        let page = "# HELP a x\na{pod=\"p\\\"}\\n\", b=\"c\"} 1.5 1700000000\na 2\nab 3\na{x=\"unfinished 4\na{} NaN\na\n\u{e9}{ 1\na{b=\"\u{e9}\"} 5";
        let names = HashSet::from(["a"]);
        let found: Vec<_> = series(page, &names).map(|sample| (sample.labels, sample.value)).collect();
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(
            found,
            [
                (labels(&[("pod", "p\"}\n"), ("b", "c")]), 1.5),
                (labels(&[]), 2.0),
                (labels(&[("b", "\u{e9}")]), 5.0)
            ]
        );
        let endless = "a 1\n".repeat(MAX_SERIES + 10);
        assert_eq!(series(&endless, &names).count(), MAX_SERIES);
    }
}
