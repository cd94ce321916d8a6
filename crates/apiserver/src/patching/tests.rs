use jiff::Timestamp;
use serde_json::{Value, json};

use super::{PatchKind, Write, check_manager, patch, track};
use crate::kinds::{Registry, Resource};

fn with<T>(api_version: &str, kind: &str, run: impl FnOnce(&Write<'_>) -> T) -> T {
    let registry = Registry::default();
    let resource: &Resource = &registry.find_kind(api_version, kind).unwrap();
    run(&Write {
        registry: &registry,
        resource,
        subresource: None,
        manager: "tester",
        force: false,
        now: Timestamp::UNIX_EPOCH,
    })
}

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", "uid": "u"}, "data": data})
}

fn outcome(kind: PatchKind, body: &str) -> Result<Value, (u16, String)> {
    let live = config_map(&json!({"x": "1", "y": "2"}));
    with("v1", "ConfigMap", |write| patch(write, kind, body.as_bytes(), Some(&live)))
        .map(|patched| patched.object["data"].clone())
        .map_err(|error| (error.code, error.message))
}

#[test]
fn json_patches_do_what_the_references_library_does() {
    let refused = || Err((422, "the server rejected our request due to an error in our request".to_owned()));
    for (body, expected) in [
        (r#"[{"op":"test","path":"/data/x","value":"1"},{"op":"replace","path":"/data/x","value":"9"}]"#, Ok(json!({"x": "9", "y": "2"}))),
        (r#"[{"op":"move","from":"/data/x","path":"/data/z"},{"op":"copy","from":"/data/y","path":"/data/w"},{"op":"remove","path":"/data/y"}]"#, Ok(json!({"w": "2", "z": "1"}))),
        (r#"[{"op":"replace","path":"/data/none","value":"x"}]"#, Ok(json!({"none": "x", "x": "1", "y": "2"}))),
        (r#"[{"op":"test","path":"/metadata/annotations","value":null}]"#, Ok(json!({"x": "1", "y": "2"}))),
        ("[]", Ok(json!({"x": "1", "y": "2"}))),
        (r#"[{"op":"test","path":"/data/x","value":"no"}]"#, refused()),
        (r#"[{"op":"remove","path":"/data/none"}]"#, refused()),
        (r#"[{"op":"test","path":"/none/none","value":null}]"#, refused()),
        (r#"[{"op":"add","path":"","value":{"data":{}}}]"#, refused()),
        (r#"[{"op":"replace","path":"","value":{"data":{"r":"1"}}}]"#, Ok(json!({"r": "1"}))),
        (r#"[{"op":"replace","path":"","value":5}]"#, Ok(json!({"x": "1", "y": "2"}))),
        (r#"[{"op":"add","path":"/data/n"},{"op":"copy","from":"/data/none","path":"/data/m"}]"#, Ok(json!({"m": null, "n": null, "x": "1", "y": "2"}))),
        (r#"[{"op":"replace","path":"/data","value":["a","b"]},{"op":"add","path":"/data/-1","value":"c"},{"op":"add","path":"x/data/0","value":"d"},{"op":"replace","path":"/data/-1","value":"e"}]"#, Ok(json!(["d", "a", "b", "e"]))),
        (r#"[{"op":"add","path":5,"value":1}]"#, Err((400, "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string".to_owned()))),
        ("[1]", Err((400, "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp".to_owned()))),
        (r#"[{"op":"add","path":"/nope/none","value":"x"}]"#, refused()),
        (r#"[{"op":"frob","path":"/data"}]"#, refused()),
        (r#"{"op":"add"}"#, Err((400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp".to_owned()))),
    ] {
        assert_eq!(outcome(PatchKind::Json, body), expected, "{body}");
    }
}

#[test]
fn merge_patches_follow_rfc_7386() {
    for (body, expected) in [
        (r#"{"data":{"x":null,"z":"3"}}"#, Ok(json!({"y": "2", "z": "3"}))),
        (r#"{"data":null}"#, Ok(Value::Null)),
        ("null", Err((400, "Invalid JSON Patch".to_owned()))),
        ("[]", Err((400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned()))),
        (r#"{"spec":"#, Err((400, "error decoding patch: unexpected end of JSON input".to_owned()))),
    ] {
        assert_eq!(outcome(PatchKind::Merge, body), expected, "{body}");
    }
}

#[test]
fn strategic_patches_that_break_the_type_are_refused() {
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}});
    with("apps/v1", "Deployment", |write| {
        let refuse = |body: &str| {
            patch(write, PatchKind::Strategic, body.as_bytes(), Some(&live)).unwrap_err().message
        };
        assert_eq!(
            refuse(r#"{"spec":{"replicas":"x"}}"#),
            " \"\" is invalid: patch: Invalid value: \"map[spec:map[replicas:x]]\": unrecognized type: int32"
        );
        assert_eq!(
            refuse(r#"{"spec":{"template":{"spec":{"containers":"x"}}}}"#),
            " \"\" is invalid: patch: Invalid value: \"map[spec:map[template:map[spec:map[containers:x]]]]\": cannot restore slice from string"
        );
        assert_eq!(refuse("{bad"), "invalid character 'b' looking for beginning of object key string");
    });
}

#[test]
fn applies_and_updates_keep_account_of_owners() {
    with("v1", "ConfigMap", |write| {
        let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n";
        let applied = patch(write, PatchKind::Apply, body.as_bytes(), None).unwrap().object;
        let entry = &applied["metadata"]["managedFields"][0];
        assert_eq!(entry["operation"], "Apply");
        assert_eq!(entry["time"], "1970-01-01T00:00:00Z");
        assert_eq!(entry["fieldsV1"], json!({"f:data": {"f:k": {}}}));

        let mut updated = applied.clone();
        updated["data"]["k"] = json!("w");
        track(write, Some(&applied), &mut updated);
        assert_eq!(updated["metadata"]["managedFields"][0]["operation"], "Update");
        assert_eq!(updated["metadata"]["managedFields"].as_array().map(Vec::len), Some(1));

        let other = Write { manager: "other", ..*write };
        let body = body.replace("{k: v}", "{k: x}");
        let refused = patch(&other, PatchKind::Apply, body.as_bytes(), Some(&updated)).unwrap_err();
        assert_eq!(refused.code, 409);
        assert_eq!(
            refused.message,
            "Apply failed with 1 conflict: conflict with \"tester\" using v1: .data.k"
        );
    });
}

#[test]
fn applied_yaml_that_is_broken_is_described() {
    with("v1", "ConfigMap", |write| {
        let refuse = |body: &str| patch(write, PatchKind::Apply, body.as_bytes(), None).unwrap_err().message;
        assert_eq!(
            refuse("a: b: c"),
            "error decoding YAML: error converting YAML to JSON: yaml: mapping values are not allowed in this context"
        );
        assert_eq!(
            refuse("[]"),
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    });
}

#[test]
fn managers_have_a_length_and_print() {
    assert!(check_manager("kubectl").is_empty());
    assert_eq!(check_manager(&"x".repeat(129))[0].message, "Too long: may not be more than 128 bytes");
    assert_eq!(
        check_manager("a\0b")[0].message,
        "Invalid value: \"a\\x00b\": invalid character U+0000 (at position 1)"
    );
}
