//! Requests that the server once answered differently from kube-apiserver. Each of them tests one rule. They are one
//! table, and so one file.

use serde_json::{Value, json};

use crate::{
    empty_values::CUSTOM,
    requests::{Request, Verb, bases},
};

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
    all.extend(names());
    all.extend(other_names());
    all.extend(halves());
    all.extend(ports());
    all.extend(conversions());
    all.extend(selectors());
    all.extend(pages());
    all.extend(devices());
    all.extend(workloads());
    all.extend(bindings());
    all.extend(schedules());
    all.extend(addresses());
    all.extend(policies());
    all.extend(events());
    all.extend(updates());
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

/// A server looks at cluster IPs before it allocates one, and at the rest of a Service after that.
fn addresses() -> Vec<(u16, Request)> {
    let path = format!("{CORE}/services");
    let wrong = [
        json!({"clusterIP": "x", "ports": [{"port": 0}]}),
        json!({"clusterIPs": ["10.96.0.77"]}),
        json!({"clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.78"]}),
        json!({"clusterIP": "None", "clusterIPs": ["None", "10.96.0.78"]}),
        json!({"clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77", "10.96.0.78"]}),
        json!({"clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77", "fd00::1", "x"]}),
        json!({"ipFamilies": ["IPv4", "IPv4"]}),
        json!({"ipFamilyPolicy": "x"}),
        json!({"type": "ExternalName", "externalName": "a", "clusterIP": "10.96.0.77"}),
        json!({"type": "ExternalName", "externalName": "a", "ipFamilies": ["IPv4"]}),
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
        json!({"type": "x", "ports": [{"port": 0}]}),
    ];
    let requests = wrong.into_iter().map(|change| {
        let mut spec = json!({"ports": [{"port": 80}]});
        spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let body = json!({"metadata": {"name": "wrong"}, "spec": spec});
        // A dry run allocates no port.
        (422, Request { verb: Verb::Post, path: path.clone(), body })
    });
    let spec = json!({"type": "ExternalName", "externalName": "a", "internalTrafficPolicy": "Cluster"});
    let external = json!({"metadata": {"name": "external"}, "spec": spec});
    requests.chain([request(201, Verb::Post, &path, external)]).collect()
}

/// Labels of namespaces name the policy of Pod Security. There is one default PriorityClass.
fn policies() -> Vec<(u16, Request)> {
    let label = |code, key: &str, value: &str| {
        let labels = json!({format!("pod-security.kubernetes.io/{key}"): value});
        request(
            code,
            Verb::Post,
            "/api/v1/namespaces",
            json!({"metadata": {"name": "policy", "labels": labels}}),
        )
    };
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |code, name: &str, value: i64| {
        let body = json!({"metadata": {"name": name}, "value": value, "globalDefault": true});
        (code, Request { verb: Verb::Post, path: classes.to_owned(), body })
    };
    vec![
        label(201, "enforce", "baseline"),
        label(201, "warn-version", "latest"),
        label(422, "enforce", "restrictd"),
        label(422, "audit", ""),
        label(422, "warn-version", "1.34"),
        label(422, "enforce-version", "v1.01"),
        class(201, "first", 0),
        class(403, "second", 1),
    ]
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
        request(422, Verb::Merge, path, json!({"spec": {"template": null}})),
        request(
            422,
            Verb::Merge,
            path,
            json!({"spec": {"template": {"metadata": {"labels": {"job-name": "x"}}}}}),
        ),
    ]
}

/// The name of a Job becomes a label of its pods. A name with dots is not a valid host name.
fn names() -> Vec<(u16, Request)> {
    let jobs = "/apis/batch/v1/namespaces/diff/jobs";
    let mut all = Vec::new();
    for (code, name) in [(422, "x/y"), (422, "A b"), (201, "a.b"), (201, "a")] {
        let mut job = with(jobs, "/metadata/name", json!(name));
        all.push(request(code, Verb::Post, jobs, job.clone()));
        job["spec"]["template"]["metadata"] = json!({"labels": {"l": "m"}});
        all.push(request(code, Verb::Post, jobs, job.clone()));
        job["metadata"]["labels"] = json!({"n": "o"});
        all.push(request(code, Verb::Post, jobs, job));
    }
    let mut nameless = base(jobs);
    nameless["metadata"] = json!({});
    all.push(request(422, Verb::Post, jobs, nameless));
    let long = "a".repeat(64);
    for plural in ["deployments", "replicasets"] {
        let path = format!("{APPS}/{plural}");
        all.extend(
            ["a.b", &long]
                .map(|name| request(201, Verb::Post, &path, with(&path, "/metadata/name", json!(name)))),
        );
        all.push(request(
            422,
            Verb::Post,
            &path,
            with(&path, "/spec/template/metadata/labels/a", json!("x/y")),
        ));
    }
    let path = format!("{CORE}/pods");
    all.push(request(201, Verb::Post, &path, with(&path, "/metadata/name", json!("a.b"))));
    let cron = json!({"metadata": {"name": "a.b"}, "spec": {"schedule": "* * * * *",
        "jobTemplate": {"spec": base(jobs)["spec"].clone()}}});
    all.push(request(201, Verb::Post, "/apis/batch/v1/namespaces/diff/cronjobs", cron));
    all
}

/// Names that are too long, and those with rules of their own: search domains, hosts of an Ingress, names in a definition.
fn other_names() -> Vec<(u16, Request)> {
    let mut all = Vec::new();
    let long = format!("{}.b", "a".repeat(252));
    let pods = format!("{CORE}/pods");
    for domain in ["a_", "__a", "_a._b", &long] {
        let mut pod = base(&pods);
        pod["spec"]["dnsConfig"] = json!({"searches": [domain]});
        let code = if domain == "_a._b" { 201 } else { 422 };
        all.push(request(code, Verb::Post, &pods, pod));
    }
    let mut labelled = base(&pods);
    labelled["metadata"]["labels"] = json!({format!("{long}/x"): "y"});
    all.push(request(422, Verb::Post, &pods, labelled));
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/diff/ingresses";
    for host in ["*.*.a".to_owned(), format!("*.{long}")] {
        let spec = json!({"rules": [{"host": host}], "defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}});
        all.push(request(422, Verb::Post, ingresses, json!({"metadata": {"name": "i"}, "spec": spec})));
    }
    let plural = "-".repeat(64);
    all.push(request(
        422,
        Verb::Post,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json!({"metadata": {"name": format!("{plural}.c.d")}, "spec": {
            "group": "c.d", "scope": "Namespaced", "names": {"plural": plural, "kind": "E"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
    ));
    all
}

/// The size of storage must be a whole number of bytes.
fn halves() -> Vec<(u16, Request)> {
    let path = format!("{CORE}/persistentvolumeclaims");
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1500m"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    vec![
        request(201, Verb::Post, &path, with(&path, "/spec/resources/requests/storage", json!(1.5))),
        request(201, Verb::Post, &path, with(&path, "/spec/resources/requests/storage", json!("1.5Gi"))),
        request(201, Verb::Post, "/api/v1/persistentvolumes", volume),
    ]
}

/// A named port must have a valid name.
fn ports() -> Vec<(u16, Request)> {
    let path = format!("{APPS}/replicasets");
    let place = "/spec/template/spec/containers/0/livenessProbe/httpGet/port";
    ["", "1", "a--b", "-a", "A", "0123456789012345"]
        .into_iter()
        .map(|port| request(422, Verb::Post, &path, with(&path, place, json!(port))))
        .collect()
}

/// A value that does not fit the type of its field is refused by the Go type on apply and patch, not by the schema.
fn conversions() -> Vec<(u16, Request)> {
    let mut all = Vec::new();
    let apply = |code: u16, path: &str, api_version: &str, kind: &str, spec: Value| {
        let body =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "live"}, "spec": spec});
        let path = format!("{path}/live?dryRun=All&fieldManager=m&force=true");
        (code, Request { verb: Verb::Apply, path, body })
    };
    let services = format!("{CORE}/services");
    let budgets = "/apis/policy/v1/namespaces/diff/poddisruptionbudgets";
    let claims = format!("{CORE}/persistentvolumeclaims");
    for value in [json!([]), json!({}), json!({"a": [1]}), json!(true), json!(1.5), json!(3_000_000_000_i64)]
    {
        let ports = json!({"ports": [{"port": 80, "targetPort": value}]});
        all.push(apply(500, &services, "v1", "Service", ports.clone()));
        all.push(apply(500, budgets, "policy/v1", "PodDisruptionBudget", json!({"minAvailable": value})));
        all.push(request(
            422,
            Verb::Strategic,
            &format!("{budgets}/live"),
            json!({"spec": {"minAvailable": value}}),
        ));
    }
    for value in [json!(null), json!(""), json!("x"), json!("1.2.3"), json!(true)] {
        let spec = json!({"resources": {"requests": {"storage": value}}});
        let code = if value.is_null() { 422 } else { 500 };
        all.push(apply(code, &claims, "v1", "PersistentVolumeClaim", spec.clone()));
        all.push(request(422, Verb::Strategic, &format!("{claims}/live"), json!({"spec": spec})));
    }
    for field in ["kind", "apiVersion", "metadata"] {
        let spec = json!({"resource": {field: null}});
        let code = if field == "metadata" { 200 } else { 422 };
        all.push(apply(code, CUSTOM, "diff.example/v1", "Empty", spec.clone()));
        all.push(request(code, Verb::Merge, &format!("{CUSTOM}/live"), json!({"spec": spec})));
    }
    all.extend([json!({}), json!({"matchLabels": {}}), json!({"matchLabels": {"c": "d"}})].map(|selector| {
        let body = json!({"spec": {"selector": selector}});
        request(200, Verb::Strategic, &format!("{budgets}/live"), body)
    }));
    all
}

/// The error lists all problems of a requirement.
fn selectors() -> Vec<(u16, Request)> {
    ["a%3E-", "a%3Eb", "a%3C", "a+in+(-,b,-c)", "a=-"]
        .into_iter()
        .map(|text| {
            let code = 400;
            let path = format!("{CORE}/configmaps?labelSelector={text}");
            (code, Request { verb: Verb::Get, path, body: json!({}) })
        })
        .collect()
}

/// For version 0 there is no pagination. A continue token is checked before the version.
fn pages() -> Vec<(u16, Request)> {
    [
        (200, "limit=1&resourceVersion=0"),
        (400, "continue=x&resourceVersion=x"),
        (400, "continue=x&resourceVersion=0"),
        (400, "continue=x"),
    ]
    .into_iter()
    .map(|(code, query)| {
        (code, Request { verb: Verb::Get, path: format!("{CORE}/pods?{query}"), body: json!({}) })
    })
    .collect()
}

/// The CEL expressions of device selectors are compiled.
fn devices() -> Vec<(u16, Request)> {
    const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
    const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/diff/resourceclaims";
    const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/diff/resourceclaimtemplates";
    let mut all = Vec::new();
    let long = format!("device.driver == \"{}\"", "x".repeat(10 * 1024));
    let expressions = [
        (201, "device.driver == \"gpu.example.com\""),
        (201, "true"),
        (201, "device.attributes[\"gpu.example.com\"].model == \"h100\""),
        (201, "device.attributes[\"gpu.example.com\"].index > 3"),
        (201, "device.capacity[\"gpu.example.com\"].memory.compareTo(quantity(\"40Gi\")) >= 0"),
        (201, "device.capacity[\"gpu.example.com\"].memory.isGreaterThan(quantity(\"40Gi\"))"),
        (201, "device.attributes[\"gpu.example.com\"].flag"),
        (
            201,
            "\"gpu.example.com\" in device.attributes && device.attributes[\"gpu.example.com\"].version.isGreaterThan(semver(\"1.0.0\"))",
        ),
        (201, "device.attributes.exists(d, d == \"x\")"),
        (201, "has(device.attributes)"),
        (201, "cel.bind(a, device.attributes[\"x.y\"], a.model == \"m\" || a.model.startsWith(\"n\"))"),
        (201, "device.attributes[\"x.y\"].?model.orValue(\"m\") == \"m\""),
        (422, ""),
        (422, "device.driver =="),
        (422, "device.nope == 1"),
        (422, "device.driver"),
        (422, "device.attributes"),
        (422, "device"),
        (422, "1"),
        (422, "\"x\""),
        (422, "size(device.attributes)"),
        (422, "[true]"),
        (422, "{\"a\": true}"),
        (422, "devices.driver == \"x\""),
        (422, "self.driver == \"x\""),
        (422, "device.driver == \"x\" && nope"),
        (422, "null"),
        (422, "1.5 + 2.5"),
        (422, "Device{}"),
        (422, &long),
    ];
    for (code, expression) in expressions {
        let selectors = json!([{"cel": {"expression": expression}}]);
        let class = json!({"metadata": {"name": "d"}, "spec": {"selectors": selectors}});
        all.push(request(code, Verb::Post, CLASSES, class));
    }
    for selectors in
        [json!([{"cel": {"expression": "device.nope"}}, {"cel": {"expression": "1"}}]), json!([{}])]
    {
        let exactly = json!({"name": "r", "exactly": {"deviceClassName": "c", "selectors": selectors}});
        let either = json!({"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "c", "selectors": selectors}]});
        let spec = json!({"devices": {"requests": [exactly, either]}});
        let claim = json!({"metadata": {"name": "d"}, "spec": spec});
        all.push(request(422, Verb::Post, CLAIMS, claim));
        let template = json!({"metadata": {"name": "d"}, "spec": {"spec": spec}});
        all.push(request(422, Verb::Post, TEMPLATES, template));
        let class = json!({"metadata": {"name": "d"}, "spec": {"selectors": selectors}});
        all.push(request(422, Verb::Post, CLASSES, class));
    }
    all
}

/// Sets of pods: their claims are looked at, empty words are defaults, and a DaemonSet counts its templates.
fn workloads() -> Vec<(u16, Request)> {
    let sets = format!("{APPS}/statefulsets");
    let each = format!("{APPS}/daemonsets");
    let mut all = Vec::new();
    let mut set = |code, place: &str, value: Value| {
        all.push(request(code, Verb::Post, &sets, with(&sets, place, value)));
    };
    set(422, "/spec/volumeClaimTemplates/0", json!({}));
    set(422, "/spec/volumeClaimTemplates/0/spec/accessModes", json!([]));
    set(422, "/spec/volumeClaimTemplates/0/spec/accessModes", json!(["x"]));
    set(422, "/spec/volumeClaimTemplates/0/spec/resources", json!({"requests": {"storage": "-1"}}));
    set(201, "/spec/serviceName", json!(null));
    set(422, "/spec/serviceName", json!("x/y"));
    set(422, "/spec/serviceName", json!("a.b"));
    set(400, "/spec/podManagementPolicy", json!(true));
    set(201, "/spec/podManagementPolicy", json!(""));
    for (code, rolling) in [
        (422, json!({"maxUnavailable": ""})),
        (422, json!({"maxUnavailable": 0})),
        (422, json!({"maxUnavailable": 1, "maxSurge": 1})),
        (422, json!({"maxUnavailable": "101%"})),
        (422, json!({"maxUnavailable": -1, "maxSurge": "x"})),
        (201, json!({"maxUnavailable": 0, "maxSurge": "10%"})),
    ] {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        all.push(request(code, Verb::Post, &each, with(&each, "/spec/updateStrategy", strategy)));
    }
    for strategy in [json!({"type": ""}), json!({})] {
        all.push(request(201, Verb::Post, &each, with(&each, "/spec/updateStrategy", strategy.clone())));
        let mut object = base(&sets);
        object["spec"]["updateStrategy"] = strategy;
        object["spec"]["persistentVolumeClaimRetentionPolicy"] =
            json!({"whenDeleted": "", "whenScaled": "Delete"});
        all.push(request(201, Verb::Post, &sets, object));
    }
    for (field, value) in [
        ("updateStrategy", json!({"type": true})),
        ("persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": true})),
        ("persistentVolumeClaimRetentionPolicy", json!({"whenScaled": true})),
    ] {
        let mut object = base(&sets);
        object["spec"][field] = value;
        all.push(request(400, Verb::Post, &sets, object));
    }
    let live = format!("{each}/live");
    let template = json!({"spec": {"template": {"spec": {"tolerations": null}}}});
    all.push(request(200, Verb::Merge, &live, template));
    let count = json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "7"}}});
    all.push(request(200, Verb::Merge, &live, count));
    all.push(request(200, Verb::Merge, &live, json!({"metadata": {"annotations": null}})));
    all
}

/// Bindings, policies and accounts: updates look twice, and what is empty is not written.
fn bindings() -> Vec<(u16, Request)> {
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/diff/rolebindings";
    let policies = "/apis/networking.k8s.io/v1/namespaces/diff/networkpolicies";
    let accounts = format!("{CORE}/serviceaccounts");
    let change = |code, path: &str, body: Value| request(code, Verb::Merge, &format!("{path}/live"), body);
    let ingress = |rule: Value| json!({"spec": {"ingress": [rule]}});
    vec![
        change(422, bindings, json!({"subjects": [{"kind": "User", "name": ""}]})),
        change(422, bindings, json!({"roleRef": {"name": ""}})),
        change(200, bindings, json!({"subjects": []})),
        change(
            200,
            bindings,
            json!({"subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": ""}]}),
        ),
        change(422, policies, ingress(json!({"from": [{"ipBlock": {}}]}))),
        change(200, policies, ingress(json!({"from": [], "ports": []}))),
        change(200, policies, ingress(json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": []}}]}))),
        change(200, policies, json!({"spec": {"ingress": [], "egress": []}})),
        change(422, policies, ingress(json!({"ports": [{"endPort": 90}]}))),
        change(422, policies, ingress(json!({"ports": [{"endPort": 90, "port": "a"}]}))),
        change(422, "/apis/batch/v1/namespaces/diff/cronjobs", json!({"spec": {"timeZone": ""}})),
        change(422, "/apis/batch/v1/namespaces/diff/cronjobs", json!({"spec": {"timeZone": "x"}})),
        change(200, "/apis/batch/v1/namespaces/diff/cronjobs", json!({"spec": {"concurrencyPolicy": ""}})),
        change(422, &format!("{APPS}/statefulsets"), json!({"spec": {"volumeClaimTemplates": [null]}})),
        change(422, &format!("{APPS}/daemonsets"), json!({"spec": {"updateStrategy": {"type": "x"}}})),
        change(200, &accounts, json!({"secrets": [{"name": ""}], "imagePullSecrets": [{"name": ""}]})),
    ]
}

/// Schedules of CronJobs have the syntax of the parser that kube-apiserver uses.
fn schedules() -> Vec<(u16, Request)> {
    let path = "/apis/batch/v1/namespaces/diff/cronjobs";
    [
        (201, "@daily"),
        (201, "@every 1h30m"),
        (201, "0 0 1-31/2 JAN-dec ?"),
        (201, "5/10 * * * *"),
        (201, "1,,2 * * * *"),
        (422, "@often"),
        (422, "@every x"),
        (422, "60 * * * *"),
        (422, "* 24 * * *"),
        (422, "* * 0 * *"),
        (422, "* * * 13 *"),
        (422, "* * * * 7"),
        (422, "*/0 * * * *"),
        (422, "5-1 * * * *"),
        (422, "1-2-3 * * * *"),
        (422, "*/1/2 * * * *"),
        (422, "a * * * *"),
        (422, "-1 * * * *"),
        (422, "* * * * * *"),
        (422, "TZ=UTC * * * * *"),
        (422, "CRON_TZ=Nowhere/X * * * * *"),
    ]
    .into_iter()
    .map(|(code, schedule)| request(code, Verb::Post, path, with(path, "/spec/schedule", json!(schedule))))
    .collect()
}

/// Events of `events.k8s.io` have short texts, and the name of a controller.
fn events() -> Vec<(u16, Request)> {
    let event = |code: u16, key: &str, value: String| {
        let mut event = json!({
            "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal",
            "reportingController": "example.org/controller", "reportingInstance": "i", "action": "a", "reason": "r",
            "regarding": {"kind": "Pod", "namespace": "diff", "name": "p"},
        });
        event[key] = value.into();
        request(code, Verb::Post, "/apis/events.k8s.io/v1/namespaces/diff/events", event)
    };
    let long = |limit: usize| "x".repeat(limit + 1);
    vec![
        event(201, "note", "n".to_owned()),
        event(422, "note", long(1024)),
        event(422, "reason", long(128)),
        event(422, "action", long(128)),
        event(422, "reportingInstance", long(128)),
        event(422, "reportingController", "A b".to_owned()),
        event(422, "reportingController", String::new()),
    ]
}

/// An update without a change of the template warns of nothing. A status has labels, and a scale may be for another object.
fn updates() -> Vec<(u16, Request)> {
    let sets = format!("{APPS}/statefulsets");
    let send = |code: u16, verb: Verb, path: String, body: Value| (code, Request { verb, path, body });
    let env = json!([{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]);
    let set = json!({"metadata": {"name": "updated"}, "spec": {
        "serviceName": "s", "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}}});
    let labels = |value: &str| json!({"metadata": {"labels": {"k": value}}});
    vec![
        send(201, Verb::Post, sets.clone(), set),
        send(200, Verb::Merge, format!("{sets}/updated"), labels("v")),
        send(200, Verb::Merge, format!("{sets}/updated/status"), labels("w")),
        send(409, Verb::Merge, format!("{sets}/updated/scale"), json!({"metadata": {"uid": "x"}})),
        send(200, Verb::Delete, format!("{sets}/updated"), Value::Null),
    ]
}
