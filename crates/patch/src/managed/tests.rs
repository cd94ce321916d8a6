use std::cell::Cell;

use longboat_schema::StructuralSchema;
use longboat_types::type_of_kind;
use serde_json::{Value, json};

use super::{ManagedError, Versions, Write, apply, scale_to_parent, scale_to_subresource, update};
use crate::{
    fields::{Path, Set},
    schema::Node,
};

/// A kind with a single version.
struct Kind<'a>(&'a str, Node<'a>);

impl Versions for Kind<'_> {
    fn schema(&self, api_version: &str) -> Option<Node<'_>> {
        (api_version == self.0).then_some(self.1)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        Ok(object)
    }
}

fn built_in(api_version: &'static str, kind: &str) -> Kind<'static> {
    Kind(api_version, Node::Type(type_of_kind(api_version, kind).unwrap()))
}

fn write<'a>(api_version: &'a str, kind: &'a str, manager: &'a str) -> Write<'a> {
    Write {
        api_version,
        kind,
        manager,
        subresource: "",
        force: false,
        now: "2026-01-01T00:00:00Z",
        ignored: None,
    }
}

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": data})
}

fn deployment(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

/// Manager, operation and fields of each entry.
fn entries(object: &Value) -> Vec<(String, String, Value)> {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            (text("manager"), text("operation"), entry["fieldsV1"].clone())
        })
        .collect()
}

fn entry(manager: &str, operation: &str, fields: Value) -> (String, String, Value) {
    (manager.to_owned(), operation.to_owned(), fields)
}

fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("u");
    object
}

#[test]
fn who_creates_owns_all_but_what_every_object_has() {
    let kind = built_in("apps/v1", "Deployment");
    let mut new = deployment(&json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": "d"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {}}]},
        },
    }));
    update(&write("apps/v1", "Deployment", "apitrans"), &kind, None, &mut new);
    assert_eq!(
        entries(&new),
        [entry(
            "apitrans",
            "Update",
            json!({"f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
                        ".": {},
                        "f:name": {},
                        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                            ".": {}, "f:containerPort": {}, "f:protocol": {},
                        }},
                        "f:resources": {},
                    }}},
                },
            }})
        )]
    );
}

#[test]
fn an_update_takes_what_it_changes_and_a_no_op_takes_nothing() {
    let kind = built_in("v1", "ConfigMap");
    let mut live = stored(config_map(&json!({"k": "1"})));
    live["metadata"].as_object_mut().unwrap().remove("uid");
    update(&write("v1", "ConfigMap", "a"), &kind, None, &mut live);
    let live = stored(live);

    let mut same = live.clone();
    update(&write("v1", "ConfigMap", "b"), &kind, Some(&live), &mut same);
    assert_eq!(same, live);

    let mut changed = live.clone();
    changed["data"]["k"] = json!("2");
    update(&write("v1", "ConfigMap", "b"), &kind, Some(&live), &mut changed);
    assert_eq!(
        entries(&changed),
        [entry("a", "Update", json!({"f:data": {}})), entry("b", "Update", json!({"f:data": {"f:k": {}}})),]
    );

    let mut reset = changed.clone();
    reset["metadata"]["managedFields"] = json!([{}]);
    update(&write("v1", "ConfigMap", "c"), &kind, Some(&changed), &mut reset);
    assert!(entries(&reset).is_empty());
}

#[test]
fn apply_owns_merges_conflicts_and_gives_up() {
    let kind = built_in("v1", "ConfigMap");
    let one = write("v1", "ConfigMap", "one");
    let first = apply(&one, &kind, None, &config_map(&json!({"k": "1", "m": "1"}))).unwrap();
    assert_eq!(entries(&first), [entry("one", "Apply", json!({"f:data": {"f:k": {}, "f:m": {}}}))]);
    let live = stored(first);

    let same = apply(&one, &kind, Some(&live), &config_map(&json!({"k": "1", "m": "1"}))).unwrap();
    assert_eq!(same, live);

    let two = write("v1", "ConfigMap", "two");
    let error = apply(&two, &kind, Some(&live), &config_map(&json!({"k": "2"}))).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .data.k");

    let forced = Write { force: true, ..two };
    let taken = apply(&forced, &kind, Some(&live), &config_map(&json!({"k": "2"}))).unwrap();
    assert_eq!(
        entries(&taken),
        [
            entry("one", "Apply", json!({"f:data": {"f:m": {}}})),
            entry("two", "Apply", json!({"f:data": {"f:k": {}}})),
        ]
    );
    assert_eq!(taken["data"], json!({"k": "2", "m": "1"}));

    let live = stored(taken);
    let given_up = apply(&one, &kind, Some(&live), &config_map(&json!({}))).unwrap();
    assert_eq!(given_up["data"], json!({"k": "2"}));
}

#[test]
fn fields_from_before_the_first_apply_get_an_owner() {
    let kind = built_in("v1", "ConfigMap");
    let live = stored(config_map(&json!({"k": "1"})));
    let applied =
        apply(&write("v1", "ConfigMap", "two"), &kind, Some(&live), &config_map(&json!({"l": "1"}))).unwrap();
    assert_eq!(
        entries(&applied),
        [
            entry("two", "Apply", json!({"f:data": {"f:l": {}}})),
            entry("before-first-apply", "Update", json!({"f:data": {".": {}, "f:k": {}}})),
        ]
    );
}

#[test]
fn what_does_not_fit_the_schema_is_refused_in_the_servers_words() {
    let kind = built_in("v1", "ConfigMap");
    let one = write("v1", "ConfigMap", "one");
    let error = |config: Value| apply(&one, &kind, None, &config).unwrap_err().to_string();
    let mut object = config_map(&json!({"k": 5}));
    object["metadata"] = json!({"name": "a"});
    assert_eq!(
        error(object.clone()),
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .data.k: expected string, got &value.valueUnstructured{Value:5}"
    );
    object["data"] = json!({});
    object["zzz"] = json!(1);
    assert_eq!(
        error(object),
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .zzz: field not declared in schema"
    );
    assert_eq!(error(json!({"kind": "ConfigMap"})), "invalid object type: /, Kind=ConfigMap");
    assert_eq!(error(json!({"apiVersion": "v1"})), "invalid object type: /v1, Kind=");
}

#[test]
fn keyed_lists_of_custom_objects_merge_between_managers() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"entries": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}},
    }}}}});
    let schema = StructuralSchema::of(&schema, false);
    let kind = Kind("x/v1", Node::CustomRoot { schema: schema.root() });
    let object = |list: Value| json!({"apiVersion": "x/v1", "kind": "W", "metadata": {"name": "a"}, "spec": {"entries": list}});
    let one = write("x/v1", "W", "one");
    let two = write("x/v1", "W", "two");
    let both = json!([{"name": "x", "value": "1"}, {"name": "y", "value": "1"}]);
    let live = stored(apply(&one, &kind, None, &object(both)).unwrap());
    let live =
        stored(apply(&two, &kind, Some(&live), &object(json!([{"name": "z", "value": "2"}]))).unwrap());
    assert_eq!(live["spec"]["entries"].as_array().unwrap().len(), 3);
    let live =
        stored(apply(&one, &kind, Some(&live), &object(json!([{"name": "y", "value": "1"}]))).unwrap());
    assert_eq!(live["spec"]["entries"], json!([{"name": "y", "value": "1"}, {"name": "z", "value": "2"}]));
    let clash = object(json!([{"name": "z", "value": "3"}, {"name": "y", "value": "1"}]));
    let error = apply(&one, &kind, Some(&live), &clash).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"two\": .spec.entries[name=\"z\"].value"
    );
    let twice = object(json!([{"name": "y"}, {"name": "y"}]));
    assert_eq!(
        apply(&one, &kind, Some(&live), &twice).unwrap_err().to_string(),
        "failed to create typed patch object (/a; x/v1, Kind=W): .spec.entries: duplicate entries for key [name=\"y\"]"
    );
    let keyless = object(json!([{"value": "q"}]));
    assert_eq!(
        apply(&one, &kind, Some(&live), &keyless).unwrap_err().to_string(),
        "failed to create typed patch object (/a; x/v1, Kind=W): .spec.entries: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)"
    );
}

#[test]
fn kubectl_takes_over_from_its_client_side_self() {
    let kind = built_in("v1", "ConfigMap");
    let mut live = config_map(&json!({"k": "1"}));
    let last = config_map(&json!({"k": "1"})).to_string();
    live["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    update(&write("v1", "ConfigMap", "kubectl-client-side-apply"), &kind, None, &mut live);
    let live = stored(live);
    let config = config_map(&json!({"k": "2"}));
    let applied = apply(&write("v1", "ConfigMap", "kubectl"), &kind, Some(&live), &config).unwrap();
    assert_eq!(applied["data"], json!({"k": "2"}));
    let annotation = &applied["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(serde_json::from_str::<Value>(annotation.as_str().unwrap()).unwrap(), config);
    assert!(matches!(
        apply(&write("v1", "ConfigMap", "other"), &kind, Some(&live), &config),
        Err(ManagedError::Conflict(_))
    ));
}

#[test]
fn replicas_set_through_scale_change_hands() {
    let kind = built_in("apps/v1", "Deployment");
    let path = |version: &str| (version == "apps/v1").then(|| Path::of_fields(&["spec", "replicas"]));
    let mut live = deployment(&json!({"replicas": 1, "paused": true}));
    update(&write("apps/v1", "Deployment", "maker"), &kind, None, &mut live);

    let scale = |replicas: i32, entries: Value| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "uid": "u", "managedFields": entries}, "spec": {"replicas": replicas}});
    let before = scale(1, scale_to_subresource(&live, &path));
    let mut config = scale(3, Value::Null);
    config["metadata"] = json!({"name": "d"});
    let of_scale = built_in("autoscaling/v1", "Scale");
    let scaler = Write { subresource: "scale", ..write("autoscaling/v1", "Scale", "scaler") };
    assert_eq!(
        apply(&scaler, &of_scale, Some(&before), &config).unwrap_err().to_string(),
        "Apply failed with 1 conflict: conflict with \"maker\" using autoscaling/v1: .spec.replicas"
    );
    let after = apply(&Write { force: true, ..scaler }, &of_scale, Some(&before), &config).unwrap();
    scale_to_parent(&mut live, "apps/v1", &after, &path);
    assert_eq!(
        entries(&live),
        [
            entry("scaler", "Apply", json!({"f:spec": {"f:replicas": {}}})),
            entry("maker", "Update", json!({"f:spec": {"f:paused": {}}})),
        ]
    );
}

#[test]
fn ignored_fields_come_to_nobody() {
    let kind = built_in("apps/v1", "Deployment");
    let ignored = Set::of(&[Path::of_fields(&["status"])]);
    let one = Write { ignored: Some(&ignored), ..write("apps/v1", "Deployment", "one") };
    let mut config = deployment(&json!({"replicas": 2}));
    config["status"] = json!({"replicas": 7});
    let applied = apply(&one, &kind, None, &config).unwrap();
    assert_eq!(entries(&applied), [entry("one", "Apply", json!({"f:spec": {"f:replicas": {}}}))]);
}

#[test]
fn the_oldest_of_many_updates_are_merged() {
    let kind = built_in("v1", "ConfigMap");
    let mut live = config_map(&json!({}));
    update(&write("v1", "ConfigMap", "m00"), &kind, None, &mut live);
    for number in 0..14 {
        let mut next = live.clone();
        next["data"][format!("k{number}")] = json!("1");
        let manager = format!("m{number:02}");
        let now = format!("2026-01-01T00:00:{number:02}Z");
        update(
            &Write { now: &now, ..write("v1", "ConfigMap", &manager) },
            &kind,
            Some(&stored(live)),
            &mut next,
        );
        live = next;
    }
    let names: Vec<String> = entries(&live).into_iter().map(|(manager, ..)| manager).collect();
    assert_eq!(names.len(), 10);
    assert!(names.contains(&"ancient-changes".to_owned()));
}

#[test]
fn what_is_still_applied_stays_when_the_last_field_in_it_is_not_any_more() {
    let text = json!({"type": "string"});
    let map = json!({"type": "object", "additionalProperties": text});
    let refs = json!({"type": "array", "items": {"type": "object", "properties": {"name": text}}});
    let router = json!({"type": "object", "properties": {
        "route": {"type": "object", "properties": {"group": text}},
        "gateway": {"type": "object", "properties": {"refs": refs}},
        "scheduler": {"type": "object", "properties": {"image": text, "labels": map}},
    }});
    let spec = json!({"type": "object", "properties": {"router": router}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let schema = StructuralSchema::of(&schema, false);
    let kind = Kind("example.com/v1", Node::CustomRoot { schema: schema.root() });
    let write = write("example.com/v1", "Service", "kubectl");
    let service = |router: Value| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Service",
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"router": router},
        })
    };
    for before in [
        json!({"gateway": {"refs": [{"name": "a"}]}, "scheduler": {"image": "i"}}),
        json!({"gateway": {"refs": []}, "scheduler": {"labels": {"a": "b"}, "image": "i"}}),
    ] {
        let live = stored(apply(&write, &kind, None, &service(before)).unwrap());
        let after = service(json!({"gateway": {}, "scheduler": {}}));
        let object = apply(&write, &kind, Some(&live), &after).unwrap();
        assert_eq!(object["spec"], after["spec"]);
        // The manager that removes all of its fields removes the object, too.
        let live = stored(object);
        let object = apply(&write, &kind, Some(&live), &service(json!({"route": {}}))).unwrap();
        assert_eq!(object["spec"], json!({"router": {"route": {}}}));
    }
}

/// A kind with the versions v1 and v2, which counts its conversions.
struct Counted(Cell<usize>);

impl Versions for Counted {
    fn schema(&self, _: &str) -> Option<Node<'_>> {
        Some(Node::Deduced)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        self.0.set(self.0.get() + 1);
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        Ok(object)
    }
}

#[test]
fn an_object_is_not_converted_for_each_of_its_managers() {
    let kind = Counted(Cell::new(0));
    let object = |version: &str, field: usize| {
        json!({"apiVersion": format!("x.test/{version}"), "kind": "A", "metadata": {"name": "a"},
               "spec": {format!("f{field}"): "x"}})
    };
    let applied = |live: Option<&Value>, version: &str, field: usize| {
        let (manager, api_version) = (format!("m{field}"), format!("x.test/{version}"));
        let mut live = live.cloned();
        if let Some(live) = &mut live {
            live["apiVersion"] = json!(api_version);
        }
        let write = write(&api_version, "A", &manager);
        stored(apply(&write, &kind, live.as_ref(), &object(version, field)).unwrap())
    };
    let first = applied(None, "v1", 0);
    let live = (1..40).fold(first, |live, field| applied(Some(&live), "v1", field));
    kind.0.set(0);
    let last = applied(Some(&live), "v2", 40);
    assert_eq!(entries(&last).len(), 41);
    assert_eq!(kind.0.get(), 3, "for the schema, and before and after the change");
}
