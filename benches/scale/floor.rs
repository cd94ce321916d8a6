//! The lower bound of the controller's cost: a client that only writes the same objects.

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

/// The number of parallel requests. More do not make the server faster.
const AT_ONCE: usize = 32;

/// The configurations of Longboat's webhooks, which do not answer while the controller is paused.
const WEBHOOKS: [(&str, &str); 3] = [
    ("mutatingwebhookconfigurations", "llminferenceservice.serving.kserve.io"),
    ("validatingwebhookconfigurations", "llminferenceservice.serving.kserve.io"),
    ("validatingwebhookconfigurations", "llminferenceserviceconfig.serving.kserve.io"),
];

/// A write of an object by a client.
pub(crate) struct Write<'a> {
    by: &'a Api,
    how: How,
    path: String,
    object: Value,
}

/// The kind of write: create, merge patch or replace.
#[derive(Clone, Copy)]
enum How {
    Make,
    Merge,
    Replace,
}

// === impl Write ===

impl Write<'_> {
    fn send(&self) {
        let answer = match self.how {
            How::Make => self.by.post(&self.path, &self.object),
            How::Merge => self.by.merge(&self.path, &self.object),
            How::Replace => self.by.put(&self.path, &self.object),
        };
        answer.ok();
    }
}

/// Returns a client with the controller's token. The server does more work for the controller than for an administrator: for
/// example, it checks whether a Role gives more rights than its author has.
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

/// Returns writes that create the children of these services again, in namespaces whose names start with `place`.
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
                how: How::Make,
                path: format!("/{root}/namespaces/{namespace}/{plural}"),
                object: copy,
            });
        }
        assert_eq!(all.len() - before, services.len() * each, "{plural} of {services:?}");
    }
    all
}

/// Returns writes that create the services, as their users would.
pub(crate) fn services<'a>(api: &'a Api, services: &Range<usize>, place: &str) -> Vec<Write<'a>> {
    let write = |number| Write {
        by: api,
        how: How::Make,
        path: services::path(number).replace("scale-", place),
        object: services::service(number),
    };
    services.clone().map(write).collect()
}

/// Returns the controller's other writes for these services, in two lists. The first list comes before the children: the
/// ClusterRoleBinding with which the scheduler checks tokens. The second comes after them: the finalizer, the status, and the
/// certificate that contains the addresses.
pub(crate) fn beside<'a>(api: &'a Api, services: &Range<usize>, place: &str) -> [Vec<Write<'a>>; 2] {
    let rights = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let list = api.get(rights).ok();
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for number in services.clone() {
        let live = api.get(&format!("{}/llm-{number}", services::path(number))).ok();
        let home = services::namespace(number);
        let binding = list["items"].as_array().unwrap().iter().find(|binding| {
            let subject = &binding["subjects"][0];
            subject["namespace"] == home && subject["name"] == format!("llm-{number}-epp-sa")
        });
        let binding = binding.unwrap_or_else(|| panic!("no cluster role binding of llm-{number}"));
        let mut copy = binding.clone();
        let name = format!("{place}{}", binding["metadata"]["name"].as_str().unwrap());
        copy["metadata"] = json!({"name": name, "labels": binding["metadata"]["labels"]});
        first.push(Write { by: api, how: How::Make, path: rights.to_owned(), object: copy });
        let service = format!("{}/llm-{number}", services::path(number).replace("scale-", place));
        let change = |path: String, object| Write { by: api, how: How::Merge, path, object };
        let finalizers = json!({"metadata": {"finalizers": live["metadata"]["finalizers"]}});
        then.push(change(service.clone(), finalizers));
        let certificate = format!("/api/v1/namespaces/{home}/secrets/llm-{number}-kserve-self-signed-certs");
        let mut rewritten = api.get(&certificate).ok();
        let metadata = &rewritten["metadata"];
        rewritten["metadata"] = json!({
            "name": metadata["name"], "labels": metadata["labels"], "annotations": {"floor": "rewritten"},
        });
        let path = certificate.replace("scale-", place);
        then.push(Write { by: api, how: How::Replace, path, object: rewritten });
        then.push(change(format!("{service}/status"), json!({"status": live["status"]})));
    }
    [first, then]
}

/// Deletes the webhook configurations, so that the server calls no webhook.
pub(crate) fn without_webhooks(api: &Api) {
    for (plural, name) in WEBHOOKS {
        api.delete(&format!("/apis/admissionregistration.k8s.io/v1/{plural}/{name}")).ok();
    }
    // The server learns of the deletions through watches.
    thread::sleep(Duration::from_secs(2));
}

/// Creates the namespaces of the copies.
pub(crate) fn prepare(api: &Api, place: &str) {
    for number in 0..NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{place}{number}")}});
        api.post("/api/v1/namespaces", &object).ok();
    }
}

/// Sends the writes one after another, like the controller for the children of one service. Returns the time.
pub(crate) fn write_in_turn(children: &[Write<'_>]) -> Duration {
    let start = Instant::now();
    for write in children {
        write.send();
    }
    start.elapsed()
}

/// Sends the writes in parallel. Returns the time.
pub(crate) fn write(objects: &[Write<'_>]) -> Duration {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(write) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    write.send();
                }
            });
        }
    });
    start.elapsed()
}
