//! Requests that the server once answered differently from kube-apiserver. Each of them tests one rule.

use serde_json::{Value, json};

use crate::requests::{Request, Verb, bases};

const CORE: &str = "/api/v1/namespaces/diff";
const APPS: &str = "/apis/apps/v1/namespaces/diff";

/// The requests, each with the code that the real server answers.
pub(crate) fn requests() -> Vec<(u16, Request)> {
    let mut all = accounts();
    all.extend(bytes());
    all.extend(empty_labels());
    all.extend(finalizers());
    all.extend(claims());
    all.extend(jobs());
    all
}

fn request(code: u16, verb: Verb, path: &str, body: Value) -> (u16, Request) {
    (code, Request { verb, path: format!("{path}?dryRun=All"), body })
}

/// Returns a valid object of the kind that is created at a path.
fn base(path: &str) -> Value {
    bases().into_iter().find(|(known, _)| *known == path).unwrap().1
}

/// Returns a valid object in which one value is replaced.
fn with(path: &str, place: &str, value: Value) -> Value {
    let mut object = base(path);
    *object.pointer_mut(place).unwrap() = value;
    object
}

/// A pod names an existing account, or no account.
fn accounts() -> Vec<(u16, Request)> {
    let path = format!("{CORE}/pods");
    let pod = |name: Value| with(&path, "/spec/serviceAccountName", name);
    [
        (201, json!("default")),
        (201, json!("")),
        (201, json!(null)),
        (201, json!("pulls")),
        (403, json!("none")),
        (403, json!("A_b")),
        (403, json!("x/y")),
        (403, json!("..")),
        (403, json!("/%")),
    ]
    .into_iter()
    .map(|(code, name)| request(code, Verb::Post, &path, pod(name)))
    .collect()
}

/// Bytes may be given as a list of numbers.
fn bytes() -> Vec<(u16, Request)> {
    let path = format!("{CORE}/secrets");
    let secret = |bytes: Value| with(&path, "/data/a", bytes);
    vec![
        request(201, Verb::Post, &path, secret(json!([]))),
        request(201, Verb::Post, &path, secret(json!([1, 255, null]))),
        request(400, Verb::Post, &path, secret(json!([256]))),
        request(400, Verb::Post, &path, secret(json!(["a"]))),
        request(200, Verb::Strategic, &format!("{path}/live"), json!({"data": {"a": []}})),
        request(200, Verb::Merge, &format!("{path}/live"), json!({"data": {"a": []}})),
    ]
}

/// The error for a refused template shows its labels.
fn empty_labels() -> Vec<(u16, Request)> {
    let place = "/spec/template/metadata/labels";
    ["deployments", "replicasets"]
        .into_iter()
        .flat_map(|plural| [json!({}), json!(null)].map(|labels| (format!("{APPS}/{plural}"), labels)))
        .map(|(path, labels)| request(422, Verb::Post, &path, with(&path, place, labels)))
        .collect()
}

/// The server reports every rule that a finalizer breaks. In an update it reports each error once per validation.
fn finalizers() -> Vec<(u16, Request)> {
    let mut all = Vec::new();
    for (path, plural) in [(CORE, "configmaps"), (CORE, "services"), (APPS, "deployments")] {
        let path = format!("{path}/{plural}");
        for name in ["", "a b", "a b/c", "x"] {
            let change = json!({"metadata": {"finalizers": [name]}});
            let mut object = base(&path);
            object["metadata"]["finalizers"] = json!([name]);
            all.push(request(422, Verb::Post, &path, object));
            all.push(request(422, Verb::Merge, &format!("{path}/live"), change));
        }
    }
    all
}

/// The request of a claim cannot shrink, and only a bound claim may change it.
fn claims() -> Vec<(u16, Request)> {
    let path = format!("{CORE}/persistentvolumeclaims/live");
    let change = |code, spec: Value| request(code, Verb::Merge, &path, json!({"spec": spec}));
    vec![
        change(200, json!({"volumeName": "v"})),
        change(200, json!({"storageClassName": "c"})),
        change(422, json!({"resources": {"requests": null}})),
        change(422, json!({"resources": {"requests": {"storage": null}}})),
        change(422, json!({"resources": {"requests": {"storage": "1Mi"}}})),
        change(422, json!({"resources": {"requests": {"storage": "2Gi"}}})),
        change(422, json!({"resources": {"limits": {"storage": "2Gi"}}})),
        change(422, json!({"volumeMode": "Block"})),
        change(422, json!({"accessModes": ["ReadWriteMany"]})),
    ]
}

/// An update validates the spec of a Job twice.
fn jobs() -> Vec<(u16, Request)> {
    let path = "/apis/batch/v1/namespaces/diff/jobs/live";
    vec![
        request(422, Verb::Merge, path, json!({"spec": {"backoffLimit": -1}})),
        request(422, Verb::Merge, path, json!({"spec": {"selector": null}})),
        request(422, Verb::Strategic, path, json!({"spec": null})),
    ]
}
