//! Models that are cached on nodes.

use longboat_compose::Platform;
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::create;
use crate::{Facts, LocalModels, ModelCache, Subject, mutate};

fn cache(name: &str, namespace: Option<&str>, uri: &str, groups: &[&str]) -> ModelCache {
    ModelCache {
        name: name.to_owned(),
        namespace: namespace.map(|namespace| Namespace(namespace).to_shared()),
        source_model_uri: uri.to_owned(),
        node_groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

fn facts(caches: Option<Vec<ModelCache>>) -> Facts {
    let platform = Ok(Platform { local_model: true, ..Platform::default() });
    Facts { platform, local_models: LocalModels { caches }, ..Facts::default() }
}

fn service(uri: &str, annotations: Value) -> Value {
    let stale = json!({
        "internal.serving.kserve.io/localmodel": "stale",
        "internal.serving.kserve.io/localmodel-namespace": "stale",
    });
    let mut annotations = annotations;
    annotations["internal.serving.kserve.io/localmodel-pvc-name"] = json!("stale");
    json!({
        "metadata": {"name": "llm", "namespace": "ns", "labels": stale, "annotations": annotations},
        "spec": {"model": {"uri": uri, "name": "llm"}},
    })
}

/// Name, namespace, source and claim in the marks of the service after defaulting.
fn marks(service: &Value, facts: &Facts) -> [Option<String>; 4] {
    let mutation = mutate(Subject::Service, &create(service), facts).unwrap();
    let metadata = mutation.object.unwrap_or_else(|| service.clone())["metadata"].take();
    [
        ("labels", "localmodel"),
        ("labels", "localmodel-namespace"),
        ("annotations", "localmodel-sourceuri"),
        ("annotations", "localmodel-pvc-name"),
    ]
    .map(|(map, key)| {
        metadata[map][format!("internal.serving.kserve.io/{key}")].as_str().map(ToOwned::to_owned)
    })
}

#[test]
fn the_cache_that_holds_the_model_is_marked_and_the_own_namespace_comes_first() {
    let caches = vec![
        cache("shared", None, "hf://org/model/", &["g1", "g2"]),
        cache("foreign", Some("other"), "hf://org/model", &["g1"]),
        cache("own", Some("ns"), "hf://org/model", &["g2"]),
    ];
    let facts = facts(Some(caches));
    let some = |text: &str| Some(text.to_owned());
    for (uri, annotations, wanted) in [
        ("hf://org/model/part", json!({}), [some("own"), some("ns"), some("hf://org/model"), some("own-g2")]),
        (
            "hf://org/model",
            json!({"serving.kserve.io/nodegroup": "g1"}),
            [some("shared"), None, some("hf://org/model/"), some("shared-g1")],
        ),
        ("hf://org/model-2", json!({}), [None, None, None, None]),
        ("hf://org/model", json!({"serving.kserve.io/nodegroup": "g3"}), [None, None, None, None]),
        (
            "hf://org/model",
            json!({"serving.kserve.io/disable-localmodel": "false"}),
            [None, None, None, None],
        ),
        // A service whose URI comes from a config keeps its marks.
        ("", json!({}), [some("stale"), some("stale"), None, some("stale")]),
    ] {
        assert_eq!(marks(&service(uri, annotations.clone()), &facts), wanted, "{uri} {annotations}");
    }
}

#[test]
fn without_the_kinds_of_caches_there_are_none_and_a_warning_says_so() {
    let service = service("hf://org/model", json!({}));
    assert_eq!(marks(&service, &facts(None)), [None, None, None, None]);
    let warnings = mutate(Subject::Service, &create(&service), &facts(None)).unwrap().warnings;
    assert!(warnings[0].contains("LocalModelCache"), "{warnings:?}");
    assert_eq!(mutate(Subject::Service, &create(&service), &Facts::default()).unwrap().warnings, [""; 0]);
}
