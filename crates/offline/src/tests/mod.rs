//! Small scenes, with the results of the commands.

mod diff;
mod explain;
mod stored;

use serde_json::{Value, json};

use crate::{
    render::{self, ServiceRendering, Severity},
    scene::{NO_UID, Scene},
    settings::{Presets, Settings},
};

const SERVICE: &str = "\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: chat}
spec:
  model: {uri: 'hf://a/b'}
  replicas: 2
  baseRefs: [{name: team}, {name: idle}]
  template:
    containers:
    - name: main
      args: [--max-model-len, '10']
  router: {gateway: {}, route: {}, scheduler: {}}
---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceServiceConfig
metadata: {name: team, namespace: kserve}
spec:
  replicas: 1
  template:
    nodeSelector: {zone: a}
    containers:
    - name: main
      image: registry.local/vllm:1
      args: [--team]
---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceServiceConfig
metadata: {name: idle}
spec:
  replicas: 7
";

/// A service to which tests add fields.
const SMALL_SERVICE: &str = "\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: chat}
spec:
  model: {uri: 'hf://a/b'}
";

pub(crate) fn scene_of(text: &str) -> Scene {
    let documents = longboat_manifest::parse("svc.yaml", text).unwrap();
    Scene::new(&documents, &Settings::default()).unwrap()
}

fn scene() -> Scene {
    scene_of(SERVICE)
}

/// The notes with this severity.
fn notes(rendered: &ServiceRendering, severity: Severity) -> Vec<&str> {
    let found = rendered.notes.iter().filter(|note| note.severity == severity);
    found.map(|note| note.message.as_str()).collect()
}

#[test]
fn a_service_renders_to_all_of_its_children_the_same_bytes_every_time() {
    let scene = scene();
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    let kinds: Vec<&str> =
        rendered.objects.iter().map(|object| object.value["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "Secret",
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "ClusterRoleBinding",
            "Deployment",
            "Deployment",
            "Service",
            "Service",
            "InferencePool",
            "InferencePool",
            "HTTPRoute"
        ]
    );
    assert!(!rendered.incomplete, "{:?}", rendered.notes);
    let text = |scene: &Scene| {
        let rendered = render::children(scene, &scene.subjects[0].service).unwrap();
        render::to_yaml(rendered.objects.iter().map(|object| &object.value))
    };
    assert_eq!(text(&scene), text(&self::scene()));
    let secret = &rendered.objects[0].value;
    assert_eq!(secret["data"]["tls.key"], render::CERTIFICATE_PLACEHOLDER);
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], NO_UID);
    let documents = render::documents(&scene, &scene.subjects[0].service).unwrap();
    assert_eq!(documents.objects, text(&scene));
    // Parsing the printed text gives the planned objects.
    let read: Vec<Value> = serde_saphyr::from_multiple(&text(&scene)).unwrap();
    let planned: Vec<Value> = rendered.objects.into_iter().map(|object| object.value).collect();
    assert_eq!(read, planned);
}

#[test]
fn what_cannot_be_planned_is_said_and_the_rest_rendered() {
    let documents = longboat_manifest::parse("svc.yaml", SERVICE).unwrap();
    let mut settings = Settings::default();
    settings.capabilities.gateway_api = false;
    let scene = Scene::new(&documents, &settings).unwrap();
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    assert!(rendered.incomplete);
    let problem = &rendered.notes[0];
    assert_eq!(problem.severity, Severity::Problem);
    assert!(problem.message.contains("gateway.networking.k8s.io"), "{}", problem.message);
    assert!(rendered.objects.iter().any(|object| object.value["kind"] == "Deployment"));
}

#[test]
fn layers_that_do_nothing_or_lose_a_list_are_told() {
    let scene = scene();
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    let warnings = notes(&rendered, Severity::Warning);
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    assert!(warnings[0].contains("LLMInferenceServiceConfig default/idle in spec.baseRefs[1] has no effect"));
    assert!(
        warnings[1]
            .contains("spec.template.containers[name=main].args of LLMInferenceServiceConfig kserve/team")
            && warnings[1].contains("the service replaces the whole list"),
        "{warnings:#?}"
    );
}

#[test]
fn gateways_that_the_manifests_do_not_hold_are_assumed_and_that_is_said() {
    let scene =
        scene_of(&SERVICE.replace("gateway: {}", "gateway: {refs: [{name: edge, namespace: infra}]}"));
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    assert_eq!(notes(&rendered, Severity::Assumed), ["Gateway infra/edge exists"]);
    let route = &rendered.objects.last().unwrap().value;
    assert_eq!(route["spec"]["parentRefs"][0]["name"], "edge");
}

#[test]
fn with_sglang_nothing_of_the_service_says_tls_and_traces_have_its_flags() {
    let rest = "  RUNTIME
  tracing: {exporterEndpoint: 'http://collector.traces:4317/'}
  router: {gateway: {}, route: {}, scheduler: {}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inferenceservice-config, namespace: kserve}
data:
  ingress: '{\"enableLLMInferenceServiceTLS\": true, \"ingressGateway\": \"a/b\", \"kserveIngressGateway\": \"a/b\"}'
  storageInitializer: '{\"memoryRequest\": \"1\", \"memoryLimit\": \"1\", \"cpuRequest\": \"1\", \"cpuLimit\": \"1\"}'
";
    let service = format!("{SMALL_SERVICE}{rest}");
    let texts = |line: &str| {
        let scene = scene_of(&service.replace("RUNTIME", line));
        assert!(scene.findings.is_empty(), "{:?}", scene.findings);
        let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
        let args = |object: &Value| {
            let main = &object["spec"]["template"]["spec"]["containers"][0]["args"];
            serde_json::from_value::<Vec<String>>(main.clone()).unwrap_or_default()
        };
        let mut server = Vec::new();
        let (mut protocol, mut pickers) = (Value::Null, String::new());
        for object in rendered.objects {
            match (object.value["kind"].as_str().unwrap(), object.value["metadata"]["name"].as_str().unwrap())
            {
                ("Deployment", "chat-kserve") => server = args(&object.value),
                ("Deployment", _) => pickers.push_str(&object.value.to_string()),
                ("Service", "chat-kserve-workload-svc") => {
                    protocol = object.value["spec"]["ports"][0]["appProtocol"].clone();
                }
                _ => {}
            }
        }
        (server, protocol, pickers.contains("scheme: https"))
    };
    let endpoint = "http://collector.traces:4317/";
    let vllm = ["--otlp-traces-endpoint", endpoint, "--collect-detailed-traces", "all"].map(str::to_owned);
    assert_eq!(texts(""), (vllm.to_vec(), json!("https"), true));
    let sglang = ["--otlp-traces-endpoint", "collector.traces:4317", "--enable-trace"].map(str::to_owned);
    assert_eq!(texts("runtime: kserve-llm-sglang"), (sglang.to_vec(), json!("http"), false));
}

#[test]
fn without_presets_a_service_has_nothing_to_build_on() {
    let documents = longboat_manifest::parse("svc.yaml", SERVICE).unwrap();
    let settings = Settings { presets: Presets::None, ..Settings::default() };
    let scene = Scene::new(&documents, &settings).unwrap();
    let error = render::children(&scene, &scene.subjects[0].service).unwrap_err().to_string();
    assert!(error.contains("\"kserve-config-llm-scheduler\" not found"), "{error}");
}
