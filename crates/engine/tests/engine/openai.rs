//! The official OpenAI client against a real model.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::server::Server;

/// Returns the paths of the model and of Python. Returns `None` with a visible message if one is missing.
fn needed() -> Option<(PathBuf, PathBuf)> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let (model, python) =
        (cache.join("models/SmolLM2-135M-Instruct.Q4_1.gguf"), cache.join("python/bin/python3"));
    if !model.is_file() || !python.is_file() {
        longboat_golden::skipped("the model or the openai client is missing; scripts/tools.sh fetches them");
        return None;
    }
    Some((model, python))
}

async fn ask(python: &Path, script: &str, server: Server) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let output = Command::new(python).arg(script).arg(server.url()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.end().await;
}

#[tokio::test]
async fn the_openai_client_gets_embeddings() {
    let Some((model, python)) = needed() else { return };
    let flags = ["--served-model-name", "e", "--max-model-len", "2048", "--runner", "pooling"];
    let server = Server::start(&[&[model.to_str().unwrap()][..], &flags].concat()).await;
    ask(&python, "embeddings_client.py", server).await;
}

#[tokio::test]
async fn the_openai_client_gets_chats_streams_probabilities_calls_and_errors() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some((model, python)) = needed() else { return };
    let template = manifest.join("tests/tools.jinja");
    let flags = ["--served-model-name", "m", "--max-model-len", "2048", "--enable-auto-tool-choice"];
    let mut arguments = vec![model.to_str().unwrap()];
    arguments.extend(flags);
    arguments.extend(["--tool-call-parser", "hermes", "--chat-template", template.to_str().unwrap()]);
    let server = Server::start(&arguments).await;
    ask(&python, "openai_client.py", server).await;
}
