//! The same requests to a real kube-apiserver and to the embedded one: objects, patches, selectors, paths and options that are
//! made at random, from a fixed seed. Codes, reasons, texts, causes, warnings and bodies are compared.
//!
//! `LONGBOAT_DIFFERENTIAL_STEPS` makes more or fewer requests, `LONGBOAT_DIFFERENTIAL_SEED` others. Each difference is printed
//! (`-- --nocapture`); the test fails when there are more of them than is known.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on must stop, and says what it saw"
)]

#[path = "../../../../tests/cluster/api.rs"]
#[allow(dead_code, reason = "shared with the tests on a cluster")]
mod api;
mod requests;
#[path = "../../../../tests/cluster/server.rs"]
#[allow(dead_code, reason = "shared with the tests on a cluster")]
mod server;
#[path = "../../../../tests/local/tools.rs"]
#[allow(dead_code, reason = "shared with the tests of local mode")]
mod tools;
#[path = "../../../../tests/local/wait.rs"]
mod wait;

use std::{env, sync::LazyLock};

use longboat_apiserver::{ApiServer, Options};
use rand::{SeedableRng, rngs::StdRng};
use regex::Regex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use api::{Answer, Api, block};
use requests::{Request, Verb};

/// Answers that may differ, of a hundred: what is known to differ is about as much.
const MAY_DIFFER: usize = 2;

/// What differs from one server to the other, whatever they were asked.
static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\(\d+\)|current: \d+",
    )
    .unwrap()
});

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn embedded() -> Api {
    longboat_tls::install_default_provider();
    let url = block(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = ApiServer::new(Options::default()).unwrap();
        tokio::spawn(async move { server.serve(listener, None, CancellationToken::new()).await });
        url
    });
    Api::plain(&url)
}

fn ask(api: &Api, request: &Request) -> Answer {
    let path = &request.path;
    match request.verb {
        Verb::Get => api.get(path),
        Verb::Post => api.post(path, &request.body),
        Verb::Put => api.put(path, &request.body),
        Verb::Delete => api.delete(path),
        Verb::Merge => api.merge(path, &request.body),
        Verb::Json => api.patch(path, &request.body),
        Verb::Apply => api.apply(path, &request.body),
    }
}

/// An answer without what no two servers have in common.
fn comparable(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    strip(&mut body);
    let refused = body["kind"] == "Status" && body["status"] == "Failure";
    if refused {
        let mut causes: Vec<String> = answer
            .causes()
            .iter()
            .map(|cause| {
                VOLATILE
                    .replace_all(&format!("{} {} {}", cause.field, cause.reason, cause.message), "…")
                    .into_owned()
            })
            .collect();
        causes.sort();
        body["details"]["causes"] = json!(causes);
        if causes.len() > 1 {
            // it lists the causes in an order that varies
            body["message"] = Value::Null;
        }
        // shows the patched object with the revision in it
        if body["message"].as_str().is_some_and(|message| message.contains("is invalid: patch: ")) {
            body["message"] = Value::Null;
            body["details"]["causes"] = Value::Null;
        }
    }
    json!({"code": answer.status, "warnings": answer.warnings, "body": body})
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "managedFields",
                "clusterIP",
                "clusterIPs",
                "nodePort",
            ] {
                map.remove(key);
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::String(text) => {
            if let std::borrow::Cow::Owned(changed) = VOLATILE.replace_all(text, "…") {
                *text = changed;
            }
        }
        _ => {}
    }
}

#[test]
fn random_requests_are_answered_as_by_a_real_api_server() {
    let Some(real) = server::Server::start() else { return };
    let ours = embedded();
    for api in [&real.api, &ours] {
        requests::set_up(api);
    }
    let steps = number("LONGBOAT_DIFFERENTIAL_STEPS", 1000);
    let mut random = StdRng::seed_from_u64(number("LONGBOAT_DIFFERENTIAL_SEED", 1));
    let mut different = 0;
    for step in 0..steps {
        let request = requests::any(&mut random);
        requests::fresh(&real.api, &ours);
        let [expected, found] = [&real.api, &ours].map(|api| comparable(&ask(api, &request)));
        if expected != found {
            different += 1;
            println!("{step}: {request}\n  real {expected}\n  ours {found}");
        }
    }
    println!("{different} of {steps} answers differ");
    assert!(
        different * 100 <= usize::try_from(steps).unwrap() * MAY_DIFFER,
        "{different} of {steps} answers differ"
    );
}
