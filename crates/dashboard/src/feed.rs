//! The stream of server-sent events that an open page receives.
//!
//! The cost of an open page depends on what it shows: watches of the list of services and of one service and, once per
//! [`POLL_INTERVAL`], one request to each replica of that service. Each event contains what has changed since the last event.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use http::header;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, MissedTickBehavior},
};

use longboat_key::Key;

use crate::{Head, Picture, replicas, server::Page};

/// The interval of requests to a replica.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The number of periods after which the replicas are listed again.
const LISTING: u32 = 5;
/// The least time between two events about changes: a person cannot read faster.
const FRAME: Duration = Duration::from_millis(200);
/// The interval of comments in a stream without changes, so that the server notices a closed page.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Sends events until the page closes, or until the server ends.
pub(crate) fn answer(page: Arc<Page>, service: Option<Key>, permit: OwnedSemaphorePermit) -> Response {
    // The capacity is one: the next event is computed when the page has received the last one.
    let (events, frames) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        tokio::select! {
            () = send(&page, service, &events) => {}
            () = page.shutdown.cancelled() => {}
            () = events.closed() => {}
        }
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    (headers, Body::from_stream(received(frames))).into_response()
}

fn received(frames: mpsc::Receiver<Bytes>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::unfold(frames, |mut frames| async {
        frames.recv().await.map(|frame| (Ok(frame), frames))
    })
}

async fn send(page: &Page, service: Option<Key>, events: &mpsc::Sender<Bytes>) {
    let pictures = page.cluster.pictures(service.clone());
    let pictures = changes(pictures, events);
    match service {
        Some(service) => {
            tokio::join!(pictures, samples(page, &service, events), heartbeat(events));
        }
        None => {
            tokio::join!(pictures, heartbeat(events));
        }
    }
}

/// Sends the changes between successive pictures.
async fn changes(mut pictures: BoxStream<'static, Picture>, events: &mpsc::Sender<Bytes>) {
    let mut sent = FeedState::default();
    while let Some(picture) = pictures.next().await {
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

// === impl Sent ===

impl FeedState {
    /// Returns the events that update the page to this picture.
    fn changes(&mut self, picture: Picture) -> Vec<Bytes> {
        let Picture { services, tree, trouble } = picture;
        let first = self.rest.is_none();
        let services: BTreeMap<String, Head> =
            services.into_iter().map(|head| (head.service.clone(), head)).collect();
        let set: Vec<_> =
            services.values().filter(|head| self.services.get(&head.service) != Some(head)).collect();
        let gone: Vec<_> = self.services.keys().filter(|name| !services.contains_key(*name)).collect();
        let mut frames = Vec::new();
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

/// Sends the metrics of a service's replicas.
async fn samples(page: &Page, service: &Key, events: &mpsc::Sender<Bytes>) {
    let mut ticks = tokio::time::interval_at(Instant::now(), POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pods = Vec::new();
    for round in 0_u32.. {
        ticks.tick().await;
        let mut trouble = None;
        // While there are no replicas, one may start at any moment.
        if round.is_multiple_of(LISTING) || pods.is_empty() {
            match replicas::pods(&page.client, service).await {
                Ok(found) => pods = found,
                Err(sentence) => trouble = Some(sentence),
            }
        }
        let replicas = replicas::ask(&page.client, &page.reach, &pods).await;
        let event = frame("replicas", &json!({"replicas": replicas, "trouble": trouble}));
        if events.send(event).await.is_err() {
            return;
        }
    }
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

    fn picture(services: &[(&str, &str)], tree: Option<Value>) -> Picture {
        let head = |(service, text): &(&str, &str)| Head {
            service: (*service).to_owned(),
            text: (*text).to_owned(),
            mark: "good",
        };
        Picture { services: services.iter().map(head).collect(), tree, trouble: None }
    }

    #[test]
    fn only_what_changed_is_sent() {
        let mut sent = FeedState::default();
        let changes = |sent: &mut FeedState, picture| -> Vec<String> {
            let frames = sent.changes(picture).into_iter();
            frames.map(|frame| String::from_utf8(frame.to_vec()).unwrap()).collect()
        };
        let head = |service: &str, text: &str| json!({"service": service, "text": text, "mark": "good"});
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
}
