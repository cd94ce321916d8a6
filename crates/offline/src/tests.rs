//! Small scenes, with the results of the commands.

use std::sync::Arc;

use longboat_api::v1alpha2::LLMInferenceServiceConfig;
use longboat_key::Namespace;
use serde_json::{Value, json};

use crate::{
    diff,
    explain::{self, Explanation, SetterKind, Source},
    render::{self, Severity},
    scene::{NO_UID, ObservedCluster, Scene},
    settings::{Presets, Settings, complete_platform},
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

fn scene_of(text: &str) -> Scene {
    let documents = longboat_manifest::parse("svc.yaml", text).unwrap();
    Scene::new(&documents, &Settings::default()).unwrap()
}

fn scene() -> Scene {
    scene_of(SERVICE)
}

fn fields(scene: &Scene, path: &str) -> Vec<explain::Field> {
    match explain::explain(scene, &scene.subjects[0].service, Some(path)).unwrap() {
        Explanation::Fields(found) => found.fields,
        other => panic!("{other:?}"),
    }
}

/// Why a field of the service cannot be explained.
fn unknown(path: &str) -> String {
    let scene = scene();
    explain::explain(&scene, &scene.subjects[0].service, Some(path)).unwrap_err().to_string()
}

fn child_fields(scene: &Scene, path: &str) -> Vec<explain::ChildField> {
    match explain::explain(scene, &scene.subjects[0].service, Some(path)).unwrap() {
        Explanation::Children(found) => found.fields,
        other => panic!("{other:?}"),
    }
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
    let warnings: Vec<&str> = rendered
        .notes
        .iter()
        .filter(|note| note.severity == Severity::Warning)
        .map(|note| note.message.as_str())
        .collect();
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
    let assumed: Vec<&str> = rendered
        .notes
        .iter()
        .filter(|note| note.severity == Severity::Assumed)
        .map(|note| note.message.as_str())
        .collect();
    assert_eq!(assumed, ["Gateway infra/edge exists"]);
    let route = &rendered.objects.last().unwrap().value;
    assert_eq!(route["spec"]["parentRefs"][0]["name"], "edge");
}

#[test]
fn a_field_names_its_layer_its_line_and_what_it_replaced() {
    let scene = scene();
    let [replicas] = &fields(&scene, "spec.replicas")[..] else { panic!("one field") };
    assert_eq!(replicas.value, json!(2));
    assert_eq!(replicas.set_by.kind, SetterKind::Spec);
    assert_eq!(replicas.set_by.place.as_deref(), Some("svc.yaml:6:3"));
    let replaced: Vec<_> =
        replicas.replaced.iter().map(|old| (old.set_by.config.as_deref().unwrap(), &old.value)).collect();
    assert_eq!(replaced, [("default/idle", &json!(7)), ("kserve/team", &json!(1))]);
    assert_eq!(replicas.replaced[1].set_by.place.as_deref(), Some("svc.yaml:18:3"));

    for path in [
        "spec.template.containers[main].image",
        "template.containers[0].image",
        "spec.template.containers[name=main].image",
    ] {
        let [image] = &fields(&scene, path)[..] else { panic!("{path}") };
        assert_eq!(image.set_by.kind, SetterKind::BaseRef);
        assert_eq!(image.replaced[0].set_by.kind, SetterKind::Preset);
    }
    let [name] = &fields(&scene, "spec.model.name")[..] else { panic!("one field") };
    assert_eq!(name.set_by.kind, SetterKind::Default);
    let [account] = &fields(&scene, "router.scheduler.template.serviceAccountName")[..] else {
        panic!("one field")
    };
    assert_eq!(account.set_by.kind, SetterKind::Computed);
    assert!(account.rule.is_some());
}

#[test]
fn a_template_shows_its_text_and_what_it_looked_at() {
    let scene = scene();
    let found = fields(&scene, "spec.router.route");
    let templated = found.iter().find(|field| field.template.is_some()).unwrap();
    let template = templated.template.as_ref().unwrap();
    assert!(template.text.contains("{{") && !templated.value.as_str().unwrap().contains("{{"));
    assert!(template.inputs.iter().any(|input| input.value.is_some()), "{template:?}");
}

#[test]
fn an_unknown_field_comes_with_its_neighbours() {
    assert_eq!(
        unknown("spec.replica"),
        "default/chat has no field `spec.replica` (did you mean `spec.replicas`?)"
    );
    assert!(
        unknown("spec.router.schedular").contains("`spec.router.scheduler`"),
        "{}",
        unknown("spec.router.schedular")
    );
    assert!(unknown("deployment.spec.replica").contains("`deployment.spec.replicas`"));
    assert_eq!(
        unknown("deployment/nope.spec.replicas"),
        "default/chat has no object for `deployment/nope.spec.replicas`: it has deployment/chat-kserve, \
         deployment/chat-kserve-router-scheduler"
    );
    assert!(unknown("leaderworkerset.spec").contains(", inferencepool/chat-inference-pool"));
}

#[test]
fn a_field_of_a_child_is_a_copy_of_a_field_or_follows_from_some() {
    let scene = scene();
    let [replicas] = &child_fields(&scene, "deployment/chat-kserve.spec.replicas")[..] else {
        panic!("one field")
    };
    let Source::Copied(field) = &replicas.from else { panic!("{replicas:?}") };
    assert_eq!(field.path, "spec.replicas");
    let args = child_fields(&scene, "deployment/chat-kserve.spec.template.spec.containers[main].args");
    let Source::Copied(field) = &args[0].from else { panic!("{:?}", args[0]) };
    assert_eq!(field.path, "spec.template.containers[name=main].args[0]");
    assert_eq!(field.set_by.place.as_deref(), Some("svc.yaml:11:14"));
    let init = "deployment/chat-kserve.spec.template.spec.initContainers[storage-initializer]";
    let init = child_fields(&scene, init);
    let uri = init.iter().find(|field| field.path.ends_with(".args[0]")).unwrap();
    let Source::Copied(field) = &uri.from else { panic!("{uri:?}") };
    assert_eq!(field.path, "spec.model.uri");
    let image = init.iter().find(|field| field.path.rsplit('.').next() == Some("image")).unwrap();
    let Source::Computed { and, .. } = &image.from else { panic!("{image:?}") };
    assert_eq!(and, &["the platform's storageInitializer.image"]);
    let name = child_fields(&scene, "deployment/chat-kserve.metadata.name");
    let Source::Computed { and, .. } = &name[0].from else { panic!("{:?}", name[0]) };
    assert_eq!(and[0], "metadata.name");
}

#[test]
fn a_runtime_is_the_lowest_layer_and_may_be_among_the_manifests() {
    let service = "\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: chat}
spec:
  model: {uri: 'hf://a/b'}
  runtime: RUNTIME
";
    let runtime = "\
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: ours}
spec:
  supportedModelFormats: [{name: sglang, version: '1', autoSelect: false}]
  protocolVersions: [v1]
  containers:
  - name: main
    image: registry.local/sglang:1
";
    let image = "spec.template.containers[main].image";
    let scene = scene_of(&service.replace("RUNTIME", "kserve-llm-sglang"));
    let found = &fields(&scene, image)[0];
    assert_eq!(found.set_by.kind, SetterKind::Runtime);
    assert_eq!(found.set_by.config.as_deref(), Some("kserve-llm-sglang"));
    let scene = scene_of(&format!("{}---\n{runtime}", service.replace("RUNTIME", "ours")));
    assert!(scene.findings.is_empty(), "{:?}", scene.findings);
    let found = &fields(&scene, image)[0];
    assert_eq!(found.value, "registry.local/sglang:1");
    assert_eq!(found.set_by.config.as_deref(), Some("default/ours"));
    assert_eq!(found.set_by.place.as_deref(), Some("svc.yaml:11:1"));
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    let deployment = rendered.objects.iter().find(|object| object.value["kind"] == "Deployment").unwrap();
    let pod = &deployment.value["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["inference.networking.k8s.io/engine-type"], "sglang");
    assert_eq!(pod["spec"]["containers"][0]["image"], "registry.local/sglang:1");
    let missing = scene_of(&service.replace("RUNTIME", "none"));
    let error = missing.plan(&missing.subjects[0].service).unwrap_err();
    assert!(error.to_string().contains("ClusterServingRuntime"), "{error}");
}

#[test]
fn with_sglang_nothing_of_the_service_says_tls_and_traces_have_its_flags() {
    let service = "\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: chat}
spec:
  model: {uri: 'hf://a/b'}
  RUNTIME
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
fn every_layer_tells_what_it_contributed() {
    let scene = scene();
    let explained = explain::explain(&scene, &scene.subjects[0].service, None).unwrap();
    let Explanation::Layers(found) = explained else { panic!("layers") };
    let names: Vec<_> =
        found.layers.iter().map(|layer| (layer.layer.kind, layer.layer.config.clone())).collect();
    let config = |kind, name: &str| (kind, Some(name.to_owned()));
    assert_eq!(
        names,
        [
            config(SetterKind::Preset, "kserve/kserve-config-llm-scheduler"),
            config(SetterKind::Preset, "kserve/kserve-config-llm-router-route"),
            config(SetterKind::Preset, "kserve/kserve-config-llm-template"),
            config(SetterKind::BaseRef, "kserve/team"),
            config(SetterKind::BaseRef, "default/idle"),
            (SetterKind::Spec, None),
            (SetterKind::Default, None),
            (SetterKind::Computed, None),
        ]
    );
    assert!(found.layers[4].sets.is_empty());
    assert_eq!(found.layers[4].lost.len(), 1);
}

#[test]
fn the_difference_of_a_world_to_itself_is_nothing() {
    let (differences, _) = diff::diff(&scene(), &scene(), false);
    assert!(differences.iter().all(diff::Difference::is_empty), "{differences:#?}");
    assert_eq!(diff::to_text(&differences), "");
}

#[test]
fn a_changed_argument_rolls_the_pods_and_names_itself() {
    let after = scene_of(&SERVICE.replace("'10'", "'20'"));
    let [difference] = &diff::diff(&scene(), &after, false).0[..] else { panic!("one service") };
    assert_eq!(difference.effective[0].path, "spec.template.containers[name=main].args[1]");
    assert_eq!(difference.children.len(), 1, "{difference:#?}");
    let [roll] = &difference.rolls[..] else { panic!("{difference:#?}") };
    assert_eq!(roll.object, "Deployment/chat-kserve");
    assert_eq!(roll.because[0].from, ["spec.template.containers[name=main].args[1]"]);
}

#[test]
fn where_planning_stops_the_difference_says_so_and_removes_nothing() {
    let documents =
        longboat_manifest::parse("f.yaml", &SERVICE.replace("replicas: 2", "replicas: 3")).unwrap();
    let mut settings = Settings::default();
    settings.capabilities.gateway_api = false;
    let after = Scene::new(&documents, &settings).unwrap();
    let (differences, failed) = diff::diff(&scene(), &after, false);
    assert!(failed.is_empty());
    let [difference] = &differences[..] else { panic!("one service") };
    let children: Vec<_> = difference.children.iter().map(|child| (&*child.object, child.action)).collect();
    assert_eq!(children, [("Deployment/chat-kserve", diff::Action::Changed)]);
    let problem = "HTTPRouteReconcileError: Failed to reconcile HTTPRoute: the cluster does not serve gateway.networking.k8s.io/v1: install \
                   the Gateway API, or remove spec.router.route and spec.router.gateway (HTTPRoutesReady)";
    assert_eq!(difference.problem.as_deref(), Some(problem));
    let last = diff::to_text(&differences).lines().last().unwrap_or_default().to_owned();
    assert!(last.ends_with(problem), "{last}");
}

#[test]
fn a_config_that_would_be_applied_tells_of_the_services_of_the_cluster_that_it_changes() {
    let service = |name: &str, base_refs: &str| {
        format!(
            "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: {name}, \
             namespace: default}}\nspec:\n  model: {{uri: 'hf://a/b'}}\n  baseRefs: {base_refs}\n"
        )
    };
    let world = [SERVICE, &service("other", "[{name: team}]"), &service("alone", "[]")].concat();
    let documents = longboat_manifest::parse("svc.yaml", &world).unwrap();
    let settings = Settings::default();
    let given = Scene::new(&documents, &settings).unwrap();
    let own = documents.iter().filter(|document| document.kind() == "LLMInferenceServiceConfig");
    let mut configs =
        longboat_compose::presets::builtin(&settings.preset_names, Namespace("kserve")).unwrap();
    configs.extend(own.map(|document| {
        let mut config: LLMInferenceServiceConfig = serde_json::from_value(document.object.clone()).unwrap();
        config.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        config
    }));
    let observed = ObservedCluster {
        services: given.subjects.iter().map(|subject| subject.service.clone()).collect(),
        configs: configs.into_iter().map(Arc::new).collect(),
        snapshot: given.snapshot().clone(),
        preset_names: settings.preset_names.clone(),
    };
    let (before, mut after) =
        (Scene::observed(observed.clone()).unwrap(), Scene::observed(observed).unwrap());
    let config = world.split("---\n").find(|text| text.contains("name: team, namespace: kserve")).unwrap();
    let changed = longboat_manifest::parse("team.yaml", &config.replace("zone: a", "zone: b")).unwrap();
    after.overlay(&changed, &settings).unwrap();

    let (differences, _) = diff::diff(&before, &after, true);
    let services: Vec<&str> = differences.iter().map(|difference| difference.service.as_str()).collect();
    assert_eq!(services, ["default/chat", "default/other"]);
    let change = &differences[1].effective[0];
    assert_eq!((change.path.as_str(), &change.after), ("spec.template.nodeSelector.zone", &Some(json!("b"))));
    assert_eq!(change.set_by.as_ref().unwrap().config.as_deref(), Some("kserve/team"));
}

#[test]
fn more_replicas_roll_no_pods() {
    let after = scene_of(&SERVICE.replace("replicas: 2", "replicas: 3"));
    let [difference] = &diff::diff(&scene(), &after, false).0[..] else { panic!("one service") };
    assert_eq!(difference.children[0].fields[0].after, Some(json!(3)));
    assert_eq!(difference.rolls, []);
}

#[test]
fn a_field_that_is_not_there_is_told_from_one_that_nothing_sets() {
    assert_eq!(
        unknown("spec.parallelism.tensor"),
        "`spec.parallelism.tensor` of default/chat is not set: no layer sets it, and composing does not add it"
    );
    assert_eq!(
        unknown("spec.replcas"),
        "default/chat has no field `spec.replcas` (did you mean `spec.replicas`?)"
    );
    let nearest = unknown("deployment.spec.nothing-like-it");
    assert_eq!(nearest.matches("`deployment.spec.template`").count(), 1, "{nearest}");
    let nearest = unknown("spec.annotations.nothing-like-it");
    assert!(
        nearest.contains("`spec.annotations[\"serving.kserve.io/model-based-routing-enabled\"]`"),
        "{nearest}"
    );
}

#[test]
fn without_presets_a_service_has_nothing_to_build_on() {
    let documents = longboat_manifest::parse("svc.yaml", SERVICE).unwrap();
    let settings = Settings { presets: Presets::None, ..Settings::default() };
    let scene = Scene::new(&documents, &settings).unwrap();
    let error = render::children(&scene, &scene.subjects[0].service).unwrap_err().to_string();
    assert!(error.contains("\"kserve-config-llm-scheduler\" not found"), "{error}");
}

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
}
