//! A namespace that enforces the Pod Security profile "restricted".

use std::{fs, path::Path};

use longboat_offline::{Settings, render, scene::Scene};
use serde_json::{Value, json};

use crate::cluster::ExclusiveCluster;

const NAMESPACE: &str = "restricted";

/// Platform settings with which the pods of presets meet the profile.
const SETTINGS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: inferenceservice-config, namespace: kserve}
data:
  ingress: '{"kserveIngressGateway": "kserve/kserve-ingress-gateway", "ingressGateway": "kserve/x"}'
  storageInitializer: '{"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "1Gi"}'
  longboat: '{"podSecurity": "restricted"}'
"#;

/// Needs of the presets of this build that the profile forbids, as the API server words them.
const NEEDED: [&str; 3] = [
    "unrestricted capabilities (container \"main\"",
    "runAsNonRoot != true (container \"main\"",
    // SGLang's image runs as root.
    "runAsNonRoot != true (pod or container \"main\"",
];

#[test]
fn pods_are_taken_by_a_namespace_that_enforces_the_restricted_profile() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    });
    api.post("/api/v1/namespaces", &namespace).ok();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    api.post(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account).ok();
    let platform = longboat_manifest::parse("settings", SETTINGS).unwrap().remove(0);
    let asked = Settings { platform: Some(platform), ..Settings::default() };
    let (mut seen, mut needed) = (0, 0);
    for (settings, may_need_more) in [(&Settings::default(), true), (&asked, false)] {
        for (name, pod) in pods(settings) {
            seen += 1;
            let answer = api.post(&format!("/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"), &pod);
            let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
            if may_need_more && answer.status == 403 && NEEDED.iter().any(|known| message.contains(known)) {
                needed += 1;
                continue;
            }
            assert_eq!(answer.status, 201, "{name}: {message}");
        }
    }
    api.delete(&format!("/api/v1/namespaces/{NAMESPACE}")).ok();
    assert!(seen > 100 && needed > 0, "{seen} pods, of which {needed} need more");
}

/// Returns the pods of all cases, with the service account that exists.
fn pods(settings: &Settings) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = |folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let composed = files(folder.join("compose")).map(|path| path.join("input.yaml"));
    let all = composed.chain(files(folder.join("topology"))).filter(|path| path.is_file());
    let mut pods = Vec::new();
    for file in all {
        let documents = longboat_manifest::parse("case", &fs::read_to_string(&file).unwrap()).unwrap();
        let scene = Scene::new(&documents, settings).unwrap();
        let rendered =
            scene.subjects.iter().filter_map(|subject| render::children(&scene, &subject.service).ok());
        for object in rendered.flat_map(|rendered| rendered.objects) {
            for pointer in [
                "/spec/template/spec",
                "/spec/leaderWorkerTemplate/leaderTemplate/spec",
                "/spec/leaderWorkerTemplate/workerTemplate/spec",
            ] {
                let Some(spec) = object.value.pointer(pointer).filter(|pod| pod["containers"].is_array())
                else {
                    continue;
                };
                let mut spec = spec.clone();
                spec.as_object_mut().unwrap().remove("serviceAccountName");
                let name = format!("{}: {}", file.display(), object.reference.key.name);
                let pod =
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec});
                pods.push((name, pod));
            }
        }
    }
    pods
}
