//! The containers of a pod in the order of their records: first init containers, then the others.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::machine::Role;

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
