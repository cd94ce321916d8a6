//! Tests every kind of empty value (`null`, `{}`, `[]`, `""` and a missing field) in every place of built-in and custom
//! objects, on create, patch and apply. The test also reads the written objects again.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::{
    api::Api,
    requests::{Request, Verb, bases, places},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The path of the custom objects.
pub(crate) const CUSTOM: &str = "/apis/diff.example/v1/namespaces/diff/empties";

/// The definition of a kind whose fields may be empty in every way that a schema allows.
fn definition() -> Value {
    let text = json!({"type": "string"});
    let inner = json!({"a": text, "b": {"type": "string", "default": "x"}});
    let object = json!({"type": "object", "properties": inner});
    let with = |base: &Value, more: Value| {
        let mut base = base.clone();
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        base
    };
    let named = json!({"type": "object", "required": ["name"],
        "properties": {"name": text, "v": text, "b": {"type": "string", "default": "x"}}});
    let properties = json!({
        "text": text,
        "nullText": with(&text, json!({"nullable": true})),
        "defaultText": with(&text, json!({"default": "d"})),
        "nullDefault": with(&text, json!({"default": "d", "nullable": true})),
        "number": {"type": "integer"},
        "either": {"x-kubernetes-int-or-string": true},
        "object": object,
        "nullObject": with(&object, json!({"nullable": true})),
        "defaultObject": with(&object, json!({"default": {}})),
        "needs": {"type": "object", "required": ["a"], "properties": {"a": with(&text, json!({"nullable": true}))}},
        "map": {"type": "object", "additionalProperties": text},
        "nullMap": {"type": "object", "additionalProperties": with(&text, json!({"nullable": true}))},
        "objects": {"type": "object", "additionalProperties": object},
        "list": {"type": "array", "items": text},
        "nullList": {"type": "array", "nullable": true, "items": with(&text, json!({"nullable": true}))},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "named": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": named},
        "lists": {"type": "array", "items": {"type": "array", "items": object}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "resource": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    });
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    json!({"metadata": {"name": "empties.diff.example"}, "spec": {
        "group": "diff.example", "scope": "Namespaced",
        "names": {"plural": "empties", "singular": "empty", "kind": "Empty", "listKind": "EmptyList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// Returns an object in which no field is empty.
fn custom(name: &str) -> Value {
    json!({"apiVersion": "diff.example/v1", "kind": "Empty",
        "metadata": {"name": name, "labels": {"l": "m"}, "annotations": {"n": "o"}, "finalizers": ["a/b"]},
        "spec": {"text": "t", "nullText": "t", "defaultText": "t", "nullDefault": "t", "number": 1, "either": "5%",
            "object": {"a": "t", "b": "t"}, "nullObject": {"a": "t", "b": "t"}, "defaultObject": {"a": "t", "b": "t"},
            "needs": {"a": "t"}, "map": {"k": "v"}, "nullMap": {"k": "v"}, "objects": {"k": {"a": "t", "b": "t"}},
            "list": ["t", "u"], "nullList": ["t", "u"], "set": ["t", "u"], "lists": [[{"a": "t", "b": "t"}]],
            "named": [{"name": "n", "v": "t", "b": "t"}, {"name": "m"}],
            "free": {"k": {"l": [{"m": "n"}]}}, "any": [{"k": "v"}],
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"l": "m"}}, "data": {"k": "v"}}}})
}

/// Creates the custom kind, and objects of all kinds that patches are tried on.
pub(crate) fn set_up(api: &Api) {
    api.post(DEFINITIONS, &definition()).ok();
    let served = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        api.get(CUSTOM).status == 200
    });
    assert!(served, "the custom kind is not served");
    for (path, mut object) in bases() {
        object["metadata"]["name"] = json!("live");
        api.post(path, &object).ok();
    }
    fresh(api);
}

/// Resets the custom object.
pub(crate) fn fresh(api: &Api) {
    let path = format!("{CUSTOM}/live");
    api.merge(&path, &json!({"metadata": {"finalizers": null}}));
    api.delete(&path);
    api.post(CUSTOM, &custom("live")).ok();
}

/// Returns a request with an empty value somewhere.
pub(crate) fn request(random: &mut StdRng) -> Request {
    let is_custom = random.random_range(0..2) == 0;
    let (path, object) = if is_custom {
        (CUSTOM, custom("new"))
    } else {
        let (path, mut object) = bases().choose(random).unwrap().clone();
        object["metadata"]["name"] = json!("new");
        (path, object)
    };
    let mut found = Vec::new();
    places(&object, "", &mut found);
    found.retain(|place| !matches!(place.as_str(), "/metadata/name" | "/apiVersion" | "/kind"));
    let place = found.choose(random).unwrap();
    let nothing = [json!(null), json!({}), json!([]), json!("")].choose(random).unwrap().clone();
    let verbs = if is_custom {
        &[Verb::Post, Verb::Merge, Verb::Json, Verb::Apply][..]
    } else {
        &[Verb::Post, Verb::Merge, Verb::Json, Verb::Apply, Verb::Strategic]
    };
    let verb = *verbs.choose(random).unwrap();
    // written objects are read again, but only the custom object is reset afterwards
    let dry = if is_custom && verb != Verb::Post { "" } else { "dryRun=All&" };
    let validation = ["", "fieldValidation=Strict&", "fieldValidation=Ignore&"].choose(random).unwrap();
    let options = format!("{dry}{validation}fieldManager=m");
    let live = format!("{path}/live?{options}");
    match verb {
        Verb::Post => {
            let mut body = object;
            *body.pointer_mut(place).unwrap() = nothing;
            Request { verb, path: format!("{path}?{options}"), body }
        }
        Verb::Json => {
            // kube-apiserver panics on some tests for null
            let ops = if nothing.is_null() { &["add", "replace"][..] } else { &["add", "replace", "test"] };
            let op = *ops.choose(random).unwrap();
            Request { verb, path: live, body: json!([{"op": op, "path": place, "value": nothing}]) }
        }
        Verb::Apply => {
            let mut body = only(&object, place, nothing);
            body["metadata"]["name"] = json!("live");
            body["apiVersion"] = api_version(path).into();
            body["kind"] = kind(path).into();
            Request { verb, path: format!("{live}&force=true"), body }
        }
        _ => Request { verb, path: live, body: only(&object, place, nothing) },
    }
}

/// Returns `value` at a place, with only those parts of the object that lead to it. Lists stay whole.
pub(crate) fn only(object: &Value, place: &str, value: Value) -> Value {
    let Some((name, rest)) =
        place.strip_prefix('/').map(|place| place.split_once('/').unwrap_or((place, "")))
    else {
        return value;
    };
    let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
    if let Value::Array(items) = object {
        let mut items = items.clone();
        let at: usize = name.parse().unwrap();
        items[at] = only(&object[at], &rest, value);
        return items.into();
    }
    let name = name.replace("~1", "/");
    let below = only(&object[&name], &rest, value);
    json!({ name: below })
}

/// Returns the API version that a path names.
fn api_version(path: &str) -> String {
    let words: Vec<&str> = path.split('/').collect();
    if words[1] == "api" { words[2].to_owned() } else { format!("{}/{}", words[2], words[3]) }
}

/// Returns the kind of the objects under a path.
fn kind(path: &str) -> &'static str {
    let plural = path.rsplit('/').next().unwrap_or_default();
    let kinds = [
        ("empties", "Empty"),
        ("configmaps", "ConfigMap"),
        ("secrets", "Secret"),
        ("pods", "Pod"),
        ("services", "Service"),
        ("deployments", "Deployment"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
        ("daemonsets", "DaemonSet"),
        ("cronjobs", "CronJob"),
        ("networkpolicies", "NetworkPolicy"),
        ("rolebindings", "RoleBinding"),
        ("serviceaccounts", "ServiceAccount"),
        ("jobs", "Job"),
        ("endpointslices", "EndpointSlice"),
        ("horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        ("poddisruptionbudgets", "PodDisruptionBudget"),
        ("ingresses", "Ingress"),
        ("leases", "Lease"),
        ("roles", "Role"),
        ("persistentvolumeclaims", "PersistentVolumeClaim"),
    ];
    kinds.iter().find(|(known, _)| *known == plural).unwrap().1
}
