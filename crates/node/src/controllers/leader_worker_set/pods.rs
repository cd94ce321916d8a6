//! The pods of a group. Pure functions.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;

use super::group::Settings;
use super::labels::{GROUP_INDEX, GROUP_KEY, LEADER_NAME, NAME, REVISION, SIZE, WORKER_INDEX};
use crate::controllers::owners::control_by;
use crate::controllers::pods::from_template;

/// Returns the leader of a group. A leader learns its own address when it starts.
pub(super) fn leader(set: &LeaderWorkerSet, settings: &Settings, group: i32) -> Pod {
    let templates = &set.spec.leader_worker_template;
    let template = templates.leader_template.as_ref().unwrap_or(&templates.worker_template);
    let own_address = EnvVarSource {
        field_ref: Some(ObjectFieldSelector { field_path: "status.podIP".into(), api_version: None }),
        ..EnvVarSource::default()
    };
    let address = EnvVar { value_from: Some(own_address), ..named("LWS_LEADER_ADDRESS") };
    let name = format!("{}-{group}", set.name_any());
    pod(set, settings, template, Member { name, group, worker: 0 }, control_by(set), address)
}

/// Returns a worker of a group whose leader is at `address`.
pub(super) fn worker(
    set: &LeaderWorkerSet,
    settings: &Settings,
    leader: &Pod,
    address: &str,
    group: i32,
    worker: i32,
) -> Pod {
    let template = &set.spec.leader_worker_template.worker_template;
    let address = EnvVar { value: Some(address.into()), ..named("LWS_LEADER_ADDRESS") };
    let name = format!("{}-{group}-{worker}", set.name_any());
    let mut pod = pod(set, settings, template, Member { name, group, worker }, control_by(leader), address);
    pod.annotations_mut().insert(LEADER_NAME.into(), leader.name_any());
    pod
}

struct Member {
    name: String,
    group: i32,
    worker: i32,
}

fn pod(
    set: &LeaderWorkerSet,
    settings: &Settings,
    template: &PodTemplateSpec,
    member: Member,
    owner: OwnerReference,
    address: EnvVar,
) -> Pod {
    let mut pod = from_template(template.clone(), owner);
    pod.metadata.name = Some(member.name);
    pod.labels_mut().extend(
        [
            (NAME, set.name_any()),
            (GROUP_INDEX, member.group.to_string()),
            (WORKER_INDEX, member.worker.to_string()),
            (GROUP_KEY, format!("{}-{}", set.name_any(), member.group)),
            (REVISION, settings.revision.clone()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    pod.annotations_mut().insert(SIZE.into(), settings.size.to_string());
    let number = |name, value: i32| EnvVar { value: Some(value.to_string()), ..named(name) };
    let variables =
        [address, number("LWS_GROUP_SIZE", settings.size), number("LWS_WORKER_INDEX", member.worker)];
    for container in containers(pod.spec.get_or_insert_default()) {
        add_variables(container, &variables);
    }
    pod
}

fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers)
}

/// Adds the variables of the group before those of the container, so that the container's variables can refer to them.
fn add_variables(container: &mut Container, variables: &[EnvVar]) {
    let own = container.env.take().unwrap_or_default();
    let kept = own.into_iter().filter(|own| variables.iter().all(|variable| variable.name != own.name));
    container.env = Some(variables.iter().cloned().chain(kept).collect());
}

fn named(name: &str) -> EnvVar {
    EnvVar { name: name.into(), ..EnvVar::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_worker_knows_its_leader_its_place_and_what_its_template_says() {
        let set: LeaderWorkerSet = serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "ns", "uid": "u"},
            "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "main", "env": [
                    {"name": "X", "value": "$(LWS_LEADER_ADDRESS)"}, {"name": "LWS_GROUP_SIZE", "value": "9"}]}]},
            }}},
        }))
        .unwrap();
        let settings = Settings::of(&set);
        let mut leader = leader(&set, &settings, 0);
        assert_eq!(leader.name_any(), "s-0");
        leader.metadata.uid = Some("l".into());
        let worker = worker(&set, &settings, &leader, "127.64.0.2", 0, 1);
        assert_eq!(worker.name_any(), "s-0-1");
        assert_eq!(worker.labels()["a"], "b");
        assert_eq!(
            (worker.labels()[WORKER_INDEX].as_str(), worker.labels()[GROUP_INDEX].as_str()),
            ("1", "0")
        );
        assert_eq!(worker.annotations()[LEADER_NAME], "s-0");
        assert_eq!(worker.owner_references()[0].uid, "l");
        let env = worker.spec.unwrap().containers[0].env.clone().unwrap();
        let env: Vec<_> = env.into_iter().map(|variable| (variable.name, variable.value.unwrap())).collect();
        assert_eq!(
            env,
            [
                ("LWS_LEADER_ADDRESS", "127.64.0.2"),
                ("LWS_GROUP_SIZE", "2"),
                ("LWS_WORKER_INDEX", "1"),
                ("X", "$(LWS_LEADER_ADDRESS)"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
