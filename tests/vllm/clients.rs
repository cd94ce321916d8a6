//! Clients of a service of vLLM: those that people use, and some that go away.

use std::process::Command;

use serde_json::json;

use crate::{
    http::{block, client},
    install::Install,
    program::run,
    tools,
    wait::until,
    world::{Engine, MODEL, World},
};

/// The clients openai, litellm and langchain get what they ask for.
pub(crate) fn answer(install: &Install, world: &World) {
    let mut python = Command::new(install.folder("clients/bin/python3"));
    python
        .arg(tools::root().join("tests/vllm/clients.py"))
        .args([&format!("{}/v1", world.cluster.url), MODEL]);
    // litellm reads a file of prices from its own package then, and not from another machine.
    python.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("HOME", world.cluster.folder.path());
    assert_eq!(run(&mut python).ok().trim(), "fine");
}

/// A client that stops reading a long stream leaves nothing behind in the engines, of which the first one answers.
pub(crate) fn that_go_away_free_their_place(world: &World, engines: &[&Engine]) {
    let engine = engines[0];
    let computed = || engine.metric("vllm:generation_tokens_total", "");
    let before = computed();
    let body = json!({"model": MODEL, "prompt": "The night", "max_tokens": 4000, "ignore_eos": true, "stream": true});
    let url = format!("{}/v1/completions", world.cluster.url);
    let mut stream = block(client().post(url).json(&body).send()).unwrap();
    assert_eq!(stream.status(), 200);
    assert!(block(stream.chunk()).unwrap().is_some(), "the stream begins");
    until("the request runs", || (engine.metric("vllm:num_requests_running", "") > 0.0).then_some(()));
    drop(stream);
    for engine in engines {
        engine.rests();
    }
    assert!(computed() - before < 3000.0, "the engine has computed to the end");
}
