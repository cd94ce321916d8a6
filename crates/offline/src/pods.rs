//! The pods of a service and what is in them: those of a spec, with the paths of their fields, and those of a plan.

use k8s_openapi::api::core::v1::{Container, EnvVar, KeyToPath, PodSpec, PodTemplateSpec, Probe};
pub(crate) use longboat_api::names::MAIN_CONTAINER as MAIN;
use longboat_api::{
    engine::{Engine, VLLM},
    v1alpha2::{LLMInferenceServiceSpec, WorkloadSpec},
};
use longboat_plan::Children;

const SHELLS: [&str; 4] = ["ash", "bash", "dash", "sh"];

/// The workload that has a field at this path.
pub(crate) fn half_of<'a>(
    spec: &'a LLMInferenceServiceSpec,
    path: &str,
) -> Option<(&'static str, &'a WorkloadSpec)> {
    // The path of the service itself, `spec`, begins that of prefill.
    spec.workloads().filter(|(half, _)| path.starts_with(half)).last()
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
    spec.server_pods().flat_map(|(path, pod)| containers_of(path, pod))
}

/// The containers of model servers.
pub(crate) fn main_containers(spec: &LLMInferenceServiceSpec) -> impl Iterator<Item = (String, &Container)> {
    spec.server_pods().filter_map(|(path, pod)| {
        let main = pod.containers.iter().find(|container| container.name == MAIN)?;
        Some((format!("{path}.containers[name={MAIN}]"), main))
    })
}

/// Whether a container starts vLLM.
pub(crate) fn is_vllm(container: &Container) -> bool {
    Engine::of_command(container).is_some_and(|engine| engine.name == VLLM.name)
}

/// Whether a container runs llm-d's simulator, which has flags of its own and takes only the name from its model.
pub(crate) fn is_simulator(container: &Container) -> bool {
    container.image.as_deref().is_some_and(|image| image.contains("inference-sim"))
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

/// Like [`placed_words`], split at spaces: a script is one element with many words.
pub(crate) fn split_words<'a>(
    path: &str,
    container: &'a Container,
) -> impl Iterator<Item = (String, &'a str)> + use<'a> {
    placed_words(path, container)
        .flat_map(|(at, element)| element.split_ascii_whitespace().map(move |word| (at.clone(), word)))
}

/// A Secret or a ConfigMap without which a container or a volume of a pod does not start.
pub(crate) struct NeededObject<'a> {
    pub(crate) kind: &'static str,
    pub(crate) name: &'a str,
    /// The keys that the pod names, with their paths.
    pub(crate) keys: Vec<(String, &'a str)>,
}

/// The Secrets and ConfigMaps that a pod needs, in the order of their fields.
pub(crate) fn needed_objects<'a>(path: &str, pod: &'a PodSpec) -> Vec<NeededObject<'a>> {
    let mut all = Vec::new();
    let mut add = |kind, name: &'a str, optional: Option<bool>, keys| {
        if optional != Some(true) {
            all.push(NeededObject { kind, name, keys });
        }
    };
    for (path, container) in containers_of(path, pod) {
        for variable in container.env.iter().flatten() {
            let path = format!("{path}.env[name={}].valueFrom", variable.name);
            let source = variable.value_from.as_ref();
            if let Some(one) = source.and_then(|source| source.secret_key_ref.as_ref()) {
                let key = (format!("{path}.secretKeyRef.key"), one.key.as_str());
                add("Secret", &one.name, one.optional, vec![key]);
            }
            if let Some(one) = source.and_then(|source| source.config_map_key_ref.as_ref()) {
                let key = (format!("{path}.configMapKeyRef.key"), one.key.as_str());
                add("ConfigMap", &one.name, one.optional, vec![key]);
            }
        }
        for source in container.env_from.iter().flatten() {
            if let Some(one) = &source.secret_ref {
                add("Secret", &one.name, one.optional, Vec::new());
            }
            if let Some(one) = &source.config_map_ref {
                add("ConfigMap", &one.name, one.optional, Vec::new());
            }
        }
    }
    let keys = |path: String, items: &'a Option<Vec<KeyToPath>>| {
        let items = items.iter().flatten().enumerate();
        items.map(|(at, item)| (format!("{path}.items[{at}].key"), item.key.as_str())).collect()
    };
    for volume in pod.volumes.iter().flatten() {
        let path = format!("{path}.volumes[name={}]", volume.name);
        if let Some(one) = &volume.secret {
            let name = one.secret_name.as_deref().unwrap_or_default();
            add("Secret", name, one.optional, keys(format!("{path}.secret"), &one.items));
        }
        if let Some(one) = &volume.config_map {
            add("ConfigMap", &one.name, one.optional, keys(format!("{path}.configMap"), &one.items));
        }
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for (at, source) in sources.enumerate() {
            let path = format!("{path}.projected.sources[{at}]");
            if let Some(one) = &source.secret {
                add("Secret", &one.name, one.optional, keys(format!("{path}.secret"), &one.items));
            }
            if let Some(one) = &source.config_map {
                add("ConfigMap", &one.name, one.optional, keys(format!("{path}.configMap"), &one.items));
            }
        }
    }
    all
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
