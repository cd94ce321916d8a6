//! The containers of a pod in the order of their records: first init containers, then the others.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, PodSpec, PodStatus};

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
            let unseen = state.running.map(|running| ContainerStateTerminated {
                exit_code: 137,
                reason: Some("ContainerStatusUnknown".to_owned()),
                message: Some("The node stopped while the container ran.".to_owned()),
                started_at: running.started_at,
                container_id: earlier.container_id.clone(),
                ..ContainerStateTerminated::default()
            });
            record.before_node = state.terminated.or(unseen).or(last);
            let ran = u32::from(record.before_node.is_some());
            record.restarts = u32::try_from(earlier.restart_count).unwrap_or(0) + ran;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_instance_that_ran_when_the_node_stopped_has_ended_as_far_as_anybody_knows() {
        let container = Container { name: "main".to_owned(), ..Container::default() };
        let member = Member { role: Role::Main, container: Arc::new(container) };
        let record = |state: Value, last: Value| {
            let status = json!({"containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 2, "containerID": "process://p/main/2",
                "state": state, "lastState": last,
            }]});
            let record = member.record(&serde_json::from_value(status).unwrap());
            let end = record.before_node.map(|end| (end.exit_code, end.container_id.unwrap_or_default()));
            (record.restarts, end)
        };
        let ended = |code: i32| json!({"terminated": {"exitCode": code, "containerID": format!("process://p/main/{code}")}});
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        assert_eq!(record(running, ended(1)), (3, Some((137, "process://p/main/2".to_owned()))));
        assert_eq!(record(ended(4), ended(1)), (3, Some((4, "process://p/main/4".to_owned()))));
        assert_eq!(record(json!({"waiting": {}}), ended(1)), (3, Some((1, "process://p/main/1".to_owned()))));
        assert_eq!(record(json!({"waiting": {}}), json!({})), (2, None));
    }
}
