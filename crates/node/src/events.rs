//! Events, as the components of a cluster write them.
//!
//! Like Kubernetes' recorder, a repeated event increments the count of the first one. One task writes the events from a
//! bounded queue: they are for people, and no other task waits for them.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use longboat_watch::text_of;
use serde_json::json;
use tokio::sync::mpsc;

/// The size of the queue. A starting pod has about five events, so the queue holds the start of fifty pods. Further events
/// are dropped.
const MAX_QUEUED_EVENTS: usize = 256;

/// How many events to remember for counting. Beyond that, all are forgotten, and repeated events are written as new ones.
const MAX_CACHED_EVENTS: usize = 1024;

/// The component whose events name the node.
const KUBELET: &str = "kubelet";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

/// An event to write.
#[derive(Debug)]
struct EventRequest {
    about: ObjectReference,
    content: EventContent,
    at: Timestamp,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EventContent {
    component: &'static str,
    severity: Severity,
    reason: &'static str,
    message: String,
}

/// Records the events of one component. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    queue: mpsc::Sender<EventRequest>,
    component: &'static str,
}

impl Recorder {
    /// Creates the kubelet's recorder, and the task that writes events. The caller runs the task, which ends when every clone of the
    /// recorder is dropped.
    pub(crate) fn new(client: Client, node: String) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
        (Self { queue, component: KUBELET }, write(client, node, receiver))
    }

    /// Returns the recorder of another component.
    pub(crate) fn of(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    /// Records an event about an object.
    pub(crate) fn publish<K: Resource<DynamicType = ()>>(
        &self,
        about: &K,
        severity: Severity,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.publish_about(reference(about), severity, reason, message.into());
    }

    /// Records an event about what a reference names, such as a container.
    pub(crate) fn publish_about(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        let at = Timestamp::now();
        let content = EventContent { component: self.component, severity, reason, message };
        if self.queue.try_send(EventRequest { about, content, at }).is_err() {
            tracing::debug!(reason, "Dropped an event.");
        }
    }
}

/// Returns a reference to an object in the form that events have.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let resource_version = object.meta().resource_version.clone();
    ObjectReference { resource_version, ..object.object_ref(&()) }
}

/// The uid and the field of what a repeated event is about, and what it says.
type Key = (Option<String>, Option<String>, EventContent);

/// Writes the events of a queue. Remembers the name and the count of each.
async fn write(client: Client, node: String, mut queue: mpsc::Receiver<EventRequest>) {
    let mut written: HashMap<Key, (String, i32)> = HashMap::new();
    while let Some(request) = queue.recv().await {
        let EventRequest { about, content, at } = &request;
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let key = (about.uid.clone(), about.field_path.clone(), content.clone());
        if let Some((name, count)) = written.get_mut(&key) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": Time(*at)});
            if api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
                continue;
            }
            // The event has expired or was deleted, so write a new one.
        }
        // The time in nanoseconds makes an event's name unique, as in Kubernetes.
        let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), at.as_nanosecond());
        match api.create(&PostParams::default(), &event(request, &node, name.clone(), namespace)).await {
            Ok(_) => {
                if written.len() >= MAX_CACHED_EVENTS {
                    written.clear();
                }
                written.insert(key, (name, 1));
            }
            Err(error) => tracing::debug!(error = %text_of(&error), "Cannot write an event."),
        }
    }
}

fn event(request: EventRequest, node: &str, name: String, namespace: String) -> Event {
    let EventRequest { about, content, at } = request;
    let host = (content.component == KUBELET).then(|| node.to_owned());
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
        involved_object: about,
        reason: Some(content.reason.to_owned()),
        message: Some(content.message),
        type_: Some(match content.severity {
            Severity::Normal => "Normal".to_owned(),
            Severity::Warning => "Warning".to_owned(),
        }),
        source: Some(EventSource { component: Some(content.component.to_owned()), host: host.clone() }),
        reporting_component: Some(content.component.to_owned()),
        reporting_instance: host,
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        count: Some(1),
        ..Event::default()
    }
}
