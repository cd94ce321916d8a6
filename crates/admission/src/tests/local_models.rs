//! Models that are cached on nodes.

use longboat_compose::Platform;
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::create;
use crate::{Facts, LocalModels, ModelCache, Subject, local_model, mutate};

fn cache(name: &str, namespace: Option<&str>, uri: &str, groups: &[&str]) -> ModelCache {
    ModelCache {
        name: name.to_owned(),
        namespace: namespace.map(|namespace| Namespace(namespace).to_shared()),
        source_model_uri: uri.to_owned(),
        node_groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        is_on_claim: groups.is_empty(),
    }
}

fn facts(caches: Option<Vec<ModelCache>>) -> Facts {
    let platform = Ok(Platform { local_model: true, ..Platform::default() });
    Facts { platform, local_models: LocalModels { caches, ..LocalModels::default() }, ..Facts::default() }
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

fn mutated(service: &Value, facts: &Facts) -> Value {
    let mut service = service.clone();
    local_model::apply(&mut service, facts);
    service
}

#[test]
fn adapters_are_marked_with_their_caches_independently_of_the_model() {
    let mut caches = facts(Some(vec![
        cache("sql", None, "hf://o/sql", &["gpu"]),
        cache("own", Some("ns"), "hf://o/own/", &["a", "b"]),
    ]));
    let service = json!({
        "metadata": {"name": "llm", "namespace": "ns"},
        "spec": {"model": {"uri": "hf://o/m", "lora": {"adapters": [
            {"name": "x", "uri": "hf://o/sql/sub"}, {"name": "y", "uri": "hf://o/own"}, {"name": "z", "uri": "hf://o/none"},
        ]}}},
    });
    let marked = mutated(&service, &caches);
    let key = "internal.serving.kserve.io/localmodel-lora";
    let annotation: Value =
        serde_json::from_str(marked["metadata"]["annotations"][key].as_str().unwrap()).unwrap();
    assert_eq!(
        annotation,
        json!({
            "x": {"cache": "sql"},
            "y": {"cache": "own", "namespace": "ns"},
        })
    );
    assert_eq!(marked["metadata"].get("labels"), None);
    // Without a cache, the mark goes.
    caches.local_models.caches = Some(Vec::new());
    assert_eq!(mutated(&marked, &caches)["metadata"]["annotations"], json!({}));
}

#[test]
fn the_cache_is_on_nodes_that_the_service_selects() {
    let mut caches = facts(Some(vec![cache("m", None, "hf://o/m", &["cpu", "gpu"])]));
    let term = |operator: &str, value: &str| {
        let expression = json!({"key": "pool", "operator": operator, "values": [value]});
        serde_json::from_value(json!({"matchExpressions": [expression]})).unwrap()
    };
    caches.local_models.node_groups =
        [("cpu".to_owned(), vec![term("In", "cpu")]), ("gpu".to_owned(), vec![term("NotIn", "cpu")])].into();
    let claim = |selector: Value| {
        let service = json!({
            "metadata": {"name": "llm", "namespace": "ns"},
            "spec": {"model": {"uri": "hf://o/m"}, "template": {"nodeSelector": selector}},
        });
        let marked = mutated(&service, &caches);
        marked["metadata"]["annotations"]["internal.serving.kserve.io/localmodel-pvc-name"]
            .as_str()
            .map(ToOwned::to_owned)
    };
    assert_eq!(claim(json!({"pool": "cpu"})).as_deref(), Some("m-cpu"));
    assert_eq!(claim(json!({"pool": "h100"})).as_deref(), Some("m-gpu"));
    assert_eq!(claim(json!({"other": "x"})).as_deref(), Some("m-cpu"));
    assert_eq!(claim(json!({})).as_deref(), Some("m-cpu"));
}

/// The annotation of a service with adapter `x` after defaulting.
fn annotation_of_adapter(known: Option<&str>, selector: &Value, facts: &Facts) -> Option<String> {
    const KEY: &str = "internal.serving.kserve.io/localmodel-lora";
    let service = json!({
        "metadata": {"name": "llm", "namespace": "ns", "annotations": {KEY: known}},
        "spec": {
            "model": {"uri": "hf://o/m", "lora": {"adapters": [{"name": "x", "uri": "hf://o/x"}]}},
            "template": {"nodeSelector": selector},
        },
    });
    mutated(&service, facts)["metadata"]["annotations"][KEY].as_str().map(ToOwned::to_owned)
}

#[test]
fn an_adapter_may_be_on_a_shared_claim_and_a_model_may_not() {
    let caches =
        facts(Some(vec![cache("x", Some("ns"), "hf://o/x", &[]), cache("m", Some("ns"), "hf://o/m", &[])]));
    let found = annotation_of_adapter(None, &json!({}), &caches);
    assert_eq!(found.as_deref(), Some(r#"{"x":{"cache":"x","namespace":"ns"}}"#));
    assert_eq!(marks(&service("hf://o/m", json!({})), &caches), [None, None, None, None]);
}

#[test]
fn the_entry_of_an_adapter_names_only_a_group_of_nodes_that_is_not_the_default_and_stays_as_it_was_written() {
    let mut caches = facts(Some(vec![cache("x", None, "hf://o/x", &["cpu", "gpu"])]));
    let expression = json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["cpu"]}]});
    caches.local_models.node_groups =
        [("cpu".to_owned(), vec![serde_json::from_value(expression).unwrap()])].into();
    let found = |known: Option<&str>, pool: &str| {
        annotation_of_adapter(known, &json!({"pool": pool}), &caches).unwrap()
    };
    let (default, other) = (r#"{"x":{"cache":"x"}}"#, r#"{"x":{"cache":"x","nodeGroup":"gpu"}}"#);
    assert_eq!((found(None, "cpu"), found(None, "h100")), (default.to_owned(), other.to_owned()));
    let of_kserve = r#"{"x":{"cache":"x","pvcName":"x-cpu","sourceUri":"hf://o/x"}}"#;
    let of_longboat = r#"{"x":{"cache":"x","claim":"x-cpu","sourceUri":"hf://o/x"}}"#;
    for former in [of_kserve, of_longboat] {
        assert_eq!(found(Some(former), "cpu"), former, "pods have a copy");
        assert_eq!(found(Some(former), "h100"), other, "the nodes are others now");
    }
    assert_eq!(found(Some("no JSON"), "cpu"), default);
}
