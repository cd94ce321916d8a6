//! The manifests and fragments of the documents that define the API (`tests/cases/seeds`), unchanged. One world serves those that are
//! valid, and each of them gets a request. `crates/offline/tests/cases.rs` validates and renders each.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Stdio, time::Duration};

use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::{http, local_cluster::up, program::Running, tools, wait::within};

/// The model of most fragments.
const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct";

/// About fifty processes start, each within a second if it starts alone.
const PATIENCE: Duration = Duration::from_mins(25);

/// The expected results for one manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// `namespace/name` of the service. By default, the file's name in the namespace `default`.
    name: Option<String>,
    /// The path of requests, below the gateway's address.
    path: Option<String>,
    /// The host name of requests.
    host: Option<String>,
    /// The model of requests.
    model: Option<String>,
    /// Parts of the message with which `validate` refuses the manifest.
    #[serde(default)]
    refused: Vec<String>,
}

fn folder() -> PathBuf {
    tools::root().join("tests/cases/seeds")
}

fn expectations() -> BTreeMap<String, Expected> {
    let text = fs::read_to_string(folder().join("expect.yaml")).unwrap();
    let expected: BTreeMap<String, Expected> = serde_saphyr::from_str(&text).unwrap();
    let mut files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "expect")
        .collect();
    files.sort();
    assert_eq!(files, expected.keys().cloned().collect::<Vec<_>>(), "one expectation for each manifest");
    expected
}

#[test]
fn every_valid_manifest_of_the_documents_is_served_and_answers() {
    let served: BTreeMap<String, Expected> =
        expectations().into_iter().filter(|(_, expected)| expected.refused.is_empty()).collect();
    let temporary = TempDir::new().unwrap();
    let mut command = up(temporary.path());
    command.args(["--port", "0", "--timeout", "1500"]).stdin(Stdio::null());
    command.args(served.keys().map(|name| folder().join(format!("{name}.yaml"))));
    let mut running = Running::start(&mut command);
    within(PATIENCE, "`up` says how to go on", || {
        let said = running.stderr();
        assert!(!running.has_ended() && !said.contains("error: "), "`up` failed:\n{said}");
        said.contains("Ctrl-C")
    });
    let said = running.stderr();
    for part in [
        "created the missing namespace production",
        "serves in place of Gateway istio-system/my-custom-gateway",
        "serves in place of Gateway default/my-gateway",
        "created Service default/my-backend-service, which selects the pods of default/route-custom",
        "created Service default/my-custom-backend, which selects the pods of default/service-backend",
        "pretends to be a node with nvidia.com/gpu.product=NVIDIA-A100-PCIE-40G",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let gateway = said.split("gateway: http://").nth(1).unwrap().lines().next().unwrap().trim().to_owned();
    // The only rule of its route rewrites one API.
    let rewritten = format!("default/url-rewrite serves at http://{gateway}/my-tenant/my-model\n");
    assert!(said.contains(&rewritten), "{said}");
    let mut wrong = Vec::new();
    for (name, expected) in &served {
        let model = expected.model.as_deref().unwrap_or(MODEL);
        let path = expected.path.as_deref().unwrap().trim_end_matches('/');
        let url = format!("http://{gateway}{path}/v1/completions");
        let body = json!({"model": model, "prompt": "Why is the sea salty?", "max_tokens": 4});
        let answer = http::block(async {
            let request = http::client().post(&url).json(&body);
            let host = expected.host.as_deref().unwrap_or(&gateway);
            http::read(request.header("host", host).send().await.unwrap()).await
        });
        let service = expected
            .name
            .as_deref()
            .and_then(|name| name.split_once('/'))
            .map_or(name.as_str(), |(_, name)| name);
        let by_its_pods = answer.headers.get("x-inference-pod").is_some_and(|pod| pod.starts_with(service));
        if answer.status != 200 || !by_its_pods {
            wrong.push(format!("{name}: {url}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{said}", wrong.join("\n"));
}
