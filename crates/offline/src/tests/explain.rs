//! Where fields of services and of their children come from.

use serde_json::json;

use super::{SMALL_SERVICE, scene, scene_of};
use crate::{
    explain::{self, Explanation, SetterKind, Source},
    render,
    scene::Scene,
};

fn fields(scene: &Scene, path: &str) -> Vec<explain::Field> {
    match explain::explain(scene, &scene.subjects[0].service, Some(path)).unwrap() {
        Explanation::Fields { fields, .. } => fields,
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
        Explanation::Children { fields, .. } => fields,
        other => panic!("{other:?}"),
    }
}

#[test]
fn computed_fields_have_the_rule_of_their_place() {
    let scene = scene_of(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {name: chat, annotations: \
         {longboat.dev/runtime-adapters: 'true'}}\nspec:\n  model: {uri: 'hf://a/b', lora: {adapters: [{name: x, uri: 'hf://c/d'}]}}\n",
    );
    for (path, expected) in [
        ("deployment.metadata.name", "child objects are named after the service"),
        ("deployment.metadata.namespace", "child objects are in the namespace of the service"),
        ("configmap.data", "the LoRA adapters that the loader of each pod loads"),
    ] {
        let [field] = &child_fields(&scene, path)[..] else { panic!("{path}") };
        let Source::Computed { rule, .. } = &field.from else { panic!("{field:?}") };
        assert_eq!(rule, expected, "{path}");
    }
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
    let service = format!("{SMALL_SERVICE}  runtime: RUNTIME\n");
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
fn every_layer_tells_what_it_contributed() {
    let scene = scene();
    let explained = explain::explain(&scene, &scene.subjects[0].service, None).unwrap();
    let Explanation::Layers { layers, .. } = explained else { panic!("layers") };
    let names: Vec<_> = layers.iter().map(|layer| (layer.layer.kind, layer.layer.config.clone())).collect();
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
    assert!(layers[4].sets.is_empty());
    assert_eq!(layers[4].lost.len(), 1);
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
