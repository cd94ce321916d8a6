//! Replays recorded conversations with a real API server, and compares every answer.
//!
//! A Python program (in `apiserver` of `crates/golden`, next to the recordings) replays them. It needs python3 with PyYAML
//! and cryptography. `differences.txt` lists the intended differences; a line that no longer differs is an error, too.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

mod asking;
mod client;
mod durability;
mod forward;
mod hooks;
mod limits;
mod listener;
mod proxy;
mod refusals;
mod services;
mod tokens;
mod versions;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Stdio,
};

use longboat_apiserver::{ApiServer, Options};
use longboat_golden::compatibility;
use serde_json::Value;
use tokio::{net::TcpListener, process::Command};
use tokio_util::sync::CancellationToken;

/// `scenario` → the steps with intended differences; `None` means all steps.
type Differences = BTreeMap<String, Option<BTreeSet<u64>>>;

fn meant() -> Differences {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/differences.txt");
    let mut meant = Differences::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        if line.starts_with('#') {
            continue;
        }
        let Some((what, id)) = line.split_once(' ') else { continue };
        compatibility::deviation(id);
        match what.split_once(':') {
            None => {
                meant.insert(what.to_owned(), None);
            }
            Some((scenario, step)) => {
                let steps = meant.entry(scenario.to_owned()).or_insert_with(|| Some(BTreeSet::new()));
                if let Some(steps) = steps {
                    steps.insert(step.trim().parse().unwrap());
                }
            }
        }
    }
    meant
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_conversations_go_as_with_a_real_api_server() {
    let python = Command::new("python3")
        .args(["-c", "import yaml, cryptography"])
        .stderr(Stdio::null())
        .status()
        .await;
    if !python.is_ok_and(|status| status.success()) {
        return longboat_golden::skipped("no python3 with PyYAML and cryptography");
    }
    longboat_tls::install_default_provider();
    let server = ApiServer::new(Options::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.serve(listener, None, shutdown).await }
    });
    let scratch = tempfile::tempdir().unwrap();
    let (folder, summary) = (scratch.path().join("apiserver"), scratch.path().join("summary.json"));
    longboat_golden::part("apiserver").unpack(&folder);
    let played = Command::new("python3")
        .arg(folder.join("replay.py"))
        .arg(&url)
        .arg(&folder)
        // clients never show the descriptions of table columns
        .args(["--ignore", "description", "--summary"])
        .arg(&summary)
        .output()
        .await
        .unwrap();
    shutdown.cancel();
    serving.await.unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(&summary).expect(&said)).unwrap();
    assert!(rows.len() > 100, "only {} scenarios were played:\n{said}", rows.len());

    let meant = meant();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let different: BTreeSet<u64> =
            row["different"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        match meant.get(name) {
            None => wrong.extend(different.iter().map(|step| format!("{name}:{step} differs"))),
            Some(None) => {
                seen.insert(name);
                if different.is_empty() {
                    wrong.push(format!("{name} is listed, but does not differ any more"));
                }
            }
            Some(Some(steps)) => {
                seen.insert(name);
                wrong.extend(different.difference(steps).map(|step| format!("{name}:{step} differs")));
                wrong.extend(
                    steps
                        .difference(&different)
                        .map(|step| format!("{name}:{step} is listed, but does not differ any more")),
                );
            }
        }
    }
    wrong.extend(
        meant
            .keys()
            .filter(|name| !seen.contains(name.as_str()))
            .map(|name| format!("{name} is listed, but there is no such scenario")),
    );
    assert!(wrong.is_empty(), "{}\n\n{said}", wrong.join("\n"));
}
