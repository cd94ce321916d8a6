//! The least that it takes: the same objects, written by a client that does nothing else.

use std::{
    fs,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use reqwest::{
    Certificate, Client,
    header::{AUTHORIZATION, HeaderMap},
};
use serde_json::{Value, json};

use crate::{
    api::Api,
    server::Server,
    services::{CHILDREN, NAMESPACES},
};

/// Requests at the same time: more make the server no faster.
const AT_ONCE: usize = 32;

/// Where to write an object, and the object.
type Write = (String, Value);

/// A client that is the controller to the server: whom it asks for more than an administrator, as whether a Role gives away more
/// than its author may do.
pub(crate) fn controller(server: &Server) -> Api {
    let token = format!("Bearer {}", server.token("llmisvc-controller-manager"));
    let authority = fs::read(server.folder.join("ca.crt")).unwrap();
    let client = Client::builder()
        .no_proxy()
        .tls_certs_only([Certificate::from_pem(&authority).unwrap()])
        .default_headers(HeaderMap::from_iter([(AUTHORIZATION, token.parse().unwrap())]))
        .build()
        .unwrap();
    Api::by(&server.url, client)
}

/// The children of these services, to be written anew in namespaces that `place` begins the names of.
pub(crate) fn children(api: &Api, services: &Range<usize>, place: &str) -> Vec<Write> {
    let of = |name: &str| name.strip_prefix("llm-")?.split('-').next()?.parse::<usize>().ok();
    let mut all = Vec::new();
    for (root, plural, each) in CHILDREN {
        let before = all.len();
        let list = api.get(&format!("/{root}/{plural}")).ok();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        let items = list["items"].as_array().unwrap().iter();
        let ours = items.filter(|item| {
            item["metadata"]["namespace"].as_str().is_some_and(|namespace| namespace.starts_with("scale-"))
                && item["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| of(name).is_some_and(|number| services.contains(&number)))
        });
        for object in ours {
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().unwrap().replace("scale-", place);
            let mut copy = object.clone();
            copy["apiVersion"] = list["apiVersion"].clone();
            copy["kind"] = json!(kind);
            copy["metadata"] = json!({
                "name": metadata["name"], "namespace": namespace, "labels": metadata["labels"],
                "annotations": metadata["annotations"],
            });
            let fields = copy.as_object_mut().unwrap();
            fields.remove("status");
            if plural == "services" {
                let spec = copy["spec"].as_object_mut().unwrap();
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
            all.push((format!("/{root}/namespaces/{namespace}/{plural}"), copy));
        }
        assert_eq!(all.len() - before, services.len() * each, "{plural} of {services:?}");
    }
    all
}

/// Makes the namespaces of the copies.
pub(crate) fn prepare(api: &Api, place: &str) {
    for number in 0..NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{place}{number}")}});
        api.post("/api/v1/namespaces", &object).ok();
    }
}

/// Writes them one after another, as one service's children are written; how long that took.
pub(crate) fn write_in_turn(api: &Api, children: &[Write]) -> Duration {
    let start = Instant::now();
    for (path, object) in children {
        api.post(path, object).ok();
    }
    start.elapsed()
}

/// Writes them all; how long that took.
pub(crate) fn write(api: &Api, children: &[Write]) -> Duration {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((path, object)) = children.get(next.fetch_add(1, Ordering::Relaxed)) {
                    api.post(path, object).ok();
                }
            });
        }
    });
    start.elapsed()
}
