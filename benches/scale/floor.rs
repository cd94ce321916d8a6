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
    services::{self, CHILDREN, NAMESPACES},
};

/// Requests at the same time: more make the server no faster.
const AT_ONCE: usize = 32;

/// Configurations of our webhooks, which nobody answers while the controller is paused.
const WEBHOOKS: [(&str, &str); 3] = [
    ("mutatingwebhookconfigurations", "llminferenceservice.serving.kserve.io"),
    ("validatingwebhookconfigurations", "llminferenceservice.serving.kserve.io"),
    ("validatingwebhookconfigurations", "llminferenceserviceconfig.serving.kserve.io"),
];

/// An object that somebody writes.
pub(crate) struct Write<'a> {
    by: &'a Api,
    path: String,
    object: Value,
}

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
pub(crate) fn children<'a>(api: &'a Api, services: &Range<usize>, place: &str) -> Vec<Write<'a>> {
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
            all.push(Write {
                by: api,
                path: format!("/{root}/namespaces/{namespace}/{plural}"),
                object: copy,
            });
        }
        assert_eq!(all.len() - before, services.len() * each, "{plural} of {services:?}");
    }
    all
}

/// The services themselves, as their users wrote them.
pub(crate) fn services<'a>(api: &'a Api, services: &Range<usize>, place: &str) -> Vec<Write<'a>> {
    let write = |number| Write {
        by: api,
        path: services::path(number).replace("scale-", place),
        object: services::service(number),
    };
    services.clone().map(write).collect()
}

/// Has the server ask nobody about services any more.
pub(crate) fn without_webhooks(api: &Api) {
    for (plural, name) in WEBHOOKS {
        api.delete(&format!("/apis/admissionregistration.k8s.io/v1/{plural}/{name}")).ok();
    }
    // It looks at them when a watch tells it to.
    thread::sleep(Duration::from_secs(2));
}

/// Makes the namespaces of the copies.
pub(crate) fn prepare(api: &Api, place: &str) {
    for number in 0..NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{place}{number}")}});
        api.post("/api/v1/namespaces", &object).ok();
    }
}

/// Writes them one after another, as one service's children are written; how long that took.
pub(crate) fn write_in_turn(children: &[Write<'_>]) -> Duration {
    let start = Instant::now();
    for Write { by, path, object } in children {
        by.post(path, object).ok();
    }
    start.elapsed()
}

/// Writes them all; how long that took.
pub(crate) fn write(objects: &[Write<'_>]) -> Duration {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(Write { by, path, object }) = objects.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    by.post(path, object).ok();
                }
            });
        }
    });
    start.elapsed()
}
