//! Services that share the requests for one model: `examples/canary` under `up`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    http::{self, Answer},
    load::Load,
    local_cluster::LocalCluster,
    proof::says_of,
    tools,
    wait::until,
};

const MEMBERS: [&str; 2] = ["chat", "chat-canary"];

fn ask(url: &str) -> Answer {
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let body = json!({"model": "chat", "messages": messages, "max_tokens": 2});
    http::post(&format!("{url}/v1/chat/completions"), &body)
}

/// Sends requests and counts the answers of each member.
fn answers(url: &str, requests: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..requests {
        let answer = ask(url);
        assert_eq!(answer.status, 200, "{answer:?}");
        let member = answer.pod().split_once("-kserve-").expect("a pod of a service").0.to_owned();
        *counts.entry(member).or_default() += 1;
    }
    counts
}

/// Returns the shared address of the group, as `up` prints it.
fn shared_url(world: &LocalCluster) -> String {
    let said = world.running.stderr();
    let line =
        said.lines().find(|line| line.starts_with("group default/chat shares ")).expect("the group's line");
    line.split_whitespace().find(|word| word.starts_with("http")).unwrap().trim_end_matches(':').to_owned()
}

fn weigh(world: &LocalCluster, member: &str, weight: u32) {
    let patch = json!({"spec": {"router": {"route": {"weight": weight}}}}).to_string();
    world.ask(&["patch", "llmisvc", member, "--type=merge", "-p", &patch]);
}

/// Returns the weights in the rules that members share, and the route's generation, once the gateway has observed that
/// generation.
fn split(world: &LocalCluster, member: &str) -> Option<(BTreeSet<String>, i64)> {
    let route = world.object(&["httproute", &format!("{member}-kserve-route")]);
    let generation = route["metadata"]["generation"].as_i64()?;
    let seen = route.pointer("/status/parents/0/conditions/0/observedGeneration")?.as_i64()?;
    let split = |rule: &&Value| rule["backendRefs"].as_array().is_some_and(|all| all.len() > 1);
    let rules = route["spec"]["rules"].as_array()?.iter().filter(split);
    let shares = rules.map(|rule| {
        let share = |share: &Value| format!("{}={}", share["name"].as_str().unwrap(), share["weight"]);
        rule["backendRefs"].as_array().unwrap().iter().map(share).collect::<Vec<_>>().join(" ")
    });
    (generation == seen).then(|| (shares.collect(), generation))
}

fn wait_for_split(world: &LocalCluster, stable: u32, canary: u32) -> Vec<i64> {
    let expected = format!("chat-inference-pool={stable} chat-canary-inference-pool={canary}");
    let wait = |member: &&str| {
        until("the split of a member", || {
            let (shares, generation) = split(world, member)?;
            (shares == BTreeSet::from([expected.clone()])).then_some(generation)
        })
    };
    MEMBERS.iter().map(wait).collect()
}

#[test]
fn requests_follow_the_weights_of_a_group_and_a_member_goes_without_a_failed_request() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::start(&[tools::root().join("examples/canary").to_str().unwrap()]);
    let url = shared_url(&world);
    let generations = wait_for_split(&world, 90, 10);
    // Each member is proven at its own address, which leads to nobody else.
    for member in MEMBERS {
        world.ask(&["annotate", "llmisvc", member, "longboat.dev/serving-proof=report"]);
        let said = says_of(&world, member, "ServingProven", "True", "TokenReceived");
        assert!(said.contains(&format!("/default/{member}/v1/completions answered")), "{said}");
    }

    // 30 are expected, with a standard deviation of 5.2.
    let canary = answers(&url, 300).remove("chat-canary").unwrap_or_default();
    assert!(
        (4..=56).contains(&canary),
        "{canary} of 300 requests went to a member with a tenth of the weight"
    );
    for member in MEMBERS {
        let gateway = url.split("/publishers/").next().unwrap();
        let alone = answers(&format!("{gateway}/default/{member}"), 20);
        assert_eq!(alone, BTreeMap::from([(member.to_owned(), 20)]), "its own address leads to it alone");
    }
    assert_eq!(wait_for_split(&world, 90, 10), generations, "a group that nobody changes comes to rest");

    weigh(&world, "chat", 0);
    weigh(&world, "chat-canary", 100);
    wait_for_split(&world, 0, 100);
    until("a gateway that follows", || !answers(&url, 10).contains_key("chat"));
    assert_eq!(answers(&url, 60), BTreeMap::from([("chat-canary".to_owned(), 60)]));

    // Moves most requests back to the older member, and deletes it while it serves them.
    weigh(&world, "chat", 90);
    wait_for_split(&world, 90, 100);
    let load = Load::start(&url, "chat");
    load.goes_on();
    world.ask(&["delete", "llmisvc", "chat", "--timeout=120s"]);
    until("the last pod of the member that goes", || {
        let pods = world.ask(&["get", "pods", "-o", "name"]);
        pods.lines().all(|pod| pod.starts_with("pod/chat-canary-"))
    });
    load.goes_on();
    assert_eq!(load.end(), Vec::<String>::new(), "requests that failed");
    assert_eq!(answers(&url, 20), BTreeMap::from([("chat-canary".to_owned(), 20)]));
    let members = world.object(&["llmisvc", "chat-canary"])["status"]["router"]["group"]["members"].clone();
    assert_eq!(members.as_array().map(Vec::len), Some(1), "{members}");
}
