//! What a change of manifests changes.

use std::sync::Arc;

use longboat_api::v1alpha2::LLMInferenceServiceConfig;
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::{SERVICE, SMALL_SERVICE, scene, scene_of};
use crate::{
    diff,
    scene::{ObservedCluster, Scene, merge_manifest},
    settings::Settings,
};

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
fn what_others_wrote_into_a_service_stays_as_with_kubectl_apply() {
    let manifest = longboat_manifest::parse("svc.yaml", SMALL_SERVICE).unwrap();
    let mut last = manifest[0].object.clone();
    last["spec"]["replicas"] = json!(3);
    let live = |last: Option<&Value>| {
        let scene =
            scene_of(&format!("{SMALL_SERVICE}  replicas: 3\n  template: {{nodeSelector: {{zone: a}}}}\n"));
        let mut service = scene.subjects[0].service.as_ref().clone();
        let record = last
            .map(|last| ("kubectl.kubernetes.io/last-applied-configuration".to_owned(), last.to_string()));
        service.metadata.annotations = Some(record.into_iter().collect());
        service.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
        let observed = ObservedCluster {
            services: vec![Arc::new(service)],
            configs: Vec::new(),
            snapshot: scene.snapshot().clone(),
            preset_names: Settings::default().preset_names,
        };
        let mut scene = Scene::observed(observed).unwrap();
        scene.overlay(&manifest, &Settings::default()).unwrap();
        serde_json::to_value(&*scene.subjects[0].service).unwrap()
    };
    let stored = live(Some(&last));
    assert_eq!(stored["metadata"]["labels"], json!({"team": "a"}));
    let stored = &stored["spec"];
    assert_eq!(stored["template"]["nodeSelector"], json!({"zone": "a"}));
    assert!(stored.get("replicas").is_none(), "the manifest has it no longer");
    assert!(live(None)["spec"].get("template").is_none(), "nobody knows who wrote it");
}

#[test]
fn more_replicas_roll_no_pods() {
    let after = scene_of(&SERVICE.replace("replicas: 2", "replicas: 3"));
    let [difference] = &diff::diff(&scene(), &after, false).0[..] else { panic!("one service") };
    assert_eq!(difference.children[0].fields[0].after, Some(json!(3)));
    assert_eq!(difference.rolls, []);
}

#[test]
fn an_object_of_a_manifest_is_compared_with_what_kubectl_apply_would_send() {
    let last = json!({"data": {"a": "1", "old": "x"}}).to_string();
    let live = json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"a": "1", "old": "x", "others": "y"},
        "metadata": {"name": "s", "uid": "u", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last}},
    });
    let manifest =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "2"}});
    let sent = merge_manifest(&live, &manifest);
    assert_eq!(sent["data"], json!({"a": "2", "others": "y"}));
    let change = diff::object_change("Secret default/s".to_owned(), Some(&live), Some(&sent)).unwrap();
    let shown = change.fields.iter().map(|field| (&*field.path, field.before.clone(), field.after.clone()));
    let (before, after) = (json!("*** (before)"), json!("*** (after)"));
    let expected = [("data.a", Some(before.clone()), Some(after)), ("data.old", Some(before), None)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!(diff::object_change(String::new(), Some(&live), Some(&live)), None);
}

#[test]
fn a_label_of_a_service_that_changes_nothing_else_is_a_difference() {
    let after = scene_of(&SERVICE.replacen("metadata: {", "metadata: {annotations: {team: a}, ", 1));
    let [difference] = &diff::diff(&scene(), &after, false).0[..] else { panic!("one service") };
    let changed: Vec<_> = difference.children.iter().map(|child| &*child.object).collect();
    assert_eq!(changed, ["LLMInferenceService/chat"]);
}
