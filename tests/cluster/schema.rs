//! The embedded API server and the real one answer the same to the same objects.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    api::{Answer, Api, Cause},
    cluster::{ExclusiveCluster, collection, files},
    server::Program,
    tools,
    wait::until,
};

/// What a client learns from the response to a write, without the fields that differ between writes.
#[derive(Debug, PartialEq)]
struct Learned {
    status: u16,
    reason: Value,
    causes: Vec<Cause>,
    /// The message of a refusal without causes. With causes, the message repeats them in any order and is `None`.
    message: Option<String>,
    warnings: Vec<String>,
    stored: Option<Value>,
}

#[test]
fn the_embedded_server_stores_refuses_and_warns_as_the_real_one_does() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    cluster.namespace("schema");
    let (embedded, _program) = start_embedded(&cluster);
    let objects = objects();
    assert!(objects.len() > 160, "only {} objects were found", objects.len());
    let real: Vec<Learned> = {
        let _off = WithoutWebhooks::new(&cluster);
        objects.iter().map(|(_, object)| learn(&cluster.server.api, object)).collect()
    };
    let mut different = Vec::new();
    for ((name, object), real) in objects.iter().zip(real) {
        let ours = learn(&embedded, object);
        if ours != real {
            different.push(format!(
                "{name}:\n  real: {}\n  ours: {}",
                show(&real, &ours),
                show(&ours, &real)
            ));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {} objects get other answers:\n{}",
        different.len(),
        objects.len(),
        different.join("\n")
    );
}

/// Returns every document of `tests/cases/schema` in both versions, with version, file and name.
fn objects() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for file in files(&tools::root().join("tests/cases/schema")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let file = Path::new(&file).file_stem().unwrap().display().to_string();
        for mut object in documents {
            object["metadata"]["namespace"] = json!("schema");
            for version in ["v1alpha1", "v1alpha2"] {
                let mut object = object.clone();
                object["apiVersion"] = json!(format!("serving.kserve.io/{version}"));
                all.push((
                    format!("{version} {file}/{}", object["metadata"]["name"].as_str().unwrap()),
                    object,
                ));
            }
        }
    }
    all
}

/// Starts `longboat apiserver` with Longboat's CRDs, without webhooks.
fn start_embedded(cluster: &ExclusiveCluster) -> (Api, Program) {
    let folder = tempfile::Builder::new().prefix("longboat-embedded-").tempdir().unwrap().keep();
    let port = folder.join("port");
    let program = Path::new(env!("CARGO_BIN_EXE_longboat"));
    let program = Program::start(program, &folder.join("apiserver.log"), |command| {
        command.args(["apiserver", "--listen=127.0.0.1:0", "--no-auth", "--port-file"]).arg(&port);
    });
    let port = until("the embedded server listens", || {
        program.assert_running();
        std::fs::read_to_string(&port).ok()?.trim().parse::<u16>().ok()
    });
    let api = Api::plain(&format!("http://127.0.0.1:{port}"));
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for kind in ["llminferenceservices", "llminferenceserviceconfigs"] {
        let name = format!("{kind}.serving.kserve.io");
        let crd = cluster.server.api.get(&format!("{crds}/{name}")).ok();
        let spec = json!({
            "group": crd["spec"]["group"], "names": crd["spec"]["names"], "scope": crd["spec"]["scope"],
            "versions": crd["spec"]["versions"], "conversion": {"strategy": "None"},
        });
        let object = json!({
            "apiVersion": crd["apiVersion"], "kind": crd["kind"], "metadata": {"name": name}, "spec": spec,
        });
        api.post(crds, &object).ok();
        until("the kind is served", || {
            let list = api.get(&format!("/apis/serving.kserve.io/v1alpha2/{kind}"));
            list.status == 200
        });
    }
    api.make_namespace("schema");
    (api, program)
}

fn learn(api: &Api, object: &Value) -> Learned {
    let answer = api.post(&format!("{}?dryRun=All", collection(object)), object);
    let causes = answer.causes();
    let mut warnings = answer.warnings.clone();
    warnings.sort();
    let refused = answer.status >= 300;
    Learned {
        status: answer.status,
        reason: answer.body["reason"].clone(),
        message: (refused && causes.is_empty()).then(|| answer.message().to_owned()),
        causes,
        warnings,
        stored: (!refused).then(|| kept(answer)),
    }
}

/// Returns the object of a response without the metadata that each write changes.
fn kept(answer: Answer) -> Value {
    let mut object = answer.body;
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for volatile in ["uid", "creationTimestamp", "managedFields", "resourceVersion"] {
            metadata.remove(volatile);
        }
    }
    object
}

/// Describes the parts of `this` that differ from `other`.
fn show(this: &Learned, other: &Learned) -> String {
    let mut parts = Vec::new();
    if (this.status, &this.reason) != (other.status, &other.reason) {
        parts.push(format!("{} {}", this.status, this.reason));
    }
    if this.message != other.message {
        parts.push(format!("message {:?}", this.message));
    }
    for cause in this.causes.iter().filter(|cause| !other.causes.contains(cause)) {
        parts.push(format!("{cause:?}"));
    }
    if this.causes.len() != other.causes.len() {
        parts.push(format!("{} causes", this.causes.len()));
    }
    for warning in this.warnings.iter().filter(|warning| !other.warnings.contains(warning)) {
        parts.push(format!("warns {warning:?}"));
    }
    if this.stored != other.stored {
        parts.push(format!("stores {}", this.stored.clone().unwrap_or_default()));
    }
    parts.join("; ")
}

/// Removes the webhook configurations, and restores them when dropped.
struct WithoutWebhooks<'a> {
    cluster: &'a ExclusiveCluster,
    configurations: Vec<(String, Value)>,
}

// === impl WithoutWebhooks ===

impl<'a> WithoutWebhooks<'a> {
    fn new(cluster: &'a ExclusiveCluster) -> Self {
        let mut configurations = Vec::new();
        for (kind, name) in [
            ("mutatingwebhookconfigurations", "llminferenceservice"),
            ("validatingwebhookconfigurations", "llminferenceservice"),
            ("validatingwebhookconfigurations", "llminferenceserviceconfig"),
        ] {
            let all = format!("/apis/admissionregistration.k8s.io/v1/{kind}");
            let one = format!("{all}/{name}.serving.kserve.io");
            let mut object = cluster.server.api.get(&one).ok();
            object["metadata"] = json!({"name": object["metadata"]["name"]});
            cluster.server.api.delete(&one).ok();
            configurations.push((all, object));
        }
        let off = Self { cluster, configurations };
        off.until_denied(false);
        off
    }

    /// Waits until the API server calls the webhooks, or no longer does: it learns of changes through watches.
    fn until_denied(&self, denied: bool) {
        let bad = json!({
            "apiVersion": "serving.kserve.io/v1alpha2",
            "kind": "LLMInferenceService",
            "metadata": {"name": "probe", "namespace": "schema"},
            "spec": {"model": {"uri": "hf://org/model"}, "router": {"route": {"weight": 1}}},
        });
        until("the API server has noticed the change of its webhooks", || {
            let answer = learn(&self.cluster.server.api, &bad);
            let completed = answer.stored.is_some_and(|stored| !stored["spec"]["model"]["name"].is_null());
            (answer.status == 422) == denied && !completed
        });
    }
}

impl Drop for WithoutWebhooks<'_> {
    fn drop(&mut self) {
        for (path, object) in &self.configurations {
            self.cluster.server.api.post(path, object);
        }
        if !std::thread::panicking() {
            self.until_denied(true);
        }
    }
}
