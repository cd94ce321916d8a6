//! `longboat run`: a model without a manifest.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    engine::model_file,
    http,
    local_cluster::{Running, longboat, run},
    processes,
    terminal::Terminal,
    tools,
    wait::until,
};

#[test]
fn a_model_file_answers_a_prompt_from_the_arguments_or_from_another_program() {
    let Some(model) = model_file() else { return };
    let folder = TempDir::new().unwrap();
    let mut command = longboat("run", folder.path());
    let ended = run(command.env("LONGBOAT_ENGINE", "auto").arg(&model).args([
        "What is gravity?",
        "--temperature",
        "0",
    ]));
    assert!(ended.status.success() && ended.stdout.contains("ravity"), "{ended:#?}");
    // Only the engine is named: a person who asks a model does not think of Deployments.
    assert!(ended.stderr.starts_with("engine: cpu: runs file://"), "{ended:#?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a temporary file is left");

    let mut command = longboat("run", folder.path());
    command.arg(&model).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"What is gravity?").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim().len() > 20, "{output:?}");
}

#[test]
fn a_chat_streams_remembers_counts_and_stops() {
    let Some(model) = model_file() else { return };
    let folder = TempDir::new().unwrap();
    let mut command = longboat("run", folder.path());
    let terminal = Terminal::start(command.env("LONGBOAT_ENGINE", "cpu").arg(&model), 100, 60);
    let says = |what: &str| terminal.until(what, || terminal.all().contains(what));
    let prompts = |count: usize| {
        terminal.until("the next prompt", || {
            let all = terminal.all();
            let found = all.lines().filter(|line| line.trim_start().starts_with(">>>")).count();
            found >= count
        });
    };
    says("/help lists commands");
    prompts(1);
    terminal.type_text("/stats\n");
    says("no answer yet");
    terminal.type_text("/system Answer in one word.\n");
    terminal.type_text("/nonsense\n");
    says("no command `/nonsense`");
    // At the prompt, Ctrl-C ends nothing.
    processes::signal("INT", terminal.child.lock().id());
    says("Ctrl-D or /bye ends");
    let before = terminal.all().len();
    terminal.type_text("Tell me a very long story about the sea and all its fish.\n");
    // The line that was typed is shown, too.
    terminal.until("an answer begins", || terminal.all().len() > before + 90);
    processes::signal("INT", terminal.child.lock().id());
    terminal.type_text("/stats\n");
    says("last answer: ");
    says("time to first token");
    terminal.type_text("\u{4}");
    let status = terminal.until("the end of the chat", || terminal.child.lock().try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "{}", terminal.all());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a temporary file is left");
}

#[test]
fn a_served_model_has_the_api_and_a_manifest_that_is_valid() {
    let folder = TempDir::new().unwrap();
    // With the simulator, nothing is downloaded.
    let mut command = longboat("run", folder.path());
    command.args(["hf://o/Some-Model", "--serve", "--port", "0"]).stdin(Stdio::null());
    let running = Running::start(&mut command);
    let url = until("the address", || {
        let said = running.stderr();
        let (_, rest) = said.split_once(" serves at ")?;
        said.contains("Ctrl-C").then(|| rest.lines().next().unwrap_or_default().to_owned())
    });
    assert!(url.ends_with("/default/some-model"), "{url}");
    let body =
        json!({"model": "o/Some-Model", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
    assert_eq!(http::post(&format!("{url}/v1/chat/completions"), &body).status, 200);
    processes::signal("INT", running.pid());
    let ended = running.end();
    assert!(ended.status.success() && ended.stderr.contains("Stopped. All processes"), "{ended:#?}");

    let manifest = run(longboat("run", folder.path()).args(["smollm2-135m", "--manifest"])).ok();
    let file = folder.path().join("service.yaml");
    std::fs::write(&file, manifest).unwrap();
    let checked = run(longboat("validate", folder.path()).arg(&file));
    assert!(checked.status.success() && checked.stdout.contains("default/smollm2-135m: ok"), "{checked:#?}");
}

/// Serves one repository of a hub, with a GGUF file of this architecture and an announced size of 5 GB. Returns its address.
fn hub(architecture: &'static str) -> String {
    let mut head = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    let mut text = |text: &str| {
        head.extend_from_slice(&(text.len() as u64).to_le_bytes());
        head.extend_from_slice(text.as_bytes());
        if text.contains('.') {
            head.extend_from_slice(&8_u32.to_le_bytes());
        }
    };
    text("general.architecture");
    text(architecture);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(64) {
            answer(&mut stream.unwrap(), &head);
        }
    });
    format!("http://{address}")
}

fn answer(stream: &mut TcpStream, head: &[u8]) {
    const SIZE: u64 = 5_000_000_000;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(count @ 1..) => request.extend_from_slice(&part[..count]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let (status, body) = if request.contains("/private/") {
        ("401 Unauthorized", Vec::new())
    } else if request.contains("/api/models/") {
        let digest = "0".repeat(64);
        let file =
            |name: &str| json!({"rfilename": name, "size": SIZE, "lfs": {"sha256": digest, "size": SIZE}});
        let files = if request.contains("/several/") {
            vec![file("a.gguf"), file("b.gguf")]
        } else {
            vec![file("m.gguf")]
        };
        let model = json!({"sha": "a".repeat(40), "siblings": files});
        ("200 OK", model.to_string().into_bytes())
    } else {
        let mut body = head.to_vec();
        body.resize(5 << 20, 0);
        ("200 OK", body)
    };
    let header = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    // The client may have enough before the end.
    let _ = stream.write_all(header.as_bytes()).and_then(|()| stream.write_all(&body));
}

#[test]
fn what_cannot_run_is_refused_before_anything_is_downloaded() {
    let folder = TempDir::new().unwrap();
    let hub = hub("gemma2");
    let cache = folder.path().join("cache");
    let refused = |arguments: &[&str]| {
        let mut command = longboat("run", folder.path());
        command
            .env("LONGBOAT_ENGINE", "auto")
            .env("HF_ENDPOINT", &hub)
            .env("HF_HOME", folder.path().join("hub"))
            .env_remove("HF_TOKEN")
            .env("LONGBOAT_CACHE", &cache);
        let ended = run(command.args(arguments).arg("Hello"));
        assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:#?}");
        ended.stderr
    };
    for (arguments, parts) in [
        (&["hf://o/m"][..], &["the architecture `gemma2`", "is not supported"][..]),
        (&["hf://several/m"], &["has several GGUF files", "a.gguf, b.gguf", "`longboat run --file`"]),
        (&["hf://several/m", "--file", "b.gguf"], &["the architecture `gemma2`"]),
        (&["hf://private/m"], &["Set HF_TOKEN"]),
        (&["hf://o/m", "--offline"], &["is not completely on this machine", "hint: without a network"]),
        (&["smolm2-135m"], &["did you mean `smollm2-135m`?"]),
        (&["service.yaml"], &["is a manifest: `longboat up service.yaml`"]),
    ] {
        let said = refused(arguments);
        for part in parts {
            assert!(said.contains(part), "{arguments:?}: {part}: {said}");
        }
    }
    assert!(!cache.exists(), "nothing was downloaded");
    let mut command = longboat("run", folder.path());
    command
        .env("LONGBOAT_ENGINE", "auto")
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .env("HF_HOME", folder.path());
    let ended = run(command.env("LONGBOAT_CACHE", &cache).args(["smollm2-135m", "Hello"]));
    for part in [
        "Failed to connect to HuggingFace",
        "http://127.0.0.1:1: ",
        "set HTTPS_PROXY",
        "`longboat models ls`",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {ended:#?}");
    }
}

#[test]
fn models_are_listed_shown_and_pulled() {
    let folder = TempDir::new().unwrap();
    let models = |arguments: &[&str]| {
        let mut command = longboat("models", folder.path());
        command.env("LONGBOAT_CACHE", folder.path().join("cache")).env("HF_ENDPOINT", "http://127.0.0.1:1");
        run(command.env("LONGBOAT_FETCH_PATIENCE", "1").args(arguments))
    };
    let catalogue = models(&["show"]).ok();
    assert!(catalogue.contains("smollm2-135m") && catalogue.contains("Apache-2.0"), "{catalogue}");
    let shown = models(&["show", "smollm2-135m"]).ok();
    for part in [
        "hf://HuggingFaceTB/SmolLM2-135M-Instruct",
        "Apache-2.0",
        "not on this machine; `longboat models pull`",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown: Value = serde_json::from_str(&models(&["show", "smollm2-135m", "-o", "json"]).ok()).unwrap();
    assert_eq!((&shown["licence"], &shown["path"]), (&json!("Apache-2.0"), &json!(null)));
    let file = tools::root().join("README.md");
    assert!(models(&["show", file.to_str().unwrap()]).stderr.contains("not a GGUF file"));
    let pulled = models(&["pull", "smollm2-135m"]);
    assert!(
        !pulled.status.success() && pulled.stderr.contains("cannot download hf://HuggingFaceTB"),
        "{pulled:#?}"
    );
    assert!(models(&["rm", "smollm2-360m"]).stderr.contains("no model `smollm2-360m`"));
}
