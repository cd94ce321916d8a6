mod plain;

use serde_json::{Value, json};

use super::{Error, merge};

const POD: &str = "core.v1.PodSpec";

fn containers(names: &[&str]) -> Value {
    json!({ "containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>() })
}

fn names(spec: &Value) -> Vec<&str> {
    spec["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect()
}

#[test]
fn new_elements_go_before_what_only_the_base_has() {
    for (base, patch, expected) in [
        (&["a", "b"][..], &["d"][..], &["d", "a", "b"][..]),
        (&["a", "z"], &["b", "z"], &["b", "a", "z"]),
        (&["a", "b", "c"], &["c", "d"], &["a", "b", "c", "d"]),
        (&["a", "b"], &["z", "b", "y"], &["z", "a", "b", "y"]),
    ] {
        let merged = merge(containers(base), containers(patch), POD).unwrap();
        assert_eq!(names(&merged), expected, "{base:?} | {patch:?}");
    }
}

#[test]
fn the_merge_vectors_of_the_contract_hold() {
    for (base, patch, expected) in [
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}, {"name": "w"}]}),
            json!({"volumes": [{"name": "n"}, {"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "n"}, {"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}, {"name": "w"}]}),
        ),
        (
            json!({"tolerations": [{"key": "a"}], "hostNetwork": true}),
            json!({"tolerations": [{"key": "b"}]}),
            json!({"tolerations": [{"key": "b"}], "hostNetwork": true}),
        ),
        (
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "replace", "b": "2"}}),
            json!({"nodeSelector": {"b": "2"}}),
        ),
        (json!({}), json!({"nodeSelector": {"$patch": "replace", "b": "2"}}), json!({})),
        (
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "delete"}}),
            json!({"nodeSelector": {}}),
        ),
        (
            json!({"containers": [{"name": "m", "ports": [{"containerPort": 8000, "protocol": "TCP"}, {"containerPort": 8000, "protocol": "UDP"}]}]}),
            json!({"containers": [{"name": "m", "ports": [{"containerPort": 8000, "protocol": "UDP"}]}]}),
            json!({"containers": [{"name": "m", "ports": [{"containerPort": 8000, "protocol": "UDP"}, {"containerPort": 8000, "protocol": "UDP"}]}]}),
        ),
        (
            json!({"containers": [{"name": "m", "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "a"}]}}]}),
            json!({"containers": [{"name": "m", "resources": {"limits": {"gpu": "2"}, "claims": [{"name": "b"}]}}]}),
            json!({"containers": [{"name": "m", "resources": {"limits": {"cpu": "1", "gpu": "2"}, "claims": [{"name": "b"}]}}]}),
        ),
    ] {
        assert_eq!(merge(base.clone(), patch.clone(), POD).unwrap(), expected, "{base} | {patch}");
    }
}

#[test]
fn directives_delete_replace_retain_and_order() {
    let base = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
    for (patch, expected) in [
        (
            json!({"containers": [{"name": "b", "$patch": "delete"}]}),
            json!({"containers": [{"name": "a", "image": "1"}]}),
        ),
        (
            json!({"containers": [{"$patch": "replace"}, {"name": "only"}]}),
            json!({"containers": [{"name": "only"}]}),
        ),
        (
            json!({"containers": [{"name": "b", "$retainKeys": ["name"]}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}),
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "1"}]}),
        ),
        (json!({"containers": null}), json!({})),
    ] {
        assert_eq!(merge(base.clone(), patch.clone(), POD).unwrap(), expected, "{patch}");
    }
}

#[test]
fn scalars_merge_and_are_deleted_from_their_lists() {
    let base = json!({"finalizers": ["x.y/1", "x.y/2"]});
    let meta = "meta.v1.ObjectMeta";
    let merged = merge(base.clone(), json!({"finalizers": ["x.y/3", "x.y/2"]}), meta).unwrap();
    assert_eq!(merged, json!({"finalizers": ["x.y/3", "x.y/1", "x.y/2"]}));
    let merged = merge(base, json!({"$deleteFromPrimitiveList/finalizers": ["x.y/1"]}), meta).unwrap();
    assert_eq!(merged, json!({"finalizers": ["x.y/2"]}));
}

#[test]
fn errors_have_the_words_of_apimachinery() {
    let error =
        |type_name: &str, base: Value, patch: Value| merge(base, patch, type_name).unwrap_err().to_string();
    assert_eq!(
        error(POD, containers(&["a"]), json!({"containers": [{"image": "x"}]})),
        "map: map[image:x] does not contain declared merge key: name"
    );
    assert_eq!(
        error(
            POD,
            containers(&["only"]),
            json!({"$setElementOrder/containers": [{"name": "zz"}], "containers": [{"name": "only", "image": "o:2"}]})
        ),
        "The order in patch list:\n[map[image:o:2 name:only]]\n doesn't match $setElementOrder list:\n[map[name:zz]]\n"
    );
    assert_eq!(
        error(
            POD,
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "explode", "b": "2"}})
        ),
        "unknown patch type: explode in map: map[$patch:explode b:2]"
    );
    assert_eq!(
        error(
            "serving.v1alpha2.SchedulerConfigSpec",
            json!({"inline": {"a": {"b": 1}}}),
            json!({"inline": {"a": {"c": 2}}})
        ),
        "unable to find api field in struct RawExtension for the json field \"a\""
    );
    assert_eq!(merge(json!({}), json!({}), "no.Type"), Err(Error::UnknownType("no.Type".to_owned())));
}

/// With a search of the list for each element, this takes minutes.
#[test]
fn large_lists_merge() {
    const MANY: usize = 20_000;
    let names = |from: usize| (from..from + MANY).map(|n| format!("e{n}")).collect::<Vec<_>>();
    let env = |names: &[String], value: &str| {
        names.iter().map(|name| json!({"name": name, "value": value})).collect::<Vec<_>>()
    };
    let (old, new) = (names(0), names(MANY / 2));
    let container = |env: Vec<Value>| json!({"containers": [{"name": "c", "env": env}]});
    let (before, after) = (container(env(&old, "v")), container(env(&new, "w")));
    let merged = merge(before, after, POD).unwrap();
    assert_eq!(merged["containers"][0]["env"].as_array().unwrap().len(), MANY + MANY / 2);

    let meta = "meta.v1.ObjectMeta";
    let (before, after) = (json!({"finalizers": old}), json!({"finalizers": new}));
    let merged = merge(before, after, meta).unwrap();
    assert_eq!(merged["finalizers"].as_array().unwrap().len(), MANY + MANY / 2);

    let keep = json!({"nodeSelector": {"$retainKeys": old}});
    let labels: serde_json::Map<_, _> = old.iter().map(|name| (name.clone(), json!("v"))).collect();
    let before = json!({"nodeSelector": labels});
    assert_eq!(merge(before.clone(), keep, POD).unwrap(), before);
}
