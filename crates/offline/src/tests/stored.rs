//! Objects count as a cluster would store them: with its defaults, in its versions, and not those that it would refuse.

use serde_json::{Value, json};

use super::scene_of;
use crate::{
    render,
    scene::Scene,
    settings::{Settings, complete_platform},
};

const HEAD: &str = "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {name: one}\nspec:\n  model: {uri: 'hf://a/b'}\n";

/// Renders the service in a text, and returns the object of this kind.
fn child(text: &str, kind: &str) -> Value {
    let scene = scene_of(text);
    assert_eq!(scene.findings.iter().filter(|f| f.severity == crate::validate::Severity::Error).count(), 0);
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    let found = rendered.objects.into_iter().find(|object| object.value["kind"] == kind);
    found.unwrap_or_else(|| panic!("a {kind}: {:?}", rendered.notes)).value
}

#[test]
fn objects_of_a_kind_that_the_manifests_define_are_checked_by_its_schema() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.org}\n\
        spec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: Foo, plural: foos}\n  versions:\n  \
        - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}\n";
    let messages = |size: &str| -> Vec<String> {
        let foo = format!("apiVersion: example.org/v1\nkind: Foo\nmetadata: {{name: one}}\nsize: {size}\n");
        scene_of(&format!("{foo}---\n{definition}"))
            .findings
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    };
    assert_eq!(messages("1"), [""; 0]);
    assert_eq!(
        messages("big"),
        ["Invalid value: \"string\": size in body must be of type integer: \"string\""]
    );
}

#[test]
fn of_objects_with_the_same_name_the_first_counts_and_the_second_is_an_error() {
    let scene = scene_of(&format!("{HEAD}---\n{HEAD}  replicas: 2\n"));
    assert_eq!(scene.subjects.len(), 1);
    assert_eq!(scene.subjects[0].service.spec.workload.replicas, None);
    let messages: Vec<_> = scene.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(messages, ["LLMInferenceService default/one is already at svc.yaml:1:1"]);
}

#[test]
fn defaults_of_the_schema_count_as_on_a_cluster() {
    let route = child(
        &format!(
            "{HEAD}  router:\n    scheduler: {{}}\n    gateway: {{}}\n    route: {{http: {{spec: {{hostnames: [a.example.com]}}}}}}\n"
        ),
        "HTTPRoute",
    );
    let rules = route["spec"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 1, "{rules:#?}");
    assert_eq!(rules[0]["matches"][0]["path"]["value"], "/");
    assert_eq!(rules[0]["backendRefs"][0]["name"], "one-inference-pool");
}

#[test]
fn rules_that_lead_nowhere_lead_to_what_the_managed_route_leads_to() {
    let rules = "    route:\n      http:\n        spec:\n          rules:\n          - timeouts: {request: 300s, backendRequest: 300s}\n          \
                 - filters: [{type: RequestRedirect, requestRedirect: {hostname: b.example.com}}]\n          \
                 - backendRefs: [{name: own, port: 80}]\n";
    let route = child(&format!("{HEAD}  router:\n    scheduler: {{}}\n{rules}"), "HTTPRoute");
    let found: Vec<&Value> =
        route["spec"]["rules"].as_array().unwrap().iter().map(|rule| &rule["backendRefs"]).collect();
    assert_eq!(found[0][0]["kind"], "InferencePool");
    assert_eq!(*found[1], Value::Null);
    assert_eq!((found[2][0]["name"].as_str(), found[2].as_array().unwrap().len()), (Some("own"), 1));
    // Without a picker, the backend is the Service of the servers.
    let route = child(&format!("{HEAD}  router:\n{rules}"), "HTTPRoute");
    assert_eq!(route["spec"]["rules"][0]["backendRefs"][0]["name"], "one-kserve-workload-svc");
}

#[test]
fn a_path_on_the_machine_is_a_model_and_the_initializer_sees_the_volume_of_the_server() {
    let text = "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {name: one}\nspec:\n  model: {uri: 'file:///models/llama'}\n  \
                template:\n    volumes: [{name: models, hostPath: {path: /srv/models}}]\n    containers:\n    - name: main\n      \
                volumeMounts: [{name: models, mountPath: /models}]\n";
    let deployment = child(text, "Deployment");
    let initializer = &deployment["spec"]["template"]["spec"]["initContainers"][0];
    assert_eq!(initializer["args"], json!(["file:///models/llama", "/mnt/models"]));
    let mounts = initializer["volumeMounts"].as_array().unwrap();
    assert!(
        mounts.contains(&json!({"name": "models", "mountPath": "/models", "readOnly": true})),
        "{mounts:#?}"
    );
}

#[test]
fn texts_of_secrets_count_as_their_data() {
    let text = format!(
        "{HEAD}  template: {{serviceAccountName: own, containers: []}}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: own}}\nsecrets: [{{name: token}}]\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: token}}\nstringData: {{HF_TOKEN: secret}}\n"
    );
    let deployment = child(&text, "Deployment");
    let env = deployment["spec"]["template"]["spec"]["initContainers"][0]["env"].as_array().unwrap();
    assert!(env.iter().any(|variable| variable["name"] == "HF_TOKEN"), "{env:#?}");
}

#[test]
fn what_a_cluster_would_refuse_is_no_part_of_the_world() {
    let broken = HEAD.replace("name: one", "name: two") + "  replcas: 3\n";
    let negative = HEAD.replace("name: one", "name: three") + "  replicas: -1\n";
    let scene = scene_of(&format!("{HEAD}---\n{broken}---\n{negative}"));
    let names: Vec<_> =
        scene.subjects.iter().filter_map(|subject| subject.service.metadata.name.as_deref()).collect();
    assert_eq!(names, ["one"]);
    let found: Vec<String> = scene
        .findings
        .iter()
        .filter(|finding| finding.severity == crate::validate::Severity::Error)
        .map(|finding| format!("{} {} {}", finding.object.as_ref().unwrap(), finding.path, finding.reason))
        .collect();
    assert_eq!(
        found,
        [
            "LLMInferenceService default/two spec.replcas UnknownField",
            "LLMInferenceService default/three spec.replicas FieldValueInvalid",
        ]
    );
}

#[test]
fn services_with_generated_names_are_all_in_the_scene() {
    let text = HEAD.replace("name: one", "generateName: one-");
    let of_file = |file: &str| longboat_manifest::parse(file, &text).unwrap().remove(0);
    let documents = [of_file("a.yaml"), of_file("b.yaml")];
    let scene = Scene::new(&documents, &Settings::default()).unwrap();
    let names: Vec<_> =
        scene.subjects.iter().filter_map(|subject| subject.service.metadata.name.as_deref()).collect();
    assert_eq!(names, ["one-00001", "one-00002"]);
}

#[test]
fn an_old_object_is_stored_in_the_new_version_with_its_defaults() {
    let text = "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: one}\nspec:\n  \
                model: {uri: 'hf://a/b', criticality: High}\n  router: {scheduler: {}}\n";
    let scene = scene_of(text);
    let annotations = scene.subjects[0].service.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["internal.serving.kserve.io/model-criticality"], "Critical");
    assert!(
        scene.findings.iter().any(|found| found.path.ends_with("criticality")
            && found.message.starts_with("High is stored as Critical")),
        "{:#?}",
        scene.findings
    );
}

#[test]
fn a_platform_of_one_setting_is_completed_with_what_a_controller_requires() {
    let platform = |data: &str| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: inferenceservice-config}}\ndata:\n  ingress: '{{\"ingressGateway\": \"a/b\"}}'\n{data}"
        );
        longboat_manifest::parse("platform.yaml", &text).unwrap().remove(0)
    };
    let mut document = platform("");
    assert_eq!(complete_platform(&mut document).unwrap(), Some("storageInitializer"));
    assert_eq!(complete_platform(&mut document).unwrap(), None);
    let settings = Settings { platform: Some(document), ..Settings::default() };
    let service = "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {name: a}\nspec: {model: {uri: 'hf://a/b'}}\n";
    let documents = longboat_manifest::parse("f.yaml", service).unwrap();
    let scene = Scene::new(&documents, &settings).unwrap();
    assert!(!render::children(&scene, &scene.subjects[0].service).unwrap().incomplete);
    // What the file has stays, also if it is wrong.
    let mut broken = platform("  storageInitializer: '{}'\n");
    assert_eq!(complete_platform(&mut broken).unwrap(), None);
    let settings = Settings { platform: Some(broken), ..Settings::default() };
    assert!(Scene::new(&documents, &settings).is_err());
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inferenceservice-config}\ndata: text\n";
    let mut no_map = longboat_manifest::parse("platform.yaml", text).unwrap().remove(0);
    assert_eq!(complete_platform(&mut no_map).unwrap(), None);
}
