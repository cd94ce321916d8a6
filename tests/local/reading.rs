//! Commands that read a cluster without the needed APIs, objects or rights, or one that does not answer.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    program::{Ended, Running, run},
    tools,
    wait::until,
};

const LONGBOAT: &str = env!("CARGO_BIN_EXE_longboat");

/// An API server that serves only Kubernetes' own APIs.
struct Bare {
    server: Running,
    kubeconfig: PathBuf,
    address: String,
    folder: TempDir,
}

// === impl Bare ===

impl Bare {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("port");
        let mut command = Command::new(LONGBOAT);
        command
            .env("LONGBOAT_APISERVER_TOKEN", "let-me-in")
            .args(["apiserver", "--tls", "--listen", "127.0.0.1:0", "--port-file"])
            .arg(&file);
        let server = Running::start(&mut command);
        let port = until("the port of the API server", || {
            fs::read_to_string(&file).ok().filter(|port| !port.trim().is_empty())
        });
        let address = format!("https://127.0.0.1:{}", port.trim());
        let kubeconfig = kubeconfig(&folder, &address, "let-me-in");
        Self { server, kubeconfig, address, folder }
    }

    fn ask(&self, arguments: &[&str]) -> Ended {
        run(&mut self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(LONGBOAT);
        command.env("KUBECONFIG", &self.kubeconfig).env_remove("RUST_LOG").args(arguments);
        command
    }

    /// Creates the objects of a manifest with kubectl.
    fn create(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        let mut kubectl = Command::new(tools::root().join(".cache/bin/kubectl"));
        kubectl.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder.path());
        run(kubectl.args(["create", "-f", path.to_str().unwrap()])).ok();
    }
}

fn kubeconfig(folder: &TempDir, address: &str, token: &str) -> PathBuf {
    let path = folder.path().join(format!("kubeconfig-{token}"));
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": address, "insecure-skip-tls-verify": true}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {"token": token}}],
    });
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Checks that a command failed with a message that contains these words and no Rust debug output.
#[track_caller]
fn fails(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    for word in words {
        assert!(ended.stderr.contains(word), "expected {word:?}: {ended:#?}");
    }
    for dump in ["Status {", "ApiError", "ServiceError", "Error("] {
        assert!(!ended.stderr.contains(dump), "{dump:?} is no sentence: {ended:#?}");
    }
}

const SERVICE: &str = "
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: llm}
spec: {model: {uri: \"hf://a/b\"}}
";

#[test]
fn what_a_cluster_lacks_is_empty_or_said_in_a_sentence() {
    if tools::kubectl().is_none() {
        return;
    }
    let bare = Bare::start();
    fails(&bare.ask(&["status"]), &["the cluster does not serve LLMInferenceServices", "longboat install"]);
    let nothing = bare.ask(&["doctor", "-o", "json"]);
    let findings: Vec<Value> = serde_json::from_str(&nothing.stdout).unwrap();
    assert_eq!(findings.len(), 1, "{nothing:#?}");
    assert_eq!((findings[0]["fault"].as_str(), nothing.status.code()), (Some("NotInstalled"), Some(1)));
    fails(
        &bare.ask(&["explain", "llm"]),
        &["the cluster does not serve llminferenceservices", "longboat install"],
    );

    // Only Longboat's own CRDs, without the optional ones: no LeaderWorkerSets, Gateways or pools.
    let definitions = run(Command::new(LONGBOAT).args(["crds", "--minimal"])).ok();
    let definitions: Vec<&str> =
        definitions.split("---\n").filter(|text| text.contains(".serving.kserve.io")).collect();
    bare.create("definitions.yaml", &definitions.join("---\n"));
    until("the definitions are served", || {
        let ended = bare.ask(&["status"]);
        ended.status.success() && ended.stderr.contains("There are no LLMInferenceServices")
    });
    bare.create("service.yaml", SERVICE);
    let status = bare.ask(&["status"]);
    assert_eq!(status.status.code(), Some(1), "{status:#?}");
    assert!(status.stdout.starts_with("… default/llm  waiting for the controller"), "{status:#?}");
    let followed = Running::start(&mut bare.command(&["status", "--watch"]));
    until("a watch shows the same", || followed.stdout().contains("default/llm: waiting for the controller"));
    drop(followed);

    fails(&bare.ask(&["status", "nope"]), &["error: LLMInferenceService default/nope not found"]);
    fails(&bare.ask(&["doctor", "nope"]), &["error: LLMInferenceService default/nope not found"]);
    let both = bare.ask(&["status", "nope", "llm", "-o", "json"]);
    fails(&both, &["error: LLMInferenceService default/nope not found"]);
    let list: Value = serde_json::from_str(&both.stdout).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "llm", "{list:#}");

    // First an unknown user, then a server that has stopped.
    let stranger = kubeconfig(&bare.folder, &bare.address, "wrong");
    for verb in ["status", "doctor"] {
        let refused = run(Command::new(LONGBOAT).env("KUBECONFIG", &stranger).arg(verb));
        fails(&refused, &["Unauthorized: the API server does not know the user of the kubeconfig"]);
    }
    let Bare { server, kubeconfig, address, folder: _folder } = bare;
    drop(server);
    let silent = format!("the API server at {address} does not answer: ");
    let example = tools::root().join("examples/single-node/service.yaml");
    let example = example.to_str().unwrap();
    let verbs: [&[&str]; 6] = [
        &["status"],
        &["doctor"],
        &["explain", "llm"],
        &["render", "--live", example],
        &["install", "--set", "image=r/l:1"],
        &["uninstall"],
    ];
    for arguments in verbs {
        fails(
            &run(Command::new(LONGBOAT).env("KUBECONFIG", &kubeconfig).args(arguments)),
            &[&silent, "refused"],
        );
    }
    let diff = run(Command::new(LONGBOAT).env("KUBECONFIG", &kubeconfig).args(["diff", example]));
    assert!(diff.status.code() == Some(2) && diff.stderr.contains(&silent), "{diff:#?}");
}

#[test]
fn an_installation_asks_for_an_image_before_anything_is_written() {
    let bare = Bare::start();
    fails(&bare.ask(&["install"]), &["no image is given", "--set image=REGISTRY/longboat:TAG"]);
    let printed = bare.ask(&["install", "--dry-run"]);
    assert!(printed.status.success() && printed.stderr.contains("no image is given"), "{}", printed.stderr);
    let chosen = bare.ask(&["install", "--dry-run", "--set", "image=r/l:1"]);
    assert!(chosen.status.success() && chosen.stderr.is_empty(), "{}", chosen.stderr);
}
