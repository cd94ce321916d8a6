//! What the cache keeps of pods.

use k8s_openapi::api::core::v1::{Container, Pod, PodCondition, PodSpec, PodStatus};
use longboat_api::names::{ADAPTER_LOADER, STORAGE_INITIALIZER};
use longboat_download::{PORT_VARIABLE, PROGRESS_CONDITION};
use longboat_plan::pods;

use super::kinds::Rules;

impl Rules for Pod {
    fn slim(&mut self) -> bool {
        // Certificates need only the labels and addresses, conditions the pod's trouble, and downloads the fields that
        // [`kept`] returns. Pods are never written.
        let (spec, mut conditions) = kept(self);
        let trouble = pods::reduced_status(self);
        if let Some(unscheduled) = trouble.conditions {
            conditions.get_or_insert_default().extend(unscheduled);
        }
        self.spec = spec;
        self.metadata.annotations = None;
        self.status = self.status.take().map(|status| PodStatus {
            pod_ip: status.pod_ip,
            pod_ips: status.pod_ips,
            conditions,
            init_container_statuses: trouble.init_container_statuses,
            container_statuses: trouble.container_statuses,
            ..PodStatus::default()
        });
        true
    }

    fn matters(old: &Self, new: &Self) -> bool {
        let ips = |pod: &Self| pod.status.as_ref().map(|s| (s.pod_ip.clone(), s.pod_ips.clone()));
        old.metadata.labels != new.metadata.labels
            || old.metadata.deletion_timestamp.is_some() != new.metadata.deletion_timestamp.is_some()
            || ips(old) != ips(new)
            || pods::failure(old) != pods::failure(new)
    }
}

/// The parts of a pod that the cache keeps for the questions that are put to pods: the running init containers that answer, with their
/// ports, and the progress condition that the node has set.
pub(crate) fn kept(pod: &Pod) -> (Option<PodSpec>, Option<Vec<PodCondition>>) {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref()).and_then(|all| {
        let own = all.iter().find(|condition| condition.type_ == PROGRESS_CONDITION)?;
        Some(vec![own.clone()])
    });
    let runs = |name: &str| {
        let mut all = status.into_iter().flat_map(|status| status.init_container_statuses.iter().flatten());
        all.any(|found| {
            found.name == name && found.state.as_ref().is_some_and(|state| state.running.is_some())
        })
    };
    let listens = |container: &&Container| {
        let mut names = container.env.iter().flatten().map(|variable| variable.name.as_str());
        match container.name.as_str() {
            STORAGE_INITIALIZER => names.any(|name| name == PORT_VARIABLE),
            name => name == ADAPTER_LOADER,
        }
    };
    let all = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let answering = all.filter(listens).filter(|container| runs(&container.name));
    let answering: Vec<Container> = answering
        .map(|container| Container {
            name: container.name.clone(),
            ports: container.ports.clone(),
            ..Container::default()
        })
        .collect();
    let spec =
        (!answering.is_empty()).then(|| PodSpec { init_containers: Some(answering), ..PodSpec::default() });
    (spec, conditions)
}
