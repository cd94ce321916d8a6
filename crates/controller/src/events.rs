//! Events about services and configs.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::Request,
};
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use longboat_key::{Key, Uid};
use longboat_watch::{has_code, is_temporary, text_of};

use crate::terminating_namespaces::TerminatingNamespaces;

/// The most events that wait to be written: those of a thousand services at once. Further events are dropped. Events only
/// inform people, and nothing depends on them.
const MAX_QUEUED_EVENTS: usize = 16 * 1024;
/// The longest time that an event waits for running reconciles. If reconciles never stop, one event per second is written.
const MAX_EVENT_DELAY: Duration = Duration::from_secs(1);
/// The attempts to write an event while the API server is unreachable or overloaded, for about half a minute.
const MAX_ATTEMPTS: u32 = 32;
/// The pause after the first attempt, and the longest pause between later ones.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// The time limit for the last events when the process ends.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// The number of events that are remembered, so that a repetition increases a count instead of creating an event.
const MAX_CACHED_EVENTS: usize = 4096;
/// The longest part of an object's name in an event's name, which also contains a hash.
const MAX_NAME_BYTES: usize = 200;

/// The object of an event.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
    pub(crate) kind: &'static str,
    /// The name of the reporting controller.
    pub(crate) source: &'static str,
}

/// Queues events for [`write_all`].
#[derive(Clone, Debug)]
pub(crate) struct EventSink {
    sender: mpsc::Sender<EventRequest>,
    /// How many reconciles are running.
    running: watch::Sender<usize>,
    /// Namespaces in which no event can be written.
    pub(crate) ending: TerminatingNamespaces,
}

/// The receiving end of the event queue.
pub(crate) struct EventQueue {
    receiver: mpsc::Receiver<EventRequest>,
    running: watch::Receiver<usize>,
    ending: TerminatingNamespaces,
}

/// Held while a reconcile runs. Half of the requests for a new service are events: they wait until its children are
/// there.
pub(crate) struct ReconcileGuard<'a>(&'a EventSink);

#[derive(Debug)]
pub(crate) struct EventRequest {
    subject: Subject,
    type_: &'static str,
    reason: &'static str,
    message: String,
    /// Whether repetitions of the event are ignored instead of counted.
    once: bool,
}

/// Creates a sink and its receiving end.
pub(crate) fn channel() -> (EventSink, EventQueue) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
    let (running, under_way) = watch::channel(0);
    let ending = TerminatingNamespaces::default();
    (
        EventSink { sender, running, ending: ending.clone() },
        EventQueue { receiver, running: under_way, ending },
    )
}

// === impl EventSink ===

impl EventSink {
    /// Records something that happened.
    pub(crate) fn normal(&self, subject: &Subject, reason: &'static str, message: String) {
        self.send(EventRequest { subject: subject.clone(), type_: "Normal", reason, message, once: false });
    }

    /// Records something that the user should act on.
    pub(crate) fn warning(&self, subject: &Subject, reason: &'static str, message: String) {
        self.send(EventRequest { subject: subject.clone(), type_: "Warning", reason, message, once: false });
    }

    /// Records such a thing once, even if many reconciles report it.
    pub(crate) fn warning_once(&self, subject: &Subject, reason: &'static str, message: String) {
        self.send(EventRequest { subject: subject.clone(), type_: "Warning", reason, message, once: true });
    }

    /// A reconcile begins.
    pub(crate) fn reconciling(&self) -> ReconcileGuard<'_> {
        self.running.send_modify(|running| *running += 1);
        ReconcileGuard(self)
    }

    fn send(&self, note: EventRequest) {
        if let Err(mpsc::error::TrySendError::Full(note)) = self.sender.try_send(note) {
            tracing::debug!(
                object = %note.subject.key,
                reason = note.reason,
                "Dropped an event: the queue is full."
            );
        }
    }
}

// === impl ReconcileGuard ===

impl Drop for ReconcileGuard<'_> {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

/// Writes events while no reconcile is running. Returns when the last sink is dropped.
pub(crate) async fn write_all(client: Client, mut notes: EventQueue) {
    let mut counts: HashMap<String, i32> = HashMap::new();
    while let Some(note) = notes.receiver.recv().await {
        // Without sinks no reconcile runs.
        let _ = timeout(MAX_EVENT_DELAY, notes.running.wait_for(|running| *running == 0)).await;
        // Asked only now, because the namespace may have been deleted while the event waited.
        if notes.ending.contains(note.subject.key.namespace.as_deref()) {
            continue;
        }
        if counts.len() >= MAX_CACHED_EVENTS {
            // A forgotten event is found again by its name, under which the API server creates no second one.
            counts.clear();
        }
        write(&client, &note, &mut counts).await;
    }
}

/// Writes one event. Later events wait until this one is written or given up.
async fn write(client: &Client, note: &EventRequest, counts: &mut HashMap<String, i32>) {
    let name = name_of(note);
    let place = format!("{}/{name}", note.subject.key.namespace);
    if note.once && counts.contains_key(&place) {
        return;
    }
    let api: Api<Event> = Api::namespaced(client.clone(), &note.subject.key.namespace);
    let count = counts.get(&place).map(|count| count + 1);
    let mut pause = PAUSES[0];
    for attempt in 1..=MAX_ATTEMPTS {
        let error = match try_write(&api, note, &name, count, attempt > 1).await {
            Ok(count) => {
                counts.insert(place, count);
                return;
            }
            Err(error) => error,
        };
        if !is_temporary(&error) || attempt == MAX_ATTEMPTS {
            tracing::debug!(event = %name, error = %text_of(&error), "Cannot write an event.");
            break;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
    // The last attempt may have written it, so the next event asks the API server for the count.
    counts.remove(&place);
}

/// Updates the count of an event if `count` is known, and creates the event otherwise. Returns how often the event has
/// happened.
async fn try_write(
    api: &Api<Event>,
    note: &EventRequest,
    name: &str,
    count: Option<i32>,
    again: bool,
) -> Result<i32, kube::Error> {
    if let Some(count) = count {
        match count_on(api, name, count).await {
            // It has expired: API servers delete events after an hour by default.
            Err(error) if has_code(&error, 404) => {}
            counted => return counted,
        }
    }
    match create(api, &event_of(note, name)).await {
        Ok(()) => Ok(1),
        // The event was written before this process started, or by an attempt whose response was lost.
        Err(error) if has_code(&error, 409) && (note.once || again) => Ok(1),
        Err(error) if has_code(&error, 409) => {
            let known = api.get_opt(name).await?.and_then(|event| event.count);
            count_on(api, name, known.unwrap_or(1) + 1).await
        }
        Err(error) => Err(error),
    }
}

/// Creates an event. The response is not decoded, because nearly half of all writes are events.
async fn create(api: &Api<Event>, event: &Event) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url()).create(&PostParams::default(), body);
    let request = request.map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request_text(request).await.map(drop)
}

async fn count_on(api: &Api<Event>, name: &str, count: i32) -> Result<i32, kube::Error> {
    let patch = json!({"count": count, "lastTimestamp": Time(now())});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| count)
}

fn event_of(note: &EventRequest, name: &str) -> Event {
    let subject = &note.subject;
    let at = Some(Time(now()));
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(subject.key.namespace.to_string()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(longboat_api::v1alpha2::API_VERSION.to_owned()),
            kind: Some(subject.kind.to_owned()),
            name: Some(subject.key.name.to_string()),
            namespace: Some(subject.key.namespace.to_string()),
            uid: Some(subject.uid.as_deref().into()),
            ..ObjectReference::default()
        },
        type_: Some(note.type_.to_owned()),
        reason: Some(note.reason.to_owned()),
        message: Some(note.message.clone()),
        source: Some(EventSource { component: Some(subject.source.to_owned()), host: None }),
        reporting_component: Some(subject.source.to_owned()),
        first_timestamp: at.clone(),
        last_timestamp: at,
        count: Some(1),
        ..Event::default()
    }
}

/// The same event about the same object always has the same name, even after a restart.
fn name_of(note: &EventRequest) -> String {
    let mut hasher = DefaultHasher::new();
    (&note.subject.uid, note.type_, note.reason, &note.message).hash(&mut hasher);
    let name = &note.subject.key.name;
    let head = &name[..name.len().min(MAX_NAME_BYTES)];
    format!("{head}.{:016x}", hasher.finish())
}

/// The current time in whole seconds, as events store it.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use kube::api::DeleteParams;
    use longboat_key::{Name, Namespace};
    use longboat_testkit::TestCluster;

    use super::*;

    #[tokio::test]
    async fn an_event_that_has_expired_is_written_again() {
        let world = TestCluster::empty().await;
        world.namespace("ns").await;
        let note = EventRequest {
            subject: Subject {
                key: Key::new(Namespace("ns"), Name("llm")),
                uid: Uid("1").to_shared(),
                kind: "LLMInferenceService",
                source: "test",
            },
            type_: "Warning",
            reason: "NotReady",
            message: "not ready".to_owned(),
            once: false,
        };
        let api: Api<Event> = Api::namespaced(world.client(), "ns");
        let mut counts = HashMap::new();
        for expected in [1, 2] {
            write(&world.client(), &note, &mut counts).await;
            assert_eq!(api.get(&name_of(&note)).await.unwrap().count, Some(expected));
        }
        api.delete(&name_of(&note), &DeleteParams::default()).await.unwrap();
        write(&world.client(), &note, &mut counts).await;
        assert_eq!(api.get(&name_of(&note)).await.unwrap().count, Some(1));
    }
}
