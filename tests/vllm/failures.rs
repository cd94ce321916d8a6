//! `failures`: what vLLM prints if it cannot start. The default tests find the cause in it, as `up` and the status do.

use std::{
    env,
    fs::{self, File},
    net::TcpListener,
    process::Command,
};

use longboat_api::termination;

use crate::{
    install::{Install, RECORD},
    tools,
};

/// The lines of a recording: what the node reads of a log.
const LINES: usize = 500;

#[tokio::test]
async fn the_recorded_failures_are_those_of_this_vllm() {
    let Some(install) = Install::find().await else { return };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    // A folder with everything of a model but its weights.
    let incomplete = tempfile::TempDir::new().unwrap();
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(install.folder("small").join(file), incomplete.path().join(file)).unwrap();
    }
    let small = install.folder("small").display().to_string();
    let offloading = r#"{"kv_connector":"OffloadingConnector","kv_role":"kv_both",
        "kv_connector_extra_config":{"spec_name":"CPUOffloadingSpec","cpu_bytes_to_use":1000000}}"#;
    for (name, model, flags) in [
        ("unknown-flag", small.as_str(), &["--max-modl-len", "512"] as &[&str]),
        ("wrong-value", &small, &["--structured-outputs-config", r#"{"disable_any_whitespace": true}"#]),
        ("no-model", "/nowhere", &[]),
        ("no-weights", &incomplete.path().display().to_string(), &[]),
        ("long-context", &small, &["--max-model-len", "100000"]),
        ("no-memory", &small, &["--num-gpu-blocks-override", "2"]),
        ("port-in-use", &small, &["--port", &port]),
        ("no-offloading", &small, &["--kv-transfer-config", offloading]),
    ] {
        let output = failure(&install, model, flags).replace(model, "/mnt/models");
        let lines: Vec<&str> = output.lines().collect();
        let output = lines[lines.len().saturating_sub(LINES)..].join("\n") + "\n";
        let recording = tools::root().join(format!("tests/vllm/failures/{name}.log"));
        if env::var_os(RECORD).is_some() {
            fs::write(recording, output).unwrap();
        } else {
            let recorded = termination::cause(&fs::read_to_string(recording).unwrap());
            assert_eq!(termination::cause(&output), recorded, "{name} ({RECORD}=1 records it):\n{output}");
        }
    }
}

/// Runs vLLM, which must fail. Returns its output, in which the paths of this machine are others.
fn failure(install: &Install, model: &str, flags: &[&str]) -> String {
    let path = install.folder("log-failure");
    let log = File::create(&path).unwrap();
    let mut command = install.command();
    command
        .args(["serve", model, "--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager"])
        .args(flags);
    let status = command.stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
    assert!(!status.success(), "{flags:?}: {status}");
    let mut python = Command::new(install.folder("environment/bin/python3"));
    let prefix = python.args(["-c", "import sys; print(sys.base_prefix)"]).output().unwrap();
    let prefix = String::from_utf8(prefix.stdout).unwrap();
    let output = fs::read_to_string(path).unwrap();
    let output = output.replace(&install.folder("environment").display().to_string(), "/opt/vllm");
    output.replace(prefix.trim(), "/usr").replace('\r', "")
}
