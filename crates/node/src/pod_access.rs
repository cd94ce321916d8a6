//! Access to the node's pods: logs, connections to ports, and processes in containers.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodStatus;
use longboat_apiserver::pod_access::{
    ExecOptions, Execution, LogOptions, LogStream, PodAccess, PodAccessError, PodRef, PodUsage, PortStream,
    Resources,
};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::container::exec;
use crate::container::log::{self, ContainerLog};
use crate::probe::Target;
use crate::usage;

/// The pods that can be accessed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<HashMap<PodRef, Arc<PodEntry>>>>);

/// The data that is needed to access one pod.
#[derive(Debug)]
pub(crate) struct PodEntry {
    pub(crate) uid: String,
    pub(crate) ip: String,
    /// The logs of all containers, by name.
    pub(crate) logs: Vec<(String, ContainerLog)>,
    /// The running containers, by name.
    pub(crate) running: Mutex<HashMap<String, LiveContainer>>,
    /// What the node reports of the pod.
    pub(crate) status: Mutex<PodStatus>,
    /// The names of `spec.containers`.
    pub(crate) main: Vec<String>,
    /// The container that the pod's annotation names as the default for requests.
    pub(crate) default: Option<String>,
}

/// A running container.
#[derive(Debug, Clone)]
pub(crate) struct LiveContainer {
    pub(crate) target: Target,
    /// The process group of the container.
    pub(crate) group: Option<i32>,
}

/// Registers a pod until this is dropped.
#[derive(Debug)]
pub(crate) struct PodRegistration {
    registry: Registry,
    pod: PodRef,
    entry: Arc<PodEntry>,
}

impl PodRegistration {
    /// Makes this container available for commands.
    pub(crate) fn runs(&self, container: &str, live: LiveContainer) {
        self.entry.running.lock().insert(container.to_owned(), live);
    }

    /// Called when the node reports a new status of the pod.
    pub(crate) fn reports(&self, status: &PodStatus) {
        self.entry.status.lock().clone_from(status);
    }

    /// Called when this container's process has ended.
    pub(crate) fn ended(&self, container: &str) {
        self.entry.running.lock().remove(container);
    }
}

impl Registry {
    pub(crate) fn add(&self, namespace: &str, name: &str, entry: PodEntry) -> PodRegistration {
        let pod = PodRef { namespace: namespace.to_owned(), name: name.to_owned() };
        let entry = Arc::new(entry);
        self.0.lock().insert(pod.clone(), Arc::clone(&entry));
        PodRegistration { registry: self.clone(), pod, entry }
    }

    fn get(&self, pod: &PodRef) -> Result<Arc<PodEntry>, PodAccessError> {
        self.0.lock().get(pod).cloned().ok_or_else(|| {
            PodAccessError::NotFound(format!(
                "pod {:?} in namespace {:?} does not run here",
                pod.name, pod.namespace
            ))
        })
    }
}

impl Drop for PodRegistration {
    fn drop(&mut self) {
        let mut pods = self.registry.0.lock();
        // A new pod with the same name may have replaced the entry.
        if pods.get(&self.pod).is_some_and(|entry| entry.uid == self.entry.uid) {
            pods.remove(&self.pod);
        }
    }
}

impl PodEntry {
    fn log(&self, pod: &PodRef, container: Option<&str>) -> Result<(&str, &ContainerLog), PodAccessError> {
        let wanted = match (container, self.default.as_deref(), self.main.as_slice()) {
            (Some(name), ..) | (None, Some(name), _) => name,
            (None, None, [only]) => only,
            _ => {
                return Err(PodAccessError::BadRequest(format!(
                    "a container name must be specified for pod {}, choose one of: [{}]",
                    pod.name,
                    self.main.join(" ")
                )));
            }
        };
        self.logs.iter().find(|(name, _)| name == wanted).map(|(name, log)| (name.as_str(), log)).ok_or_else(
            || PodAccessError::BadRequest(format!("container {wanted} is not valid for pod {}", pod.name)),
        )
    }
}

/// Returns the restart count of the instance whose log is asked for, or why there is none. A container that waits for its
/// restart shows the log of its last instance. Kubernetes: pkg/kubelet/kubelet_pods.go validateContainerLogStatus.
fn instance(status: &PodStatus, container: &str, previous: bool) -> Result<u32, String> {
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let status = lists.into_iter().flatten().flatten().find(|status| status.name == container);
    // The node has not reported anything yet.
    let Some(status) = status else { return Err("is waiting to start: ContainerCreating".to_owned()) };
    let number = |id: Option<&String>| id?.rsplit('/').next()?.parse().ok();
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last = last.and_then(|end| number(end.container_id.as_ref()));
    if previous {
        return last.ok_or_else(|| "not found".to_owned());
    }
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let own = if waiting.is_some() { last } else { number(status.container_id.as_ref()) };
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or("ContainerCreating");
    own.ok_or_else(|| format!("is waiting to start: {reason}"))
}

#[async_trait]
impl PodAccess for Registry {
    async fn logs(&self, pod: PodRef, options: LogOptions) -> Result<LogStream, PodAccessError> {
        let entry = self.get(&pod)?;
        let (container, log) = entry.log(&pod, options.container.as_deref())?;
        let instance = instance(&entry.status.lock(), container, options.previous)
            .map_err(|why| format!("{container:?} in pod {:?} {why}", pod.name));
        let instance = match instance {
            Ok(instance) => instance,
            Err(why) if options.previous => {
                return Err(PodAccessError::BadRequest(format!("previous terminated container {why}")));
            }
            Err(why) => return Err(PodAccessError::BadRequest(format!("container {why}"))),
        };
        log::open(log, instance, &options).map_err(|error| {
            PodAccessError::Internal(format!("cannot read the log of {container:?}: {error}"))
        })
    }

    async fn exec(&self, pod: PodRef, options: ExecOptions) -> Result<Execution, PodAccessError> {
        let entry = self.get(&pod)?;
        let (container, _) = entry.log(&pod, options.container.as_deref())?;
        let live = entry.running.lock().get(container).cloned().ok_or_else(|| {
            PodAccessError::BadRequest(format!(
                "cannot run a command in container {container} of pod {}: the container is not running",
                pod.name
            ))
        })?;
        exec::start(&live.target, &options)
    }

    async fn usage(&self) -> Vec<PodUsage> {
        let pods: Vec<_> =
            self.0.lock().iter().map(|(pod, entry)| (pod.clone(), Arc::clone(entry))).collect();
        // Without the locks, because this takes half a second.
        let measured = usage::of_groups().await;
        let of_pod = |(pod, entry): (PodRef, Arc<PodEntry>)| {
            let running = entry.running.lock();
            let mut containers: Vec<(String, Resources)> = running
                .iter()
                .map(|(name, live)| {
                    let group = live.group.and_then(|group| measured.get(&group).copied());
                    (name.clone(), group.unwrap_or_default())
                })
                .collect();
            drop(running);
            containers.sort_by(|(a, _), (b, _)| a.cmp(b));
            PodUsage { pod, containers }
        };
        pods.into_iter().map(of_pod).collect()
    }

    async fn node_usage(&self) -> Resources {
        usage::of_machine().await
    }

    async fn attach(&self, pod: PodRef, options: ExecOptions) -> Result<Execution, PodAccessError> {
        if options.stdin {
            let message = format!(
                "the containers of pod {} do not read input: attach without -i, or use `kubectl exec -i`",
                pod.name
            );
            return Err(PodAccessError::BadRequest(message));
        }
        let from_now = LogOptions {
            container: options.container,
            follow: true,
            tail_lines: Some(0),
            ..LogOptions::default()
        };
        Ok(exec::attached(self.logs(pod, from_now).await?))
    }

    async fn connect(&self, pod: PodRef, port: u16) -> Result<Box<dyn PortStream>, PodAccessError> {
        let entry = self.get(&pod)?;
        match TcpStream::connect((entry.ip.as_str(), port)).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(PodAccessError::Internal(format!(
                "cannot connect to port {port} of pod {}: {error}",
                pod.name
            ))),
        }
    }
}
