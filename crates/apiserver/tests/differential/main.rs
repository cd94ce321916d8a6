//! Sends the same requests to a real kube-apiserver and to the embedded server: random objects, patches, selectors, paths
//! and options from a fixed seed. Compares codes, reasons, messages, causes, warnings and bodies.
//!
//! `LONGBOAT_DIFFERENTIAL_STEPS` sets the number of requests, `LONGBOAT_DIFFERENTIAL_SEED` the seed. Each difference is
//! printed (`-- --nocapture`). The test fails if [`excuse`] does not explain one of them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on must stop, and says what it saw"
)]

#[path = "../../../../tests/cluster/api.rs"]
#[allow(dead_code, reason = "shared with the tests on a cluster")]
mod api;
mod bad_values;
mod defaults;
mod empty_values;
mod evictions;
mod known;
mod pods;
mod requests;
mod rights;
#[path = "../../../../tests/cluster/server.rs"]
#[allow(dead_code, reason = "shared with the tests on a cluster")]
mod server;
mod tables;
#[path = "../../../../tests/local/tools.rs"]
#[allow(dead_code, reason = "shared with the tests of local mode")]
mod tools;
#[path = "../../../../tests/local/wait.rs"]
mod wait;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::LazyLock,
};

use longboat_apiserver::{ApiServer, Options};
use rand::{SeedableRng, rngs::StdRng};
use regex::Regex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use api::{Answer, Api, block};
use requests::{Request, Verb};

/// The parts of an answer that differ between servers for any request.
static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\(\d+\)|current: \d+",
    )
    .unwrap()
});

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A real server, if this machine has one, and an embedded one, with the same objects.
fn servers() -> Option<(server::Server, Api)> {
    let (real, ours) = (server::Server::start()?, embedded());
    for api in [&real.api, &ours] {
        requests::set_up(api);
    }
    Some((real, ours))
}

fn embedded() -> Api {
    longboat_tls::install_default_provider();
    let url = block(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let options = Options { pods_need_accounts: true, ..Options::default() };
        let server = ApiServer::new(options).unwrap();
        tokio::spawn(async move { server.serve(listener, None, CancellationToken::new()).await });
        url
    });
    Api::plain(&url)
}

fn ask(api: &Api, request: &Request) -> Option<Answer> {
    let (method, content_type) = match request.verb {
        Verb::Get => (Method::GET, "application/json"),
        Verb::Post => (Method::POST, "application/json"),
        Verb::Put => (Method::PUT, "application/json"),
        Verb::Delete => (Method::DELETE, "application/json"),
        Verb::Merge => (Method::PATCH, "application/merge-patch+json"),
        Verb::Json => (Method::PATCH, "application/json-patch+json"),
        Verb::Apply => (Method::PATCH, "application/apply-patch+yaml"),
        Verb::Strategic => (Method::PATCH, "application/strategic-merge-patch+json"),
    };
    let has_body = !matches!(request.verb, Verb::Get | Verb::Delete);
    let body = if has_body { request.body.to_string() } else { String::new() };
    api.try_send(method, &request.path, content_type, body)
}

/// Returns an answer without the parts that always differ between two servers.
fn comparable(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    // a watch sends one document per line
    if let Value::String(text) = &body
        && let Ok(events) = text.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()
    {
        body = events.into();
    }
    strip(&mut body);
    let refused = body["kind"] == "Status" && body["status"] == "Failure";
    if refused {
        let mut causes: Vec<String> = answer
            .causes()
            .iter()
            .map(|cause| {
                let text = format!("{} {} {}", cause.field, cause.reason, shown(&cause.message));
                VOLATILE.replace_all(&text, "…").into_owned()
            })
            .collect();
        causes.sort();
        body["details"]["causes"] = json!(causes);
        if causes.len() > 1 {
            // the message lists the causes in an order that varies
            body["message"] = Value::Null;
        } else if let Some(message) = body["message"].as_str() {
            body["message"] = shown(message).into();
        }
        // the message shows the patched object with its revision
        if body["message"].as_str().is_some_and(|message| message.contains("is invalid: patch: ")) {
            body["message"] = Value::Null;
            body["details"]["causes"] = Value::Null;
        }
    }
    json!({"code": answer.status, "warnings": answer.warnings, "body": body})
}

/// Removes the parts of a message that show kube-apiserver's internal types: line-by-line diffs, and whole pod templates.
fn shown(message: &str) -> String {
    static INTERNAL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?s)\n@@ .*|Invalid value: \{"[A-Za-z]+":.*\}: "#).unwrap());
    INTERNAL.replace_all(message, "").into_owned()
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
                // the continue token, which only its own server can read
                "continue",
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

/// Returns why an answer may differ.
fn excuse(expected: &Value, found: &Value) -> Option<&'static str> {
    let resources = |answer: &Value| {
        let body = &answer["body"];
        (body["kind"] == "APIResourceList").then(|| body["resources"].as_array().cloned().unwrap_or_default())
    };
    let (theirs, ours) = (resources(&expected[0])?, resources(&found[0])?);
    let is_served_alike = ours.iter().all(|resource| theirs.contains(resource));
    is_served_alike.then_some("discovery lists what is served, and that is less")
}

#[test]
fn rights_are_given_away_as_a_real_api_server_lets_them() {
    let Some(real) = server::Server::start() else { return };
    let found = rights::differences(&real.api, &embedded());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn requests_that_were_once_answered_otherwise_are_answered_as_by_a_real_api_server() {
    let Some((real, ours)) = servers() else { return };
    let mut different = Vec::new();
    for (code, request) in known::requests() {
        let [expected, found] = [&real.api, &ours].map(|api| ask(api, &request).expect("an answer"));
        let [expected, found] = [&expected, &found].map(comparable);
        if expected["code"] != code || expected != found {
            different.push(format!("{request}\n  real {expected}\n  ours {found}\n  known {code}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn kinds_are_described_and_printed_as_by_a_real_api_server() {
    let Some((real, ours)) = servers() else { return };
    let mut found = tables::described(&real.api, &ours);
    found.extend(tables::differences(&real.api, &ours));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn pods_are_evicted_as_by_a_real_api_server() {
    let Some((real, ours)) = servers() else { return };
    let [expected, found] = [&real.api, &ours].map(evictions::outcomes);
    assert_eq!(found, expected);
}

/// The table of types generates the requests, so a new version of Kubernetes needs no new test.
#[test]
fn defaults_of_every_type_are_those_of_a_real_api_server() {
    let Some((real, ours)) = servers() else { return };
    let requests = defaults::requests();
    assert!(requests.len() > 250, "only {} places have defaults", requests.len());
    let mut different = Vec::new();
    for (target, request) in requests {
        let [expected, found] = [&real.api, &ours].map(|api| ask(api, &request).expect("an answer"));
        // Some of these volumes are deprecated, and only a real server warns of them.
        let [expected, found] =
            [&expected, &found].map(|answer| json!([answer.status, comparable(answer)["body"]]));
        if expected[0] != 201 || expected != found {
            different.push(format!("{target}: {request}\n  real {expected}\n  ours {found}"));
        }
    }
    assert!(different.is_empty(), "{}\n{} places differ", different.join("\n"), different.len());
}

#[test]
fn pods_with_a_mistake_are_refused_as_by_a_real_api_server() {
    let Some((real, ours)) = servers() else { return };
    let mut different = Vec::new();
    for request in pods::requests() {
        let [expected, found] = [&real.api, &ours].map(|api| ask(api, &request).expect("an answer"));
        // An admission plugin looks for a class, which another cluster may have.
        if expected.status == 403 && expected.body["message"].as_str().unwrap().ends_with("found") {
            continue;
        }
        // The rest of what both accept is compared by the test of defaults.
        let accepted = [&expected, &found].iter().all(|answer| answer.status < 400);
        let resources = |answer: &Answer| {
            let (spec, status) = (&answer.body["spec"], &answer.body["status"]);
            json!([spec["resources"], spec["priority"], status["qosClass"], answer.warnings])
        };
        // A real server sometimes warns of what it refuses, too. The code is in the body.
        let refusal = |answer: &Answer| comparable(answer)["body"].take();
        let [expected, found] =
            [&expected, &found].map(|answer| if accepted { resources(answer) } else { refusal(answer) });
        if expected != found {
            different.push(format!("{request}\n  real {expected}\n  ours {found}"));
        }
    }
    assert!(different.is_empty(), "{}\n{} answers differ", different.join("\n"), different.len());
}

/// Returns the code, the reason, and each field that is wrong with the reason why.
fn refusal(answer: &Answer) -> (u16, Value, BTreeSet<(String, String)>) {
    let causes = answer.causes().into_iter().map(|cause| (cause.field, cause.reason));
    (answer.status, answer.body["reason"].clone(), causes.collect())
}

#[test]
fn objects_with_a_bad_value_are_refused_as_by_a_real_api_server() {
    let Some((real, ours)) = servers() else { return };
    for api in [&real.api, &ours] {
        bad_values::set_up(api);
    }
    let (mut count, mut different) = (0, Vec::new());
    for request in bad_values::requests() {
        let [expected, found] = [&real.api, &ours].map(|api| ask(api, &request).expect("an answer"));
        count += 1;
        // What both accept is compared by other tests. A few requests make kube-apiserver fail.
        if expected.status == 500 || [&expected, &found].iter().all(|answer| answer.status < 400) {
            continue;
        }
        // Messages show values as Go prints them, so only the fields and the reasons are compared.
        if refusal(&expected) != refusal(&found) {
            let [expected, found] = [&expected, &found].map(comparable);
            different.push(format!("{request}\n  real {expected}\n  ours {found}"));
        }
    }
    assert!(different.is_empty(), "{}\n{} of {count} answers differ", different.join("\n"), different.len());
}

/// Deletion of a collection checks the requested revision against each of its objects.
#[test]
fn a_collection_is_deleted_at_its_revision_as_by_a_real_api_server() {
    let Some(real) = server::Server::start() else { return };
    let path = "/api/v1/namespaces/default/configmaps";
    for api in [&real.api, &embedded()] {
        api.post(path, &json!({"metadata": {"name": "old", "labels": {"a": "b"}}})).ok();
        // At revision 0 a real server reads its watch cache, which gets the new object a moment later.
        let cached = || api.get(&format!("{path}?labelSelector=a%3Db&resourceVersion=0")).ok();
        while cached()["items"].as_array().is_none_or(Vec::is_empty) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let refused = api.delete(&format!("{path}?labelSelector=a%3Db&resourceVersion=0"));
        assert_eq!(
            (refused.status, &refused.body["reason"]),
            (409, &json!("Conflict")),
            "{:#}",
            refused.body
        );
        let revision = api.get(&format!("{path}/old")).ok()["metadata"]["resourceVersion"].clone();
        let revision = revision.as_str().unwrap();
        api.delete(&format!("{path}?labelSelector=a%3Db&resourceVersion={revision}")).ok();
        assert_eq!(api.get(&format!("{path}/old")).status, 404);
    }
}

#[test]
fn random_requests_are_answered_as_by_a_real_api_server() {
    let Some((real, ours)) = servers() else { return };
    let steps = number("LONGBOAT_DIFFERENTIAL_STEPS", 1000);
    let mut random = StdRng::seed_from_u64(number("LONGBOAT_DIFFERENTIAL_SEED", 1));
    let mut different = 0;
    let mut excused = BTreeMap::new();
    for step in 0..steps {
        let request = requests::any(&mut random);
        requests::fresh(&real.api, &ours, &request);
        // kube-apiserver panics on a few requests. The embedded server answers those, too.
        let [expected, found] = [&real.api, &ours].map(|api| {
            let answer = comparable(&ask(api, &request)?);
            let path = request.path.split('?').next().unwrap_or_default();
            let stored = request.stays().then(|| comparable(&api.get(path)));
            Some(json!([answer, stored]))
        });
        let found = found.expect("an answer of the embedded server");
        let Some(expected) = expected else { continue };
        if expected == found {
            continue;
        }
        if let Some(why) = excuse(&expected, &found) {
            *excused.entry(why).or_insert(0) += 1;
            continue;
        }
        different += 1;
        println!("{step}: {request}\n  real {expected}\n  ours {found}");
    }
    println!("{different} of {steps} answers differ; excused: {excused:?}");
    assert_eq!(different, 0, "of {steps} answers");
}
