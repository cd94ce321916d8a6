//! llama.cpp's own server under `up`, with its preset.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    http::block,
    install::Install,
    tools,
    world::{MODEL, World, service},
};

#[test]
fn a_service_of_llama_cpp_answers_as_its_server_does() {
    let Some(install) = block(Install::find()) else { return };
    let Some(model) = tools::tool("models/SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    // The package has the server as a function.
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("llama-server");
    let python = install.folder("llama/bin/python3");
    let script = tools::root().join("tests/vllm/llama_server.py");
    fs::write(&program, format!("#!/bin/sh\nexec {} {} \"$@\"\n", python.display(), script.display()))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();

    let manifest = service("gguf", model.to_str().unwrap(), &[("runtime", json!("longboat-llama-cpp"))]);
    let world = World::start("gguf", program.to_str().unwrap(), &manifest, |_| {});
    let engine = world.engine("both");
    world.says("ServingProven", "True", "TokenReceived");
    assert_eq!(world.verb("doctor", &["-n", "default"]), json!([]), "nothing is wrong");

    for (path, request) in [
        ("/v1/completions", json!({"prompt": "The capital of France is"})),
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": "Why is the sea salty?"}]})),
    ] {
        let mut body = json!({"model": MODEL, "temperature": 0, "max_tokens": 8, "cache_prompt": false});
        body.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        let (through, direct) = (world.post(path, &body), engine.post(path, &body));
        let (ours, theirs) = (through.json(), direct.json());
        assert_eq!((through.status, direct.status), (200, 200), "{ours} {theirs}");
        for part in ["choices", "model"] {
            assert_eq!(ours[part], theirs[part], "{path}");
        }
        let prompt = |answer: &serde_json::Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
        assert_eq!(prompt(&ours), prompt(&theirs), "{path}");

        let why = world.verb("why", &[&through.headers["x-request-id"]]);
        assert_eq!(why[0]["response"]["promptTokens"], prompt(&ours), "{why:#}");
    }
    // The picker scores by two of these, and the dashboard shows the others.
    let page = engine.get("/metrics").body;
    for metric in
        ["requests_processing", "requests_deferred", "prompt_tokens_total", "tokens_predicted_total"]
    {
        assert!(page.contains(&format!("\nllamacpp:{metric} ")), "{metric}: {page}");
    }
}
