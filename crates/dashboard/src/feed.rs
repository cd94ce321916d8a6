//! The stream of server-sent events that an open page receives.
//!
//! The cost of an open page depends on what it shows: watches of the list of services and of one service, and in each
//! [`POLL_INTERVAL`] one request to each replica of that service and to what picks for it. The list asks the replicas of all
//! services, more seldom. Each event contains what has changed since the last event.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::header;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{Instant, MissedTickBehavior},
};

use longboat_key::Key;

use crate::{
    Head, Picture,
    page::Page,
    picker,
    replicas::{self, Replica, Role},
};

/// The interval of requests to a replica of the open service.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The interval of requests to the replicas of all services.
const LIST_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The interval of lists of what may pick for an open service without a picker of its own.
const HOSTS_INTERVAL: Duration = Duration::from_secs(10);
/// The least time between two events about changes: a person cannot read faster.
const FRAME: Duration = Duration::from_millis(200);
/// The interval of comments in a stream without changes, so that the server notices a closed page.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Sends events until the page closes, or until the server ends.
pub(crate) fn answer(page: Arc<Page>, service: Option<Key>, permit: OwnedSemaphorePermit) -> Response {
    // The capacity is one: the next event is computed when the page has received the last one.
    let (events, mut frames) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        tokio::select! {
            () = send(&page, service, &events) => {}
            () = page.shutdown.cancelled() => {}
            // Otherwise, a page that closes between two events would be noticed at the next one.
            () = events.closed() => {}
        }
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    let frames = stream::poll_fn(move |context| frames.poll_recv(context)).map(Ok::<_, Infallible>);
    (headers, Body::from_stream(frames)).into_response()
}

async fn send(page: &Page, service: Option<Key>, events: &mpsc::Sender<Bytes>) {
    let (newest, pods) = watch::channel(Vec::new());
    let pictures = page.cluster.pictures(service.clone());
    tokio::join!(
        changes(pictures, &newest, events),
        samples(page, service.as_ref(), pods, events),
        heartbeat(events)
    );
}

/// Sends the changes between successive pictures.
async fn changes(
    mut pictures: BoxStream<'static, Picture>,
    newest: &watch::Sender<Vec<Arc<Pod>>>,
    events: &mpsc::Sender<Bytes>,
) {
    let mut sent = FeedState::default();
    while let Some(mut picture) = pictures.next().await {
        newest.send_replace(std::mem::take(&mut picture.pods));
        for frame in sent.changes(picture) {
            if events.send(frame).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(FRAME).await;
    }
}

/// The state that the page has received so far.
#[derive(Default)]
struct FeedState {
    services: BTreeMap<String, Head>,
    rest: Option<(Option<Value>, Option<String>)>,
}

// === impl FeedState ===

impl FeedState {
    /// Returns the events that update the page to this picture.
    fn changes(&mut self, picture: Picture) -> Vec<Bytes> {
        let Picture { services, tree, pods: _, trouble } = picture;
        let first = self.rest.is_none();
        let services: BTreeMap<String, Head> =
            services.into_iter().map(|head| (head.service.clone(), head)).collect();
        let set: Vec<_> =
            services.values().filter(|head| self.services.get(&head.service) != Some(head)).collect();
        let gone: Vec<_> = self.services.keys().filter(|name| !services.contains_key(*name)).collect();
        let mut frames = Vec::new();
        // An empty list is sent at first, too: a page that connects again drops what it knew.
        if first || !set.is_empty() || !gone.is_empty() {
            frames.push(frame("services", &json!({"set": set, "gone": gone})));
        }
        self.services = services;
        let rest = (tree, trouble);
        if self.rest.as_ref() != Some(&rest) {
            frames.push(frame("service", &json!({"tree": rest.0, "trouble": rest.1})));
            self.rest = Some(rest);
        }
        frames
    }
}

/// Sends the metrics of the pods that serve a service. For all services, sends those that have changed.
async fn samples(
    page: &Page,
    service: Option<&Key>,
    mut pods: watch::Receiver<Vec<Arc<Pod>>>,
    events: &mpsc::Sender<Bytes>,
) {
    // The first picture has the pods.
    if pods.changed().await.is_err() {
        return;
    }
    let interval = if service.is_some() { POLL_INTERVAL } else { LIST_POLL_INTERVAL };
    let mut ticks = tokio::time::interval_at(Instant::now(), interval);
    // With the default, replicas that answer slowly would be asked again at once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sent = Vec::new();
    let (mut hosts, mut listed) = (Vec::new(), None::<Instant>);
    loop {
        ticks.tick().await;
        let known = pods.borrow_and_update().clone();
        let mut asked = replicas::ask(&page.client, &page.reach, &replicas::serving(&known, service)).await;
        if let Some(service) = service
            && asked.iter().all(|replica| replica.role != Role::Picker)
        {
            if listed.is_none_or(|listed| listed.elapsed() >= HOSTS_INTERVAL) {
                hosts = picker::of_hosts(&page.client, service).await.unwrap_or_default();
                listed = Some(Instant::now());
            }
            // Gateways and shared pickers answer for any pool, so each is asked about this one.
            asked.extend(replicas::ask_hosts(&page.client, &page.reach, service, &hosts).await);
        }
        let shown = if service.is_some() { asked } else { changed(&mut sent, asked) };
        if service.is_none() && shown.is_empty() {
            continue;
        }
        if events.send(frame("replicas", &json!({"replicas": shown}))).await.is_err() {
            return;
        }
    }
}

/// Returns the replicas that are not in `sent`, which becomes `asked`. Both have at most as many as are asked at a time.
fn changed(sent: &mut Vec<Replica>, asked: Vec<Replica>) -> Vec<Replica> {
    let shown = asked.iter().filter(|replica| !sent.contains(replica)).cloned().collect();
    *sent = asked;
    shown
}

async fn heartbeat(events: &mpsc::Sender<Bytes>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        if events.send(Bytes::from_static(b":\n\n")).await.is_err() {
            return;
        }
    }
}

fn frame(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::PickerSample;

    fn picture(services: &[(&str, &str)], tree: Option<Value>) -> Picture {
        let head = |(service, text): &(&str, &str)| Head {
            service: (*service).to_owned(),
            text: (*text).to_owned(),
            mark: "good",
            models: vec!["m".to_owned()],
            engine: None,
            ready: 1,
            replicas: 2,
            gpus: None,
        };
        let services = services.iter().map(head).collect();
        Picture { services, tree, pods: Vec::new(), trouble: None }
    }

    #[test]
    fn only_what_changed_is_sent() {
        let mut sent = FeedState::default();
        let changes = |sent: &mut FeedState, picture| -> Vec<String> {
            let frames = sent.changes(picture).into_iter();
            frames.map(|frame| String::from_utf8(frame.to_vec()).unwrap()).collect()
        };
        let head = |service: &str, text: &str| {
            json!({
                "service": service, "text": text, "mark": "good", "models": ["m"], "engine": null, "ready": 1, "replicas": 2,
                "gpus": null,
            })
        };
        let services = |value: Value| format!("event: services\ndata: {value}\n\n");
        let service = |value: Value| format!("event: service\ndata: {value}\n\n");
        let both = [("n/a", "1"), ("n/b", "1")];
        assert_eq!(
            changes(&mut sent, picture(&both, None)),
            [
                services(json!({"set": [head("n/a", "1"), head("n/b", "1")], "gone": []})),
                service(json!({"tree": null, "trouble": null})),
            ]
        );
        assert_eq!(changes(&mut sent, picture(&both, None)), Vec::<String>::new());
        assert_eq!(
            changes(&mut sent, picture(&[("n/b", "2")], Some(json!({"x": 1})))),
            [
                services(json!({"set": [head("n/b", "2")], "gone": ["n/a"]})),
                service(json!({"tree": {"x": 1}, "trouble": null})),
            ]
        );
    }

    #[test]
    fn a_replica_is_sent_again_if_its_metrics_have_changed() {
        let replica = |pod: &str, waiting: f64| Replica {
            service: "n/a".to_owned(),
            pod: pod.to_owned(),
            role: replicas::Role::Picker,
            sample: Some(replicas::Measured::Picker(PickerSample { waiting, ..PickerSample::default() })),
            trouble: None,
        };
        let mut sent = Vec::new();
        let both = vec![replica("1", 0.0), replica("2", 0.0)];
        assert_eq!(changed(&mut sent, both.clone()), both);
        assert_eq!(changed(&mut sent, both), Vec::<Replica>::new());
        assert_eq!(changed(&mut sent, vec![replica("2", 1.0)]), [replica("2", 1.0)]);
    }
}
