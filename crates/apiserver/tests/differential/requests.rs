//! Random requests: objects of known kinds with an error in them, patches, selectors, paths and options.

use std::fmt;

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::{api::Api, empty_values};

const NAMESPACE: &str = "/api/v1/namespaces/diff";

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Delete,
    Merge,
    Json,
    Apply,
    Strategic,
}

/// A request for both servers.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {} {}", self.verb, self.path, self.body)
    }
}

// === impl Request ===

impl Request {
    /// Whether the effect of the request is stored and can be read again.
    pub(crate) fn stays(&self) -> bool {
        self.path.contains("/live?") && !self.path.contains("dryRun")
    }
}

/// Creates the objects that the requests use.
pub(crate) fn set_up(api: &Api) {
    api.make_namespace("diff");
    // pods cannot be created without this account
    let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false});
    api.post(&format!("{NAMESPACE}/serviceaccounts"), &account);
    // the image pull secrets of this account apply to its pods
    let account = json!({"metadata": {"name": "pulls"}, "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "s"}]});
    api.post(&format!("{NAMESPACE}/serviceaccounts"), &account);
    let pod = json!({"metadata": {"name": "p", "labels": {"x": "1"}},
        "spec": {"nodeName": "n", "serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]}});
    api.post(&format!("{NAMESPACE}/pods"), &pod).ok();
    empty_values::set_up(api);
}

/// Resets the objects that a request changes.
pub(crate) fn fresh(real: &Api, ours: &Api, request: &Request) {
    let path = format!("{NAMESPACE}/configmaps");
    for api in [real, ours] {
        if request.stays() {
            empty_values::fresh(api);
        }
        if !request.path.starts_with(&path) {
            continue;
        }
        api.delete(&format!("{path}/a"));
        if api.get(&format!("{path}/a")).status == 200 {
            api.merge(&format!("{path}/a"), &json!({"metadata": {"finalizers": null}}));
        }
        let map = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v", "l": "w"}});
        api.post(&path, &map);
    }
}

/// Returns a random request.
pub(crate) fn any(random: &mut StdRng) -> Request {
    match random.random_range(0..14) {
        0..5 => object(random),
        5 => json_patch(random),
        6 => merge_patch(random),
        7 | 8 => list(random),
        10.. => empty_values::request(random),
        _ => path(random),
    }
}

/// Returns objects that both servers accept, with the paths where they are created.
pub(crate) fn bases() -> Vec<(&'static str, Value)> {
    let pod = json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "name": "http"}],
        "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}, "command": ["x"],
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5}}],
        "tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"a": "b"}, "restartPolicy": "Always", "serviceAccountName": "default"});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod});
    let workload = json!({"metadata": {"name": "w", "labels": {"l": "m"}, "annotations": {"n": "o"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let mut set = workload.clone();
    set["spec"]["serviceName"] = json!("s");
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    let mut each = workload.clone();
    each["spec"].as_object_mut().unwrap().remove("replicas");
    each["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    vec![
        (
            "/api/v1/namespaces/diff/configmaps",
            json!({"metadata": {"name": "c", "labels": {"a": "b"},
            "annotations": {"a": "b"}, "finalizers": ["a/b"]}, "data": {"k": "v"}, "immutable": false}),
        ),
        (
            "/api/v1/namespaces/diff/secrets",
            json!({"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "type": "Opaque"}),
        ),
        ("/api/v1/namespaces/diff/pods", json!({"metadata": {"name": "q"}, "spec": pod})),
        (
            "/api/v1/namespaces/diff/services",
            json!({"metadata": {"name": "s"}, "spec": {"type": "ClusterIP",
            "selector": {"a": "b"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}),
        ),
        ("/apis/apps/v1/namespaces/diff/deployments", workload.clone()),
        ("/apis/apps/v1/namespaces/diff/replicasets", workload.clone()),
        ("/apis/apps/v1/namespaces/diff/statefulsets", set),
        ("/apis/apps/v1/namespaces/diff/daemonsets", each),
        (
            "/apis/batch/v1/namespaces/diff/cronjobs",
            json!({"metadata": {"name": "k"}, "spec": {"schedule": "*/5 * * * *", "concurrencyPolicy": "Forbid", "suspend": false,
            "startingDeadlineSeconds": 5, "successfulJobsHistoryLimit": 1, "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/diff/networkpolicies",
            json!({"metadata": {"name": "n"}, "spec": {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, {"podSelector": {"matchLabels": {"a": "b"}}}],
            "ports": [{"port": 80, "endPort": 90, "protocol": "TCP"}]}]}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/diff/rolebindings",
            json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "diff"}, {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]}),
        ),
        (
            "/api/v1/namespaces/diff/serviceaccounts",
            json!({"metadata": {"name": "a"}, "automountServiceAccountToken": false, "secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}]}),
        ),
        (
            "/apis/batch/v1/namespaces/diff/jobs",
            json!({"metadata": {"name": "j"}, "spec": {"parallelism": 1,
            "backoffLimit": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/diff/endpointslices",
            json!({"metadata": {"name": "e"}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}], "ports": [{"name": "a", "port": 80}]}),
        ),
        (
            "/apis/autoscaling/v2/namespaces/diff/horizontalpodautoscalers",
            json!({"metadata": {"name": "h"}, "spec": {
            "minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}),
        ),
        (
            "/apis/policy/v1/namespaces/diff/poddisruptionbudgets",
            json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/diff/ingresses",
            json!({"metadata": {"name": "i"}, "spec": {"rules": [{
            "host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/diff/leases",
            json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 5}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/diff/roles",
            json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        (
            "/api/v1/namespaces/diff/persistentvolumeclaims",
            json!({"metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
    ]
}

/// Returns a value of the same type, which is probably invalid in its place; sometimes a value of another type.
fn other(value: &Value, random: &mut StdRng) -> Value {
    let texts = ["", "x", "A_b", "a b", "a.b", "x/y", "1Gi", "50%", "10.0.0.1", "TCP", "None"];
    let wild = [json!(null), json!(true), json!(1.5), json!([]), json!({}), json!("x"), json!(-1)];
    if random.random_range(0..8) == 0 {
        return wild.choose(random).unwrap().clone();
    }
    match value {
        Value::String(_) => json!(texts.choose(random).unwrap()),
        Value::Number(_) => json!([-1, 0, 1, 5, 80, 70_000, 3_000_000_000_i64].choose(random).unwrap()),
        Value::Bool(truth) => json!(!truth),
        Value::Array(items) => match random.random_range(0..3) {
            0 => json!([]),
            1 => json!(null),
            _ => Value::from([items.as_slice(), items.as_slice()].concat()),
        },
        Value::Object(_) => json!({}),
        Value::Null => json!("x"),
    }
}

/// Collects pointers to all values of an object, except for the name and for the metadata as a whole.
pub(crate) fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.replace('/', "~1"), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (name, child) in children {
        let path = format!("{at}/{name}");
        places(child, &path, found);
        if path != "/metadata" {
            found.push(path);
        }
    }
}

fn object(random: &mut StdRng) -> Request {
    let (path, mut body) = bases().choose(random).unwrap().clone();
    let mut found = Vec::new();
    places(&body, "", &mut found);
    let place = found.choose(random).unwrap();
    let (parent, name) = place.rsplit_once('/').unwrap();
    if random.random_range(0..4) == 0
        && let Some(Value::Object(parent)) = body.pointer_mut(parent)
    {
        parent.remove(&name.replace("~1", "/"));
    } else if let Some(value) = body.pointer_mut(place) {
        *value = other(value, random);
    }
    let validation = ["", "&fieldValidation=Strict", "&fieldValidation=Ignore"].choose(random).unwrap();
    Request { verb: Verb::Post, path: format!("{path}?dryRun=All{validation}"), body }
}

const POINTERS: [&str; 14] = [
    "/data/k",
    "/data/none",
    "/data",
    "/metadata/labels",
    "/metadata/labels/x",
    "/metadata/annotations",
    "/metadata/finalizers",
    "/metadata/finalizers/0",
    "/metadata/finalizers/-",
    "/metadata/finalizers/-1",
    "/none/none",
    "data/k",
    "",
    "/immutable",
];

fn json_patch(random: &mut StdRng) -> Request {
    let values = [json!("x"), json!({"a": "b"}), json!(["a/b"]), json!(true), json!(5)];
    let operations = random.random_range(1..4);
    let body = (0..operations)
        .map(|_| {
            let op =
                *["add", "replace", "remove", "copy", "move", "test", "nonsense"].choose(random).unwrap();
            let mut operation = json!({"op": op, "path": POINTERS.choose(random).unwrap()});
            if matches!(op, "copy" | "move") {
                operation["from"] = json!(POINTERS.choose(random).unwrap());
            } else if op != "test" || random.random_range(0..8) > 0 {
                // kube-apiserver panics on a `test` without a value
                operation["value"] = values.choose(random).unwrap().clone();
            } else {
                operation["value"] = json!("v");
            }
            operation
        })
        .collect();
    Request { verb: Verb::Json, path: format!("{NAMESPACE}/configmaps/a?dryRun=All"), body }
}

fn merge_patch(random: &mut StdRng) -> Request {
    let changes = [
        json!({"data": {"k": null, "n": "x"}}),
        json!({"data": null}),
        json!({"data": {"a b": "x"}}),
        json!({"binaryData": {"k": "eA=="}}),
        json!({"metadata": {"labels": {"a b": "x"}}}),
        json!({"metadata": {"labels": {"a": null, "x": null}}}),
        json!({"metadata": {"finalizers": ["x"]}}),
        json!({"metadata": {"finalizers": ["x/y"]}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a"}]}}),
        json!({"metadata": {"generateName": "g-"}}),
        json!({"metadata": {"name": "other"}}),
        json!({"metadata": {"namespace": "other"}}),
        json!({"metadata": {"uid": "1"}}),
        json!({"metadata": {"resourceVersion": "1"}}),
        json!({"metadata": {"deletionGracePeriodSeconds": 5}}),
        json!({"immutable": true}),
        json!({"kind": "Secret"}),
        json!({"apiVersion": "v2"}),
        json!({"unknown": {"a": 1}}),
        json!([]),
    ];
    let apply = random.random_range(0..3) == 0;
    let options =
        ["", "&fieldValidation=Strict", "&force=true", "&fieldManager=m", "&fieldManager=%01", "&dryRun=x"];
    let path = format!("{NAMESPACE}/configmaps/a?dryRun=All{}", options.choose(random).unwrap());
    let mut body = changes.choose(random).unwrap().clone();
    if apply && let Some(object) = body.as_object_mut() {
        object.entry("apiVersion").or_insert(json!("v1"));
        object.entry("kind").or_insert(json!("ConfigMap"));
    }
    Request { verb: if apply { Verb::Apply } else { Verb::Merge }, path, body }
}

fn list(random: &mut StdRng) -> Request {
    let labels = [
        "x", "1", "=", "==", "!=", "!", ",", "in", "notin", "(", ")", "%3E", "a/b", " ", "A_b", "-", "%C3%A9",
    ];
    let fields = [
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "status.phase",
        "=",
        "==",
        "!=",
        "a",
        "p",
        ",",
        "%5C",
        "nope",
    ];
    let options = [
        "limit=1",
        "limit=x",
        "limit=-1",
        "continue=x",
        "resourceVersion=0",
        "resourceVersion=x",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=x",
        "timeoutSeconds=x",
        "timeout=x",
        "timeout=5s",
        "sendInitialEvents=true",
        "pretty=x",
        "unknown=1",
    ];
    let text = |words: &[&str], random: &mut StdRng| -> String {
        (0..random.random_range(1..6)).map(|_| *words.choose(random).unwrap()).collect()
    };
    let mut query: Vec<String> = Vec::new();
    match random.random_range(0..3) {
        0 => query.push(format!("labelSelector={}", text(&labels, random))),
        1 => query.push(format!("fieldSelector={}", text(&fields, random))),
        _ => query.push((*options.choose(random).unwrap()).to_owned()),
    }
    if random.random_range(0..3) == 0 {
        query.push((*options.choose(random).unwrap()).to_owned());
    }
    let kind = ["configmaps", "pods"].choose(random).unwrap();
    let verb = if random.random_range(0..4) == 0 { Verb::Delete } else { Verb::Get };
    if verb == Verb::Delete {
        query.push("dryRun=All".to_owned());
    }
    Request { verb, path: format!("{NAMESPACE}/{kind}?{}", query.join("&")), body: json!({}) }
}

fn path(random: &mut StdRng) -> Request {
    let starts = ["/api/v1", "/api/v2", "/apis/apps/v1", "/apis/apps/v9", "/apis/nope/v1", "/apis/batch/v1"];
    let middles = ["", "/namespaces/diff", "/namespaces/none", "/watch/namespaces/diff"];
    let ends = [
        "/configmaps",
        "/configmaps/a",
        "/configmaps/none",
        "/configmaps/a/status",
        "/configmaps/a/nope",
        "/pods/p",
        "/pods/p/status",
        "/pods/p/nope",
        "/deployments",
        "/deployments/none",
        "/deployments/none/scale",
        "/jobs/none/status",
        "/nope",
        "/nope/x",
        "/namespaces/diff/status",
        "/configmaps/%2e%2e",
        "/configmaps/a%2Fb",
    ];
    let verb = *[Verb::Get, Verb::Post, Verb::Put, Verb::Merge].choose(random).unwrap();
    let path =
        [starts.choose(random).unwrap(), middles.choose(random).unwrap(), ends.choose(random).unwrap()];
    let path = format!("{}{}{}?dryRun=All&timeoutSeconds=1", path[0], path[1], path[2]);
    Request { verb, path, body: json!({}) }
}
