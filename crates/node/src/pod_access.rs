//! Logs of the node's pods, and connections to their ports.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use longboat_apiserver::pod_access::{LogOptions, LogStream, PodAccess, PodAccessError, PodRef, PortStream};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::container::log::{self, ContainerLog, LogError};

/// The pods that can be reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<HashMap<PodRef, Arc<PodEntry>>>>);

/// What is needed to reach one pod.
#[derive(Debug)]
pub(crate) struct PodEntry {
    pub(crate) uid: String,
    pub(crate) ip: String,
    /// Every container's log, by name.
    pub(crate) logs: Vec<(String, ContainerLog)>,
    /// The names of `spec.containers`.
    pub(crate) main: Vec<String>,
    /// The container that the pod's annotation names for requests that name none.
    pub(crate) default: Option<String>,
}

/// A pod can be reached until this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    registry: Registry,
    pod: PodRef,
    uid: String,
}

impl Registry {
    pub(crate) fn add(&self, namespace: &str, name: &str, entry: PodEntry) -> Registered {
        let pod = PodRef { namespace: namespace.to_owned(), name: name.to_owned() };
        let uid = entry.uid.clone();
        self.0.lock().insert(pod.clone(), Arc::new(entry));
        Registered { registry: self.clone(), pod, uid }
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

impl Drop for Registered {
    fn drop(&mut self) {
        let mut pods = self.registry.0.lock();
        // A new pod of the same name may have taken the place.
        if pods.get(&self.pod).is_some_and(|entry| entry.uid == self.uid) {
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

impl PodAccess for Registry {
    fn logs(
        &self,
        pod: PodRef,
        options: LogOptions,
    ) -> BoxFuture<'static, Result<LogStream, PodAccessError>> {
        let opened = self.get(&pod).and_then(|entry| {
            let (container, log) = entry.log(&pod, options.container.as_deref())?;
            log::open(log, &options).map_err(|error| match error {
                LogError::NotStarted => PodAccessError::BadRequest(format!(
                    "container {container:?} in pod {:?} is waiting to start: ContainerCreating",
                    pod.name
                )),
                LogError::NoPrevious => PodAccessError::BadRequest(format!(
                    "previous terminated container {container:?} in pod {:?} not found",
                    pod.name
                )),
                LogError::Io(error) => {
                    PodAccessError::Internal(format!("cannot read the log of {container:?}: {error}"))
                }
            })
        });
        async { opened }.boxed()
    }

    fn connect(
        &self,
        pod: PodRef,
        port: u16,
    ) -> BoxFuture<'static, Result<Box<dyn PortStream>, PodAccessError>> {
        let entry = self.get(&pod);
        async move {
            let entry = entry?;
            match TcpStream::connect((entry.ip.as_str(), port)).await {
                Ok(stream) => Ok(Box::new(stream) as Box<dyn PortStream>),
                Err(error) => Err(PodAccessError::Internal(format!(
                    "cannot connect to port {port} of pod {}: {error}",
                    pod.name
                ))),
            }
        }
        .boxed()
    }
}
