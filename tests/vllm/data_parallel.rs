//! A group of two pods under `up`, each with a data parallel rank of vLLM: the leader has the API, and both ranks compute.

use serde_json::{Value, json};

use crate::{
    http::block,
    install::Install,
    wait::until,
    world::{MODEL, World, service, template},
};

const COMPLETIONS: &str = "/v1/completions";

#[test]
fn both_ranks_of_a_group_answer_behind_its_leader() {
    let Some(install) = block(Install::find()) else { return };
    let mut leader = template(&install, "--max-model-len 1024");
    let variables = leader["containers"][0]["env"].as_array_mut().unwrap();
    // Each server of the API is a process of its own; the preset starts eight.
    variables.push(json!({"name": "VLLM_API_SERVER_COUNT", "value": "1"}));
    // Workers have no API, so they have no probe.
    let worker = json!({"containers": [{"name": "main", "env": variables.clone()}]});
    let fields =
        [("template", leader), ("worker", worker), ("parallelism", json!({"data": 2, "dataLocal": 1}))];
    let manifest = service("ranks", &install.folder("small").display().to_string(), &fields);
    let world = World::start("ranks", &install.program(), &manifest, |_| {});
    let leader = world.engine("both");
    world.says("ServingProven", "True", "TokenReceived");
    assert_eq!(world.verb("doctor", &["-n", "default"]), json!([]), "nothing is wrong");

    let text = |number: usize| {
        let body = json!({"model": MODEL, "prompt": "salt ".repeat(40), "max_tokens": 8, "temperature": 0,
            "cache_salt": number.to_string()});
        let answer = world.post(COMPLETIONS, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["choices"][0]["text"].clone()
    };
    let first: Value = text(0);
    let mut number = 0;
    until("answers of both ranks", || {
        number += 1;
        assert_eq!(text(number), first);
        let answered =
            |rank: &str| leader.metric("vllm:request_success_total", &format!("engine=\"{rank}\""));
        (answered("0") > 0.0 && answered("1") > 0.0).then_some(())
    });
}
