//! Tests of the generated CRDs.

use std::path::Path;

use longboat_api::crd::{self, WebhookTarget};
use longboat_api::foreign::httproute::HTTPRouteSpec;
use serde_json::{Value, json};

#[test]
fn the_files_are_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let documents = crd::own_for(&WebhookTarget::default());
    for document in &documents {
        let path = folder.join(crd::file_name(document));
        let file = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            file == crd::to_yaml(document).unwrap(),
            "{} is not current: run `cargo run -p longboat-api --example crds`",
            path.display()
        );
    }
    let current = crd::service_spec().to_string();
    assert!(
        crd::SERVICE_SPEC == current,
        "the schema of specs is not current: run `cargo run -p longboat-api --example crds`"
    );
    let files = std::fs::read_dir(folder).unwrap().count();
    // `longboat-install` generates the kustomization, `scripts/vendor-crds.sh` writes the foreign ones.
    let others = [crd::foreign(), crd::optional(), crd::runtimes()].concat().len() + 1;
    assert_eq!(files, documents.len() + others, "deploy/crds holds a file that nothing writes or reads");
}

#[test]
fn a_route_keeps_what_no_code_of_ours_reads() {
    let rule = json!({
        "filters": [
            {"type": "CORS", "cors": {"allowOrigins": ["https://a.example"], "maxAge": 7}},
            {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "copy", "port": 80}, "percent": 3}},
            {"type": "ExtensionRef", "extensionRef": {"group": "g.example", "kind": "Filter", "name": "f"}},
            {"type": "ExternalAuth", "externalAuth": {"protocol": "HTTP", "backendRef": {"name": "auth"}}},
            {"type": "Newer", "newer": {"a": [1]}},
        ],
        "retry": {"attempts": 2, "backoff": "1s", "codes": [503]},
        "sessionPersistence": {"type": "Cookie", "cookieConfig": {"lifetimeType": "Session"}},
    });
    let spec = json!({"rules": [rule]});
    let read: HTTPRouteSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), spec);
}

#[test]
fn clusters_convert_through_the_webhook_and_the_embedded_server_by_itself() {
    for crd in crd::own_for(&WebhookTarget::default()) {
        let webhook = json!({
            "clientConfig": {"service": {
                "name": "llmisvc-webhook-server-service", "namespace": "kserve", "path": "/convert", "port": 443,
            }},
            "conversionReviewVersions": ["v1", "v1beta1"],
        });
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "Webhook", "webhook": webhook}));
    }
    for crd in crd::own() {
        assert_eq!(crd["spec"].get("conversion"), None);
    }
}

/// Visits a schema and everything below it, with the path of each place. Skips everything below a place for which `visit`
/// returns `false`.
fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value) -> bool) {
    if !visit(path, schema) {
        return;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        walk(field, &format!("{path}.{name}"), visit);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            walk(&schema[key], &format!("{path}{mark}"), visit);
        }
    }
}

/// Returns the schemas of all versions of `crds`, with the kind and version of each.
fn schemas(crds: &[Value]) -> impl Iterator<Item = (String, &Value)> {
    crds.iter().flat_map(|crd| {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let versions = crd["spec"]["versions"].as_array().unwrap().iter();
        versions.map(move |version| {
            let name = version["name"].as_str().unwrap();
            (format!("{kind} {name}"), &version["schema"]["openAPIV3Schema"])
        })
    })
}

/// Whether a place is a core type, which Kubernetes documents.
fn is_core(path: &str) -> bool {
    let core =
        [".template", ".worker", ".pvc.spec", ".hpa.behavior", ".horizontalPodAutoscalerConfig.behavior"];
    path == ".metadata" || core.iter().any(|end| path.ends_with(end))
}

#[test]
fn every_own_field_is_described_and_no_core_field() {
    let own = crd::own();
    let mut problems = Vec::new();
    for (kind, schema) in schemas(&own) {
        walk(schema, "", &mut |path, place| {
            let words = place["description"].as_str().map_or(0, |text| text.split_whitespace().count());
            // The field describes the elements of a list of texts, and the values of a map.
            let of_field = path.ends_with(['}', ']']) && !place["properties"].is_object();
            if words < 3 && path != ".metadata" && !of_field {
                problems.push(format!("{kind} {path} is described by {}", place["description"]));
            }
            if is_core(path) {
                for (name, field) in place["properties"].as_object().into_iter().flatten() {
                    walk(field, &format!("{path}.{name}"), &mut |path, place| {
                        if place.get("description").is_some() {
                            problems.push(format!("{kind} {path} is Kubernetes' to describe"));
                        }
                        true
                    });
                }
            }
            // The Gateway API describes its routes.
            !is_core(path) && !path.ends_with(".route.http.spec")
        });
    }
    problems.dedup();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn minimal_crds_check_as_much_of_what_is_stored() {
    let full = crd::own();
    let mut minimal = full.clone();
    crd::minimal(&mut minimal);
    for ((kind, schema), (_, full)) in schemas(&minimal).zip(schemas(&full)) {
        let mut places = 0;
        walk(schema, "", &mut |path, place| {
            assert_eq!(place.get("description"), None, "{kind} {path}");
            places += 1;
            true
        });
        let mut all = 0;
        walk(full, "", &mut |_, _| {
            all += 1;
            true
        });
        let expected = if kind.ends_with("v1alpha1") { 6 } else { all };
        assert_eq!(places, expected, "{kind}");
    }
}

#[test]
fn no_api_server_refuses_the_schemas() {
    let mut minimal = crd::own();
    crd::minimal(&mut minimal);
    let documents: Vec<Value> =
        [crd::own(), crd::foreign(), crd::optional(), crd::runtimes(), minimal].concat();
    let mut problems = Vec::new();
    for (kind, schema) in schemas(&documents) {
        walk(schema, "", &mut |path, place| {
            for problem in structural(place) {
                problems.push(format!("{kind} {path}: {problem}"));
            }
            true
        });
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the reasons why a schema is not structural (Kubernetes' rules for CRDs).
fn structural(place: &Value) -> Vec<String> {
    const KNOWN: [&str; 29] = [
        "additionalProperties",
        "allOf",
        "anyOf",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "not",
        "oneOf",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "x-kubernetes-embedded-resource",
    ];
    let object = place.as_object().unwrap();
    let mut problems: Vec<String> = object
        .keys()
        .filter(|key| !KNOWN.contains(&key.as_str()))
        .map(|key| format!("keyword {key}"))
        .collect();
    let is = |key: &str| place[key] == true;
    if !place["type"].is_string()
        && !is("x-kubernetes-int-or-string")
        && !is("x-kubernetes-preserve-unknown-fields")
    {
        problems.push("has no type".to_owned());
    }
    if place["properties"].is_object() && place["additionalProperties"].is_object() {
        problems.push("has fields and free keys".to_owned());
    }
    for name in place["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if place["properties"].get(name).is_none() {
            problems.push(format!("requires {name}, which it does not have"));
        }
    }
    let items = &place["items"];
    match place["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            for key in place["x-kubernetes-list-map-keys"].as_array().unwrap() {
                let key = key.as_str().unwrap();
                let required =
                    items["required"].as_array().is_some_and(|all| all.iter().any(|name| name == key));
                if !required && items["properties"][key].get("default").is_none() {
                    problems.push(format!("its key {key} is neither required nor has a default"));
                }
            }
        }
        Some("set") if items["properties"].is_object() && items["x-kubernetes-map-type"] != "atomic" => {
            problems.push("is a set of objects that are not atomic".to_owned());
        }
        _ => {}
    }
    for rules in place["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let message = rules["message"].as_str().unwrap_or_default();
        if message.is_empty() || message.contains('\n') {
            problems.push(format!("rule {} has no message", rules["rule"]));
        }
    }
    problems
}

#[test]
fn prefill_is_a_workload_like_the_main_one() {
    let own = crd::own();
    for (kind, schema) in schemas(&own) {
        let spec = &schema["properties"]["spec"]["properties"];
        for (name, field) in spec["prefill"]["properties"].as_object().unwrap() {
            assert_eq!(field, &spec[name], "{kind} {name}");
        }
    }
}
