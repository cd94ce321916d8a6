//! The dashboard of `up`: who may send requests, and the responses. `browser` tests it in a real browser.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    http::{self, block},
    local_cluster::LocalCluster,
    page::{Feed, Page},
    program::run,
    tools,
    wait::until,
};

#[test]
fn only_the_page_itself_gets_anything() {
    let page = Page::of(LocalCluster::shared());
    let port = page.address.rsplit(':').next().unwrap();
    let asked = |path: &str, headers: &[(&str, &str)]| {
        let mut request = http::client().get(format!("{}{path}", page.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        block(async { http::read(request.send().await.unwrap()).await })
    };
    let token = format!("Bearer {}", page.token);
    let own = ("authorization", token.as_str());
    let right = asked("/api/events?service=default/qwen", &[own]);
    assert_eq!(right.status, 200, "{right:?}");
    let wrong_token = ("authorization", "Bearer 0123456789abcdef0123456789abcdef");
    let (rebound, bare) = (format!("evil.example:{port}"), "127.0.0.1");
    for (headers, status) in [
        (vec![], 401),
        (vec![wrong_token], 401),
        (vec![own, ("host", rebound.as_str())], 421),
        (vec![own, ("host", bare)], 421),
        (vec![own, ("origin", "http://evil.example")], 403),
        (vec![own, ("origin", "null")], 403),
    ] {
        for path in
            ["feed", "events", "logs", "findings", "explain", "decisions", "simulate", "manifest", "nothing"]
        {
            let path = format!("/api/{path}?service=default/qwen");
            let answer = asked(&path, &headers);
            assert_eq!(answer.status, status, "{path} {headers:?}: {answer:?}");
            assert!(answer.json()["error"].is_string() && !answer.body.contains("qwen"), "{answer:?}");
            assert!(!answer.headers.contains_key("access-control-allow-origin"), "{answer:?}");
        }
    }
    // The page needs no token, but requests with another host name or origin do not get it.
    let page_itself = asked("/", &[]);
    assert_eq!(page_itself.status, 200);
    let policy = &page_itself.headers["content-security-policy"];
    assert!(policy.contains("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(asked("/", &[("host", rebound.as_str())]).status, 421);
    assert_eq!(asked("/app.js", &[("origin", "http://evil.example")]).status, 403);
}

#[test]
fn questions_that_make_no_sense_are_refused_with_a_sentence() {
    let page = Page::of(LocalCluster::shared());
    let long = "x".repeat(2 << 20);
    for (method, path, body, status) in [
        ("GET", "/api/feed?service=../secrets", "", 400),
        ("GET", "/api/events", "", 400),
        ("GET", "/api/logs?namespace=default&pod=a/b&container=main", "", 400),
        ("GET", "/api/logs?namespace=default&pod=no-such&container=main", "", 404),
        ("GET", "/api/manifest?service=default/no-such", "", 404),
        ("GET", "/api/explain?service=default/no-such", "", 404),
        ("GET", "/api/events?service=default/no-such", "", 404),
        ("GET", "/api/findings?service=default/no-such", "", 404),
        ("GET", "/api/decisions?service=default/no-such", "", 404),
        ("POST", "/api/chat?service=default/no-such", "{}", 404),
        ("POST", "/api/chat?service=no-such/qwen", "{}", 404),
        ("GET", "/api/explain?service=default/qwen&path=spec.nothing", "", 400),
        ("POST", "/api/diff", "a: [", 400),
        ("POST", "/api/diff", "", 400),
        ("POST", "/api/diff", "kind: Pod\napiVersion: v1\nmetadata: {name: x}", 400),
        (
            "PUT",
            "/api/manifest?service=default/qwen",
            "kind: Pod\napiVersion: v1\nmetadata: {name: qwen}",
            400,
        ),
        ("POST", "/api/simulate?service=default/qwen", "[]", 400),
        ("POST", "/api/simulate?service=default/qwen", r#"{"traffic": "rain", "rate": 1}"#, 400),
        ("POST", "/api/simulate?service=default/no-such", r#"{"traffic": "agents", "rate": 1}"#, 404),
        ("POST", "/api/chat?service=default/qwen", "[]", 400),
        ("POST", "/api/diff", long.as_str(), 413),
    ] {
        let answer = page.ask(method, path, body.to_owned());
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(!answer.body.is_empty(), "{method} {path}");
    }
}

#[test]
fn an_answer_leads_to_its_decision_on_the_page_and_on_the_terminal() {
    let world = LocalCluster::shared();
    let page = Page::of(world);
    let chat = json!({
        "messages": [{"role": "user", "content": "Hello"}], "stream_options": {"include_usage": true},
    });
    let answer = page.ask("POST", "/api/chat?service=default/qwen", chat.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("data: [DONE]"), "{answer:?}");
    let id = &answer.headers["x-request-id"];
    let decisions = page.get(&format!("/api/decisions?service=default/qwen&id={id}")).json();
    assert_eq!(decisions["trouble"], json!([]));
    let record = &decisions["decisions"][0];
    assert_eq!(record["id"], **id, "{decisions}");
    let picked = record["profiles"][0]["endpoints"].as_array().unwrap();
    let picked: Vec<&Value> = picked.iter().filter(|endpoint| endpoint["picked"] == true).collect();
    assert_eq!(picked.len(), 1, "{decisions}");
    assert_eq!(picked[0]["address"], record["destination"][0]);
    let scorers = record["profiles"][0]["scorers"].as_array().unwrap().len();
    assert!(scorers > 0 && picked[0]["scores"].as_array().unwrap().len() == scorers, "{decisions}");
    assert!(record["response"]["completionTokens"].as_u64().unwrap() > 0, "{decisions}");

    let mut why = std::process::Command::new(env!("CARGO_BIN_EXE_longboat"));
    why.env("KUBECONFIG", &world.kubeconfig);
    let said = run(why.args(["why", id])).ok();
    for part in [id.as_str(), record["destination"][0].as_str().unwrap(), "profile default", "TOTAL"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let mut why = std::process::Command::new(env!("CARGO_BIN_EXE_longboat"));
    let unknown = run(why.env("KUBECONFIG", &world.kubeconfig).args(["why", "nobody"]));
    assert_eq!(unknown.status.code(), Some(1));
    assert!(unknown.stderr.contains("no picker has a decision for request `nobody`"), "{}", unknown.stderr);
}

#[test]
fn an_edit_is_compared_applied_and_seen() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::start(&[crate::local_cluster::example().to_str().unwrap()]);
    let page = Page::of(&world);
    let mut feed = Feed::open(&page, "default/qwen");
    let services = feed.until("services", |data| !data["set"].as_array().unwrap().is_empty());
    assert_eq!(services["set"][0]["service"], "default/qwen");
    let head = &services["set"][0];
    let expected = json!({
        "service": "default/qwen", "text": head["text"], "mark": "good", "models": [crate::local_cluster::MODEL],
        "engine": "simulator", "ready": 1, "replicas": 1, "gpus": null,
    });
    assert_eq!(*head, expected);
    let measured = |data: &Value| -> Vec<Value> {
        let replicas = data["replicas"].as_array().unwrap().iter();
        replicas.filter(|replica| replica["sample"].is_object()).cloned().collect()
    };
    let samples = measured(&feed.until("replicas", |data| measured(data).len() == 2));
    assert_eq!([&samples[0]["role"], &samples[1]["role"]], ["picker", "decode"], "{samples:?}");
    assert_eq!(
        [&samples[0]["sample"]["requests"], &samples[1]["sample"]["requests"]],
        [0.0, 0.0],
        "{samples:?}"
    );

    let explained = page.get("/api/explain?service=default/qwen&path=spec.replicas").json();
    assert!(explained["text"].as_str().unwrap().starts_with("spec.replicas = 1"), "{explained}");
    let manifest = page.get("/api/manifest?service=default/qwen").body;
    assert!(manifest.contains("replicas: 1\n") && !manifest.contains("status:"), "{manifest}");
    let edited = manifest.replace("replicas: 1\n", "replicas: 2\n");
    let difference = page.ask("POST", "/api/diff", edited.clone()).json();
    assert_eq!(difference["refused"], false, "{difference}");
    assert!(difference["text"].as_str().unwrap().contains("spec.replicas: 1 → 2"), "{difference}");
    let applied = page.ask("PUT", "/api/manifest?service=default/qwen", edited.clone());
    assert_eq!(applied.status, 200, "{applied:?}");
    let tree = feed.until("service", |data| data["tree"]["lines"].to_string().contains("2/2 ready"));
    let pods = tree["tree"]["lines"].as_array().unwrap().iter();
    let pods = pods.filter(|line| line["subject"].as_str().unwrap().contains("Pod qwen-kserve-"));
    assert_eq!(pods.count(), 3, "two replicas and the picker: {tree}");
    // The service has changed since the manifest was read.
    let again = page.ask("PUT", "/api/manifest?service=default/qwen", edited);
    assert_eq!(again.status, 409, "{again:?}");

    world.ask(&["delete", "llmisvc", "qwen"]);
    let gone = feed.until("services", |data| data["gone"] == json!(["default/qwen"]));
    assert_eq!(gone["set"], json!([]));
}

#[test]
fn a_page_of_a_cluster_is_served_with_the_kubeconfig_alone() {
    let world = LocalCluster::shared();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_longboat"));
    command.arg("dashboard").env("KUBECONFIG", &world.kubeconfig).stdin(std::process::Stdio::null());
    let running = crate::program::Running::start(&mut command);
    let line = until("the address", || {
        running.stderr().lines().find_map(|line| line.strip_prefix("dashboard: ").map(str::to_owned))
    });
    let (address, token) = line.split_once("/#token=").unwrap();
    let page = Page { address: address.to_owned(), token: token.to_owned() };
    assert_ne!(page.token, Page::of(world).token);
    let mut feed = Feed::open(&page, "default/qwen");
    let service = feed.until("service", |data| data["tree"].is_object());
    let conditions = service["tree"]["object"]["status"]["conditions"].as_array().unwrap();
    let states: BTreeMap<&str, &str> = conditions
        .iter()
        .map(|condition| (condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap()))
        .collect();
    assert_eq!(states["Ready"], "True", "{service}");
    let pod = service["tree"]["object"]["children"][0]["children"][0]["metadata"]["name"].as_str().unwrap();
    let log = page.get(&format!("/api/logs?namespace=default&pod={pod}&container=main"));
    assert_eq!(log.status, 200, "{log:?}");
}
