//! `GET …?watch=true`: a cursor over the table's window of changes, as a stream of JSON lines.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use super::{Call, read};
use crate::{
    answer::{self, Answer},
    form::{self, RequestedObject},
    kinds::Resource,
    request::accept::{Form, Shape},
    respond,
    selector::Selector,
    state::State,
    status::ApiError,
    store::{Change, RevisionExpired, StoredObject},
    tables,
};

/// How many changes to take from the window at once: enough to take the lock rarely, few enough to keep little of the past
/// in memory.
const MAX_BATCH: usize = 256;
/// The interval of bookmarks for watches that ask for them.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// The longest lifetime in seconds of a watch without a timeout. Clients then open a new watch.
const MAX_WATCH_SECONDS: u64 = 1800;

/// Opens a watch.
pub(crate) fn open(call: &Call<'_>) -> Result<Answer, ApiError> {
    let query = &call.request.query;
    let continues = query.get("continue").is_some_and(|c| !c.is_empty());
    let selector = read::selector(call, continues, true)?;
    let timeout = query.number("timeoutSeconds")?;
    query.number("limit")?;
    let form = call.request.accept.stream()?;
    let version = query.get("resourceVersion").unwrap_or_default();
    let initial = query.get("sendInitialEvents").map(|v| v != "false" && v != "0");
    let asked = match version {
        "" => None,
        text => Some(read::parse_revision(text).map_err(ApiError::unexpected_error)?),
    };
    let store = &call.state.store;
    if let Some(asked) = asked.filter(|_| initial == Some(true)) {
        read::check_reached(asked, store.revision())?;
    }
    // subscribe before reading, so that no change is lost between the two
    let signal = store.subscribe(&call.resource.table);
    let from_scratch = match initial {
        Some(initial) => initial,
        None => asked.is_none_or(|a| a == 0),
    };
    let mut pending = VecDeque::new();
    let cursor = if from_scratch {
        let snapshot = store.list(&call.resource.table, call.path.namespace.as_deref());
        pending.extend(
            snapshot
                .objects
                .into_iter()
                .map(|(_, stored)| stored)
                .filter(|stored| selector.matches(&stored.value))
                .map(Event::added),
        );
        if initial == Some(true) && query.flag("allowWatchBookmarks") {
            pending.push_back(Event::Bookmark { revision: snapshot.revision, initial_end: true });
        }
        snapshot.revision
    } else {
        match asked {
            Some(asked) if asked > 0 => asked,
            // `sendInitialEvents=false` without a revision: from now on.
            _ => store.revision(),
        }
    };
    let seconds = timeout
        .and_then(|t| u64::try_from(t).ok())
        .filter(|t| *t > 0)
        .map_or(MAX_WATCH_SECONDS, |t| t.min(MAX_WATCH_SECONDS * 24));
    let mut bookmarks = tokio::time::interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watcher = Watcher {
        state: Arc::clone(call.state),
        resource: Arc::clone(&call.resource),
        namespace: call.path.namespace.clone(),
        selector,
        form,
        include: respond::include_object(call.request)?,
        signal,
        cursor,
        pending,
        bookmarks: query.flag("allowWatchBookmarks").then_some(bookmarks),
        deadline: Instant::now() + Duration::from_secs(seconds),
        connection: call.request.connection.clone(),
        headed: false,
        ended: false,
    };
    let body = stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((Ok::<_, io::Error>(chunk), watcher))
    });
    let mut answer = answer::bytes(200, "application/json", Bytes::new());
    *answer.body_mut() = answer::streaming(body);
    Ok(answer)
}

enum Event {
    Object { kind: &'static str, object: Arc<StoredObject> },
    Bookmark { revision: u64, initial_end: bool },
}

// === impl Event ===

impl Event {
    fn added(object: Arc<StoredObject>) -> Self {
        Self::Object { kind: "ADDED", object }
    }

    /// Returns the watch event for a change, from the view of a watcher who only sees the objects that the selector matches.
    fn of(change: Change, selector: &Selector) -> Option<Self> {
        let (before, now) = if selector.selects_all() {
            (change.before.is_some(), !change.deleted)
        } else {
            (
                change.before.as_ref().is_some_and(|b| selector.matches(&b.value)),
                !change.deleted && selector.matches(&change.after.value),
            )
        };
        let kind = match (before, now) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let object = match change.before {
            // the object no longer matches: the watcher gets the last state that matched
            Some(before) if kind == "DELETED" && !change.deleted => Arc::new(before.at(change.revision)),
            _ => change.after,
        };
        Some(Self::Object { kind, object })
    }
}

struct Watcher {
    state: Arc<State>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    selector: Selector,
    form: Form,
    include: tables::Include,
    signal: watch::Receiver<u64>,
    cursor: u64,
    pending: VecDeque<Event>,
    bookmarks: Option<Interval>,
    deadline: Instant,
    connection: Option<CancellationToken>,
    /// Whether the column definitions of the table were sent.
    headed: bool,
    ended: bool,
}

// === impl Watcher ===

impl Watcher {
    /// Returns the next lines, or `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            if !self.pending.is_empty() {
                let chunk = self.drain().await;
                if chunk.is_empty() {
                    continue;
                }
                return Some(chunk);
            }
            // Checked here too, because the wait below is never reached while changes keep coming.
            if self.deadline <= Instant::now() {
                return None;
            }
            // Marked as seen before the window is read, so that a change in between ends the wait below at once.
            let seen = *self.signal.borrow_and_update();
            let before = self.cursor;
            if let Err(too_old) = self.advance() {
                return Some(self.refuse(&ApiError::expired(too_old.to_string())));
            }
            // A dropped table has no changes, even if the signal has a later revision.
            let advanced = self.cursor > before;
            if !self.pending.is_empty() || (advanced && self.cursor < seen) {
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep_until(self.deadline) => return None,
                changed = self.signal.changed() => {
                    // the table was dropped: the custom resource is no longer served
                    changed.ok()?;
                }
                () = tick(self.bookmarks.as_mut()) => {
                    if let Err(too_old) = self.advance() {
                        return Some(self.refuse(&ApiError::expired(too_old.to_string())));
                    }
                    let revision = self.cursor;
                    self.pending.push_back(Event::Bookmark { revision, initial_end: false });
                }
            }
        }
    }

    /// Takes the next changes from the window.
    fn advance(&mut self) -> Result<(), RevisionExpired> {
        let (changes, next) = self.state.store.changes(&self.resource.table, self.cursor, MAX_BATCH)?;
        self.cursor = next;
        let namespace = self.namespace.as_deref();
        let selector = &self.selector;
        self.pending.extend(
            changes
                .into_iter()
                .filter(|c| namespace.is_none_or(|n| n == c.key.namespace))
                .filter_map(|change| Event::of(change, selector)),
        );
        Ok(())
    }

    fn refuse(&mut self, error: &ApiError) -> Bytes {
        self.ended = true;
        line("ERROR", &error.to_status())
    }

    async fn drain(&mut self) -> Bytes {
        let mut out = Vec::new();
        while let Some(event) = self.pending.pop_front() {
            match event {
                Event::Bookmark { revision, initial_end } => {
                    out.extend_from_slice(&line("BOOKMARK", &self.bookmark(revision, initial_end)));
                }
                Event::Object { kind, object } => {
                    match form::show(&self.state, &self.resource, object).await {
                        Ok(shown) => self.write(kind, &shown, &mut out),
                        Err(error) => {
                            // like kube-apiserver, end the stream without an error event when a conversion fails
                            tracing::debug!(%error, "A watch ends: an object cannot be converted.");
                            self.ended = true;
                            break;
                        }
                    }
                }
            }
            if out.len() > 64 * 1024 {
                break;
            }
        }
        match &self.connection {
            Some(connection) => self.state.unsent.count(out, connection),
            // a client in this process reads what it asks for
            None => Bytes::from(out),
        }
    }

    fn write(&mut self, kind: &str, shown: &RequestedObject, out: &mut Vec<u8>) {
        match &self.form.shape {
            Shape::Table(version) => {
                let mut table = tables::render_one(&self.resource, shown, self.include, version);
                if self.headed {
                    table["columnDefinitions"] = Value::Null;
                }
                self.headed = true;
                out.extend_from_slice(&line(kind, &table));
            }
            Shape::Partial(version) | Shape::PartialList(version) => {
                out.extend_from_slice(&line(kind, &form::partial(shown.value(), version)));
            }
            Shape::Itself | Shape::Discovery(_) => {
                out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
                shown.write(out);
                out.extend_from_slice(b"}\n");
            }
        }
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match &self.form.shape {
            Shape::Partial(version) | Shape::PartialList(version) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"),
                    "metadata": metadata})
            }
            Shape::Table(version) => tables::render(&self.resource, &[], self.include, version, &metadata),
            Shape::Itself | Shape::Discovery(_) => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
        }
    }
}

async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    // Like kube-apiserver, this writes the type first. Clients can then decode the object without a copy.
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}
