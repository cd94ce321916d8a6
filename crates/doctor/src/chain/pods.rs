//! The cause if pods do not become ready.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Pod},
};
use longboat_api::{names::STORAGE_INITIALIZER, shell::is_word};
use longboat_key::{Name, Namespace};
pub(crate) use longboat_plan::pods::is_ready;
use longboat_plan::pods::{self, Fault, PodFailure, SET_NAME};

use super::absent;
use crate::{facts::Facts, finding::Cause};

/// Returns why pods of a Deployment are not ready.
pub(crate) fn of_deployment(facts: &Facts, deployment: &Deployment) -> Option<Cause> {
    let labels = deployment.spec.as_ref()?.selector.match_labels.as_ref()?;
    first(facts, Namespace::of(&deployment.metadata), labels)
}

/// Like [`of_deployment`], for the pods of a LeaderWorkerSet.
pub(crate) fn of_group(facts: &Facts, namespace: Namespace<&str>, name: Name<&str>) -> Option<Cause> {
    first(facts, namespace, &BTreeMap::from([(SET_NAME.to_owned(), name.into())]))
}

/// Pods with these labels.
pub(crate) fn selected<'a>(
    facts: &'a Facts,
    namespace: Namespace<&'a str>,
    labels: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a Pod> {
    pods::selected(&facts.pods, namespace, labels)
}

/// Returns why pods with these labels are not ready.
pub(crate) fn first(
    facts: &Facts,
    namespace: Namespace<&str>,
    labels: &BTreeMap<String, String>,
) -> Option<Cause> {
    let pods = selected(facts, namespace, labels)
        .filter(|pod| pod.metadata.deletion_timestamp.is_none() && !is_ready(pod));
    let causes: Vec<Cause> = pods.map(|pod| cause(facts, pod)).collect();
    // A container that fails says more than one that waits.
    let telling = causes.iter().position(|cause| cause.fault != "PodStarting").unwrap_or(0);
    causes.into_iter().nth(telling)
}

/// Why a pod is not ready.
fn cause(facts: &Facts, pod: &Pod) -> Cause {
    let namespace = Namespace::of(&pod.metadata);
    let name = Name::of(&pod.metadata);
    let step = format!("Pod {namespace}/{name}");
    if let Some(failure) = pods::failure(pod) {
        return explained(facts, pod, failure).through(step);
    }
    let status = pod.status.clone().unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    if node.is_empty() && status.container_statuses.is_none() && status.init_container_statuses.is_none() {
        let cause = "the scheduler has not chosen a node for the pod, and does not say why";
        let fix = "run `kubectl get nodes` to see whether there is a node, and check that the cluster's scheduler runs";
        return Cause::new("PodNotScheduled", cause, fix).through(step);
    }
    // If a volume is missing, the containers of the pod wait without a reason, but an event names the volume.
    let event = events(facts, pod, &["FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"]).next();
    if let Some(event) = event {
        let message = event.message.clone().unwrap_or_default();
        let fix = if let Some(fix) = absent::of_pod(pod, &message) {
            fix
        } else if message.contains("not found") {
            format!("create the object that the volume names in namespace {namespace}")
        } else if message.contains("No space left on device") || message.contains("no space left on device") {
            "free space on the disk of the node: `df` shows how full it is".to_owned()
        } else {
            format!(
                "correct the volume that the message names in the pod template; `kubectl describe pod -n {namespace} {name}` shows whether \
                 the kubelet mounts it then"
            )
        };
        return Cause::new("VolumeNotMounted", message, fix).through(step);
    }
    let logs = format!("kubectl logs -n {namespace} {name} --all-containers");
    let unready = status.container_statuses.iter().flatten().find(|container| !container.ready);
    let running = unready.filter(|found| found.state.as_ref().is_some_and(|state| state.running.is_some()));
    // A container whose start probe has succeeded has been started for good, and an earlier run of it is over.
    let is_current = |event: &&Event| {
        let message = event.message.as_deref().unwrap_or_default();
        let is_started = running.and_then(|found| found.started) == Some(true);
        let since = running.and_then(|found| found.state.as_ref()?.running.as_ref()?.started_at.as_ref());
        let at = event.last_timestamp.as_ref();
        let is_old = at.zip(since).is_some_and(|(at, since)| at.0 < since.0);
        let is_over = is_started && message.starts_with("Startup probe failed");
        !is_old && !is_over
    };
    let probe = events(facts, pod, &["Unhealthy"]).find(is_current);
    match (running, probe) {
        (Some(container), Some(event)) => {
            let message = event.message.clone().unwrap_or_default();
            Cause::new(
                "ProbeFails",
                format!("container {} runs but is not ready: {message}", container.name),
                scheme_fix(&message).or_else(|| silence_fix(&message, namespace, name)).unwrap_or(logs),
            )
        }
        (Some(container), None) => {
            let cause = format!(
                "container {} runs but is not ready yet; it may still be loading the model",
                container.name
            );
            Cause::new("PodStarting", cause, logs)
        }
        _ => Cause::new(
            "PodStarting",
            status.message.unwrap_or_else(|| "the container is starting".to_owned()),
            logs,
        ),
    }
    .through(step)
}

/// The events of a pod with one of these reasons, the newest first.
fn events<'a>(facts: &'a Facts, pod: &'a Pod, reasons: &'a [&str]) -> impl Iterator<Item = &'a Event> {
    // They are sorted by time.
    facts.events.iter().rev().filter(move |event| {
        let about = &event.involved_object;
        about.kind.as_deref() == Some("Pod")
            && (about.name.as_ref(), about.namespace.as_ref())
                == (pod.metadata.name.as_ref(), pod.metadata.namespace.as_ref())
            && event.reason.as_deref().is_some_and(|reason| reasons.contains(&reason))
    })
}

/// What to do if a probe and its server do not agree on TLS.
fn scheme_fix(message: &str) -> Option<String> {
    // Both are words of Go's HTTP client, which the kubelet repeats. The second is about the TLS alert of the server.
    if message.contains("server gave HTTP response to HTTPS client") {
        return Some(
            "set `scheme: HTTP` in the probe, or `enableLLMInferenceServiceTLS: true` in the key `ingress` of the platform's settings"
                .to_owned(),
        );
    }
    message.contains("malformed HTTP response").then(|| {
        "set `scheme: HTTPS` in the probe, or serve without TLS: remove the engine's `--ssl-…` flags, or set \
         `enableLLMInferenceServiceTLS: false` in the key `ingress` of the platform's settings"
            .to_owned()
    })
}

/// What to do if a server accepts connections and does not answer. While a model loads, nothing listens, so this is not the reason.
fn silence_fix(message: &str, namespace: Namespace<&str>, name: Name<&str>) -> Option<String> {
    message.contains("context deadline exceeded").then(|| {
        format!(
            "the process hangs, or has too little CPU to answer in time: `kubectl logs -n {namespace} {name} --all-containers` shows \
             what it did last, and `kubectl delete pod -n {namespace} {name}` replaces the pod at once"
        )
    })
}

fn unschedulable(facts: &Facts, pod: &Pod, message: &str) -> Cause {
    let namespace = Namespace::of(&pod.metadata);
    let gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    let gates: Vec<&str> = gates.map(|gate| gate.name.as_str()).collect();
    if !gates.is_empty() {
        let cause = format!("{} ({})", message.trim_end_matches('.'), gates.join(", "));
        let fix = "remove schedulingGates from the pod template, or see to it that their controllers remove them from the pod: until \
                   then, no scheduler looks at the pod";
        return Cause::new("SchedulingGated", cause, fix);
    }
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    for claim in volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
        let name = claim.claim_name.as_str();
        let found = facts
            .claims
            .iter()
            .find(|found| Namespace::of(&found.metadata) == namespace && *Name::of(&found.metadata) == *name);
        let phase = found.and_then(|found| found.status.as_ref()?.phase.clone());
        match (found, phase.as_deref()) {
            (None, _) => {
                let fix =
                    format!("create the PersistentVolumeClaim in {namespace}, or change spec.model.uri");
                return Cause::new(
                    "ClaimMissing",
                    format!("there is no PersistentVolumeClaim {namespace}/{name}"),
                    fix,
                );
            }
            (Some(_), Some("Bound")) => {}
            (Some(_), phase) => {
                let cause =
                    format!("PersistentVolumeClaim {namespace}/{name} is {}", phase.unwrap_or("Pending"));
                let fix = format!(
                    "run `kubectl describe pvc -n {namespace} {name}`: the claim needs a storage class, or \
                     a volume that matches it"
                );
                return Cause::new("ClaimNotBound", cause, fix);
            }
        }
    }
    // kube-scheduler's words: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}.`
    let fix = match message.split("Insufficient ").nth(1).and_then(|rest| rest.split([',', '.', ' ']).next())
    {
        Some(_)
            if message.contains("Insufficient nvidia.com") || message.contains("Insufficient amd.com") =>
        {
            "add nodes with free devices, check that the device plugin runs, or request fewer devices in \
             the pod template"
                .to_owned()
        }
        Some(resource) => format!("free {resource} on a node, or request less of it in the pod template"),
        None if message.contains("Too many pods") => {
            "lower spec.replicas, delete other pods, or add nodes: every node takes a limited number of pods"
                .to_owned()
        }
        None if message.contains("untolerated taint") => {
            "add tolerations to the pod template, or add nodes without that taint".to_owned()
        }
        None if message.contains("affinity") || message.contains("selector") => {
            "change nodeSelector or affinity in the pod template, or label a node: no node has these labels"
                .to_owned()
        }
        None => format!(
            "change what the message names in the pod template, or on the nodes (`kubectl describe nodes`); `kubectl describe pod -n \
             {namespace} {}` shows what the scheduler says then",
            pod.metadata.name.as_deref().unwrap_or_default()
        ),
    };
    Cause::new("PodUnschedulable", message, fix)
}

/// Returns what the probe said for which the kubelet stopped the last instance of a container. Then its exit code and logs say little.
fn failed_probe(facts: &Facts, pod: &Pod, container: &str) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.iter().flatten();
    let status = statuses.into_iter().find(|status| status.name == container)?;
    let ended =
        [&status.state, &status.last_state].into_iter().flatten().find_map(|one| one.terminated.as_ref());
    let started = ended.and_then(|ended| ended.started_at.as_ref());
    // An instance that started later ended on its own.
    let killing = events(facts, pod, &["Killing"])
        .find(|event| {
            started.is_none_or(|started| event.last_timestamp.as_ref().is_none_or(|at| at >= started))
        })?
        .message
        .as_deref()?;
    // The kubelet's words: `Container main failed liveness probe, will be restarted`, and `Liveness probe failed: …`.
    let probe = ["Liveness", "Startup"].into_iter().find(|probe| {
        killing.starts_with(&format!("Container {container} failed {} probe", probe.to_lowercase()))
    })?;
    let mut said = events(facts, pod, &["Unhealthy"]).filter_map(|event| event.message.as_ref());
    said.find(|message| message.starts_with(probe)).cloned()
}

/// The registry of a container's image, as docker names it.
fn registry<'a>(pod: &'a Pod, container: &str) -> &'a str {
    let spec = pod.spec.iter();
    let mut containers =
        spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let image = containers.find(|found| found.name == container).and_then(|found| found.image.as_deref());
    // The first part of `a/b` is a registry only if it has a dot or a port; else docker.io is meant.
    let host = image.and_then(|image| image.split_once('/')).map(|(host, _)| host);
    host.filter(|host| host.contains(['.', ':']) && is_word(host)).unwrap_or("docker.io")
}

/// Returns the cause of a pod's failure, with what to do.
fn explained(facts: &Facts, pod: &Pod, failure: PodFailure) -> Cause {
    let namespace = Namespace::of(&pod.metadata);
    let name = Name::of(&pod.metadata);
    let PodFailure { fault, container, text } = failure;
    let container = container.unwrap_or_default();
    let logs = format!("kubectl logs -n {namespace} {name} -c {container} --previous");
    match fault {
        Fault::Unschedulable => unschedulable(facts, pod, &text),
        Fault::ImageNotPulled => {
            let fix = format!(
                "correct the image in the pod template. If its registry is private, run `kubectl create secret docker-registry -n \
                 {namespace} registry --docker-server={} --docker-username=USER --docker-password=PASSWORD`, and set `imagePullSecrets: [{{name: \
                 registry}}]` in the pod template",
                registry(pod, &container)
            );
            Cause::new("ImageNotPulled", text, fix)
        }
        Fault::ContainerNotCreated => {
            let fix = absent::of_pod(pod, &text).unwrap_or_else(|| {
                format!(
                    "create what the message names in namespace {namespace}, or correct the reference in the pod template"
                )
            });
            Cause::new("ContainerNotCreated", text, fix)
        }
        // A local cluster reports this for images and commands for which the machine has no program.
        Fault::NoLocalProgram => {
            let fix = "set a command that exists on this machine in the pod template, or run the service on \
                       a cluster";
            Cause::new("NoLocalProgram", text, fix.to_owned())
        }
        Fault::ContainerWaits => {
            let fix = format!(
                "wait, or remove what the message names; `kubectl describe pod -n {namespace} {name}` shows what the kubelet tries"
            );
            Cause::new("ContainerWaits", text, fix)
        }
        Fault::OutOfMemory => {
            let fix = format!("raise resources.limits.memory of container {container} in the pod template");
            Cause::new("OutOfMemory", text, fix)
        }
        Fault::ContainerCrashes if container == STORAGE_INITIALIZER && facts.local => {
            let fix = "correct what the message names, use a model on this machine (`spec.model.uri: file:///FOLDER`), or `--engine sim`: \
                       the simulator needs no model";
            Cause::new("ModelNotFetched", text, fix.to_owned())
        }
        Fault::ContainerCrashes if container == STORAGE_INITIALIZER => {
            let fix = format!(
                "run `{logs}`; check the address in spec.model.uri, its credentials, and the network \
                 connection to the hub or store"
            );
            Cause::new("ModelNotFetched", text, fix)
        }
        Fault::ContainerCrashes => match failed_probe(facts, pod, &container) {
            Some(probe) => {
                let fix = scheme_fix(&probe).or_else(|| silence_fix(&probe, namespace, name)).unwrap_or(logs);
                Cause::new("ProbeFails", format!("{text}, because the kubelet stopped it: {probe}"), fix)
            }
            None => Cause::new("ContainerCrashes", text, logs),
        },
    }
}
