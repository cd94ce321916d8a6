//! The containers of a pod in the order of their records: first init containers, then the others.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodStatus};

use super::machine::{Record, Role};

/// A container with its role in the pod.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) container: Arc<Container>,
}

impl Member {
    /// Returns the field path by which events name this container.
    pub(super) fn field_path(&self) -> String {
        let list = if self.role == Role::Main { "containers" } else { "initContainers" };
        format!("spec.{list}{{{}}}", self.container.name)
    }

    /// Creates the container's record when this node starts. An instance that ran under an earlier node has ended.
    pub(super) fn record(&self, before: &PodStatus) -> Record {
        let lists = [&before.init_container_statuses, &before.container_statuses];
        let earlier = lists.into_iter().flatten().flatten().find(|status| status.name == self.container.name);
        let mut record = Record::new(self.role);
        if let Some(earlier) = earlier {
            let state = earlier.state.clone().unwrap_or_default();
            let last = earlier.last_state.as_ref().and_then(|last| last.terminated.clone());
            // Nobody saw the end of an instance that ran when the node stopped.
            record.before_node = state.terminated.or(last).filter(|_| state.running.is_none());
            let ran = state.running.is_some() || record.before_node.is_some();
            record.restarts = u32::try_from(earlier.restart_count).unwrap_or(0) + u32::from(ran);
        }
        record
    }
}

/// All containers of a pod.
pub(super) fn of(spec: &PodSpec) -> Vec<Member> {
    let init = spec.init_containers.iter().flatten().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (if sidecar { Role::Sidecar } else { Role::Init }, container)
    });
    let main = spec.containers.iter().map(|container| (Role::Main, container));
    init.chain(main)
        .map(|(role, container)| Member { role, container: Arc::new(container.clone()) })
        .collect()
}
