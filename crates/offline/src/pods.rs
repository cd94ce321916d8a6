//! The pods of a service and what is in them: those of a spec, with the paths of their fields, and those of a plan.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, PodTemplateSpec, Probe};
pub(crate) use longboat_api::names::MAIN_CONTAINER as MAIN;
use longboat_api::v1alpha2::{LLMInferenceServiceSpec, WorkloadSpec};
use longboat_plan::Children;

const SHELLS: [&str; 4] = ["ash", "bash", "dash", "sh"];

/// The workloads of a spec, with their paths: that of the service itself, and that for prefill.
pub(crate) fn halves(spec: &LLMInferenceServiceSpec) -> impl Iterator<Item = (&'static str, &WorkloadSpec)> {
    let prefill = spec.prefill.as_deref().map(|half| ("spec.prefill", half));
    [("spec", &spec.workload)].into_iter().chain(prefill)
}

/// The workload that has a field at this path.
pub(crate) fn half_of<'a>(
    spec: &'a LLMInferenceServiceSpec,
    path: &str,
) -> Option<(&'static str, &'a WorkloadSpec)> {
    halves(spec).filter(|(half, _)| path.starts_with(half)).last()
}

/// The pods of model servers.
pub(crate) fn pods(spec: &LLMInferenceServiceSpec) -> impl Iterator<Item = (String, &PodSpec)> {
    halves(spec).flat_map(|(path, half)| {
        let pods = [("template", half.template.as_deref()), ("worker", half.worker.as_deref())];
        pods.into_iter().filter_map(move |(field, pod)| Some((format!("{path}.{field}"), pod?)))
    })
}

/// The containers of a pod, those of its beginning first.
pub(crate) fn containers_of<'a>(
    path: &str,
    pod: &'a PodSpec,
) -> impl Iterator<Item = (String, &'a Container)> + use<'a> {
    let path = path.to_owned();
    let init = pod.init_containers.iter().flatten().map(|container| ("initContainers", container));
    let all = init.chain(pod.containers.iter().map(|container| ("containers", container)));
    all.map(move |(list, container)| (format!("{path}.{list}[name={}]", container.name), container))
}

/// The containers of the pods of model servers.
pub(crate) fn containers(spec: &LLMInferenceServiceSpec) -> impl Iterator<Item = (String, &Container)> {
    pods(spec).flat_map(|(path, pod)| containers_of(&path, pod))
}

/// The containers of model servers.
pub(crate) fn main_containers(spec: &LLMInferenceServiceSpec) -> impl Iterator<Item = (String, &Container)> {
    pods(spec).filter_map(|(path, pod)| {
        let main = pod.containers.iter().find(|container| container.name == MAIN)?;
        Some((format!("{path}.containers[name={MAIN}]"), main))
    })
}

/// The elements of a container's command and arguments.
pub(crate) fn words(container: &Container) -> impl Iterator<Item = &str> {
    container.command.iter().chain(&container.args).flatten().map(String::as_str)
}

/// Like [`words`], with their paths.
pub(crate) fn placed_words<'a>(
    path: &str,
    container: &'a Container,
) -> impl Iterator<Item = (String, &'a str)> + use<'a> {
    let path = path.to_owned();
    let lists = [("command", &container.command), ("args", &container.args)];
    lists.into_iter().flat_map(move |(list, words)| {
        let path = path.clone();
        let words = words.iter().flatten().enumerate();
        words.map(move |(at, word)| (format!("{path}.{list}[{at}]"), word.as_str()))
    })
}

/// The variable of a container with this name.
pub(crate) fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a EnvVar> {
    container.env.iter().flatten().find(|variable| variable.name == name)
}

/// The probes of a container, with the names of their fields.
pub(crate) fn probes(container: &Container) -> impl Iterator<Item = (&'static str, &Probe)> {
    let all = [
        ("startupProbe", &container.startup_probe),
        ("readinessProbe", &container.readiness_probe),
        ("livenessProbe", &container.liveness_probe),
    ];
    all.into_iter().filter_map(|(field, probe)| Some((field, probe.as_ref()?)))
}

/// The name of a program, without its folder.
pub(crate) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Whether a program is a shell.
pub(crate) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&base(program))
}

/// The templates of all pods that a plan has: those of Deployments first.
pub(crate) fn templates<S>(children: &Children<S>) -> impl Iterator<Item = &PodTemplateSpec> {
    let deployments = children.deployments.iter();
    let deployments = deployments.filter_map(|deployment| Some(&deployment.spec.as_ref()?.template));
    let groups = children.leader_worker_sets.iter().map(|set| &set.spec.leader_worker_template);
    deployments.chain(groups.flat_map(|group| group.leader_template.iter().chain([&group.worker_template])))
}
