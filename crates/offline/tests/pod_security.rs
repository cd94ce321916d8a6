//! Every rendered pod complies with the profile "restricted" of Pod Security.
//!
//! The rules here are copied from the Pod Security Standards of Kubernetes 1.34. `tests/cluster` checks the same with a real
//! API server.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use longboat_manifest::Document;
use longboat_offline::{Settings, render, scene::Scene};
use serde_json::Value;

/// The kinds of volumes that the profile allows.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

/// The manifests of all cases that some test renders.
fn cases() -> Vec<(String, Vec<Document>)> {
    let files = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let composed =
        files(folder().join("compose")).filter(|path| path.is_dir()).map(|path| path.join("input.yaml"));
    let mut all: Vec<PathBuf> = composed.chain(files(folder().join("topology"))).collect();
    all.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(folder()).unwrap().display().to_string();
        (name, longboat_manifest::parse("input.yaml", &fs::read_to_string(&path).unwrap()).unwrap())
    };
    all.into_iter().map(read).collect()
}

/// The pods of a case, each with its workload.
fn pods(documents: &[Document], settings: &Settings) -> Vec<(String, Value)> {
    let scene = Scene::new(documents, settings).unwrap();
    let rendered =
        scene.subjects.iter().filter_map(|subject| render::children(&scene, &subject.service).ok());
    let mut pods = Vec::new();
    for object in rendered.flat_map(|rendered| rendered.objects) {
        for pointer in [
            "/spec/template/spec",
            "/spec/leaderWorkerTemplate/leaderTemplate/spec",
            "/spec/leaderWorkerTemplate/workerTemplate/spec",
        ] {
            if let Some(pod) = object.value.pointer(pointer).filter(|pod| pod["containers"].is_array()) {
                pods.push((object.reference.key.name.to_string(), pod.clone()));
            }
        }
    }
    pods
}

/// Returns the rules of the profile that a pod violates.
fn violations(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if pod[field] == true {
            found.push(format!("{field} is true"));
        }
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let kinds = volume.as_object().unwrap().keys().filter(|key| *key != "name");
        found.extend(
            kinds.filter(|kind| !VOLUMES.contains(&kind.as_str())).map(|kind| format!("a volume {kind}")),
        );
    }
    let of_pod = &pod["securityContext"];
    for container in
        ["initContainers", "containers"].iter().flat_map(|list| pod[list].as_array().into_iter().flatten())
    {
        let name = container["name"].as_str().unwrap();
        let context = &container["securityContext"];
        let set = |field: &str| if context[field].is_null() { &of_pod[field] } else { &context[field] };
        let mut say = |what: String| found.push(format!("{name}: {what}"));
        if context["privileged"] == true {
            say("is privileged".to_owned());
        }
        if context["allowPrivilegeEscalation"] != false {
            say("may gain privileges".to_owned());
        }
        if set("runAsNonRoot") != true || set("runAsUser") == 0 {
            say("may run as root".to_owned());
        }
        if !["RuntimeDefault", "Localhost"]
            .contains(&set("seccompProfile")["type"].as_str().unwrap_or_default())
        {
            say("has no seccomp profile".to_owned());
        }
        let capabilities = &context["capabilities"];
        let dropped = capabilities["drop"].as_array().into_iter().flatten();
        if !dropped.into_iter().any(|capability| capability == "ALL") {
            say("keeps capabilities".to_owned());
        }
        let added: Vec<&str> =
            capabilities["add"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if added.iter().any(|capability| *capability != "NET_BIND_SERVICE") {
            say(format!("adds {}", added.join(", ")));
        }
        if container["ports"].as_array().into_iter().flatten().any(|port| port["hostPort"].as_i64() > Some(0))
        {
            say("has a port of the host".to_owned());
        }
    }
    found
}

/// Whether a preset needs to violate the rule. The images of tokenizers and of engines other than vLLM run as root.
fn is_needed(case: &str, workload: &str, violation: &str) -> bool {
    let other_engine = ["sglang", "tensorrt-llm", "llama-cpp"]
        .iter()
        .any(|engine| case.starts_with(&format!("compose/{engine}")));
    match violation {
        "main: adds IPC_LOCK, SYS_RAWIO, NET_RAW" => true,
        "main: may run as root" => workload.ends_with("-tokenizer") || other_engine,
        _ => false,
    }
}

#[test]
fn pods_need_no_more_rights_than_the_restricted_profile_leaves_but_for_rdma_and_a_tokenizer() {
    let (mut seen, mut needed) = (0, BTreeSet::new());
    for (case, documents) in cases() {
        for (workload, pod) in pods(&documents, &Settings::default()) {
            seen += 1;
            let (beyond, unexpected): (Vec<_>, Vec<_>) =
                violations(&pod).into_iter().partition(|violation| is_needed(&case, &workload, violation));
            assert_eq!(unexpected, Vec::<String>::new(), "{case}: {workload}");
            needed.extend(beyond);
        }
    }
    assert!(seen > 50, "{seen} pods");
    assert_eq!(needed.len(), 2, "what the presets need beyond the profile: {needed:?}");
}

#[test]
fn where_the_platform_asks_for_it_all_pods_keep_to_the_restricted_profile() {
    const SETTINGS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: inferenceservice-config, namespace: kserve}
data:
  ingress: '{"kserveIngressGateway": "kserve/kserve-ingress-gateway", "ingressGateway": "kserve/x"}'
  storageInitializer: '{"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "1Gi", "enableModelcar": true}'
  longboat: '{"podSecurity": "restricted"}'
"#;
    let platform = longboat_manifest::parse("platform.yaml", SETTINGS).unwrap().remove(0);
    let settings = Settings { platform: Some(platform), ..Settings::default() };
    let image = longboat_manifest::parse(
        "image.yaml",
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {name: a}\nspec:\n  model: {uri: 'oci://a/b'}\n",
    );
    let mut seen = 0;
    for (case, documents) in cases().into_iter().chain([("an image".to_owned(), image.unwrap())]) {
        for (workload, pod) in pods(&documents, &settings) {
            seen += 1;
            assert_eq!(violations(&pod), Vec::<String>::new(), "{case}: {workload}");
        }
    }
    assert!(seen > 50, "{seen} pods");
}
