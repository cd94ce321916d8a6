//! Pods and templates with one mistake each. A pod that a real server refuses must be refused here, at the same fields.

mod containers;
mod resources;

use serde_json::{Value, json};

use containers::{LIFECYCLE, Mistake, containers, handlers, mounts, probes, variables};

use crate::requests::{Request, Verb};

/// Returns every mistake, in a pod and in the template of a Deployment.
pub(crate) fn requests() -> Vec<Request> {
    let pod = |metadata: &Value, spec: &Value| Request {
        verb: Verb::Post,
        path: "/api/v1/namespaces/diff/pods?dryRun=All".to_owned(),
        body: json!({"metadata": with(metadata, "name", json!("wrong")), "spec": spec}),
    };
    let deployment = |metadata: &Value, spec: &Value| Request {
        verb: Verb::Post,
        path: "/apis/apps/v1/namespaces/diff/deployments?dryRun=All".to_owned(),
        body: json!({"metadata": {"name": "wrong"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": with(metadata, "labels", json!({"a": "b"})), "spec": spec}}}),
    };
    let specs = mistakes().into_iter().map(|spec| (json!({}), spec));
    let annotated =
        annotations().into_iter().map(|annotations| (json!({"annotations": annotations}), base()));
    specs
        .chain(annotated)
        .flat_map(|(metadata, spec)| [pod(&metadata, &spec), deployment(&metadata, &spec)])
        .collect()
}

fn with(object: &Value, key: &str, value: Value) -> Value {
    let mut object = object.clone();
    object[key] = value;
    object
}

fn annotations() -> Vec<Value> {
    let profile = |container: &str, profile: &str| json!({format!("container.apparmor.security.beta.kubernetes.io/{container}"): profile});
    vec![profile("c", "foo"), profile("other", "unconfined"), profile("b", ""), json!({"a b": "c"})]
}

/// A valid spec, which every mistake changes.
fn base() -> Value {
    json!({
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "initContainers": [{"name": "b", "image": "i"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "serviceAccountName": "default",
    })
}

/// Sets a value, and creates the objects above it.
fn put(spec: &mut Value, place: &str, value: Value) {
    let mut at = spec;
    for name in place.split('.') {
        at = match name.parse::<usize>() {
            Ok(index) => {
                let items = at.as_array_mut().unwrap();
                if index == items.len() {
                    items.push(Value::Null);
                }
                &mut items[index]
            }
            Err(_) => &mut at[name],
        };
    }
    *at = value;
}

fn mistakes() -> Vec<Value> {
    let lists = [
        handlers(),
        probes(),
        mounts(),
        volumes(),
        variables(),
        containers(),
        containers::resources(),
        pods(),
        spreading(),
    ];
    let specs = lists.into_iter().flatten().map(|(place, value)| {
        let mut spec = base();
        put(&mut spec, place, value);
        spec
    });
    specs.chain(several()).chain(resources::specs()).collect()
}

/// A volume has one source, which is complete.
fn volumes() -> Vec<Mistake> {
    let sources = [
        json!({"emptyDir": {}, "hostPath": {"path": "/x"}}),
        json!({"configMap": {"name": "m"}, "secret": {"secretName": "s"}}),
        json!({"emptyDir": {"sizeLimit": "-1"}}),
        json!({"emptyDir": {"medium": "Disk"}}),
        json!({"emptyDir": {"medium": "HugePages-3Mi"}}),
        json!({"hostPath": {}}),
        json!({"hostPath": {"path": "/a/../b"}}),
        json!({"hostPath": {"path": "/a", "type": "Folder"}}),
        json!({"secret": {}}),
        json!({"secret": {"secretName": "s", "defaultMode": 1000}}),
        json!({"secret": {"secretName": "s", "items": [{"key": "a", "path": "/a"}]}}),
        json!({"secret": {"secretName": "s", "items": [{"key": "a", "path": "..a"}]}}),
        json!({"configMap": {}}),
        json!({"configMap": {"name": "m", "items": [{"key": "", "path": ""}]}}),
        json!({"configMap": {"name": "m", "items": [{"key": "a", "path": "a", "mode": -1}]}}),
        json!({"persistentVolumeClaim": {}}),
        json!({"nfs": {"server": "", "path": "a"}}),
        json!({"csi": {}}),
        json!({"csi": {"driver": "a_b"}}),
        json!({"csi": {"driver": "a", "nodePublishSecretRef": {}}}),
        json!({"csi": {"driver": "a", "nodePublishSecretRef": {"name": "A_b"}}}),
        json!({"gitRepo": {"repository": ""}}),
        json!({"gitRepo": {"repository": "r", "directory": "/a"}}),
        json!({"gitRepo": {"repository": "r", "directory": "../a"}}),
        json!({"image": {}}),
        json!({"image": {"reference": "r", "pullPolicy": "x"}}),
        json!({"ephemeral": {}}),
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["x"], "resources": {"requests": {"storage": "1"}}}}}}),
        json!({"downwardAPI": {"items": [{"path": ""}]}}),
        json!({"downwardAPI": {"items": [{"path": "/a", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
        json!({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "status.podIP"}}]}}),
        json!({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.host"}}]}}),
        json!({"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}}),
        json!({"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"containerName": "c", "resource": "limits.gpu"}}]}}),
        json!({"downwardAPI": {"defaultMode": 1000, "items": []}}),
        json!({"projected": {"sources": [{"secret": {}}]}}),
        json!({"projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"name": "m"}}]}}),
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}]}}),
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": ""}}]}}),
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "/t"}}]}}),
        json!({"projected": {"sources": [
            {"secret": {"name": "s", "items": [{"key": "a", "path": "a"}]}},
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "a"}]}}]}}),
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"serviceAccountToken": {"path": "t"}}]}}),
        json!({"projected": {"sources": [
            {"secret": {"name": "s", "items": [{"key": "a", "path": "t"}]}}, {"serviceAccountToken": {"path": "t"}}]}}),
        json!({"projected": {"sources": []}}),
        json!({"projected": {}}),
        json!({"projected": {"sources": [
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "t/a"}]}}, {"serviceAccountToken": {"path": "t"}}]}}),
        json!({"projected": {"sources": [{"downwardAPI": {"items": [{"path": "a"}]}}]}}),
        json!({"projected": {"defaultMode": 1000, "sources": []}}),
    ];
    let mut all: Vec<Mistake> = sources
        .into_iter()
        .map(|mut source| {
            source["name"] = json!("v");
            ("volumes.0", source)
        })
        .collect();
    all.push(("volumes.1", json!({"name": "v", "emptyDir": {}})));
    all.push(("volumes.1", json!({"name": "A", "emptyDir": {}})));
    all.push(("volumes.1", json!({"emptyDir": {}})));
    all
}

/// Fields of the pod as a whole.
fn pods() -> Vec<Mistake> {
    let long: Vec<String> = (0..33).map(|number| format!("d{number}.example")).collect();
    vec![
        ("dnsConfig", json!({"nameservers": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]})),
        ("dnsConfig", json!({"nameservers": ["x"]})),
        ("dnsConfig", json!({"searches": ["a b"]})),
        ("dnsConfig", json!({"searches": ["_a.b", ".", "c."]})),
        ("dnsConfig", json!({"searches": long})),
        ("dnsConfig", json!({"options": [{"value": "1"}]})),
        ("dnsPolicy", json!("None")),
        ("dnsPolicy", json!("x")),
        ("restartPolicy", json!("x")),
        ("activeDeadlineSeconds", json!(0)),
        ("activeDeadlineSeconds", json!(-1)),
        ("activeDeadlineSeconds", json!(3_000_000_000_i64)),
        ("terminationGracePeriodSeconds", json!(-1)),
        ("hostname", json!("A_b")),
        ("subdomain", json!("a.b")),
        ("nodeName", json!("A_b")),
        ("priorityClassName", json!("A_b")),
        ("preemptionPolicy", json!("x")),
        ("preemptionPolicy", json!("Never")),
        ("runtimeClassName", json!("A_b")),
        ("nodeSelector", json!({"a b": "c"})),
        ("nodeSelector", json!({"a": "b c"})),
        ("readinessGates", json!([{"conditionType": "a b"}])),
        ("schedulingGates", json!([{"name": "a"}, {"name": "a"}])),
        ("schedulingGates", json!([{"name": "a"}])),
        ("hostAliases", json!([{"ip": "x", "hostnames": ["a_b"]}])),
        (
            "hostAliases",
            json!([{"ip": "1.2.3.4", "hostnames": ["a"]}, {"ip": "1.2.3.4", "hostnames": ["a", "a"]}]),
        ),
        ("imagePullSecrets", json!([{}, {"name": "a"}, {"name": "a"}])),
        (
            "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!([{"topologyKey": "a"}]),
        ),
        (
            "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            json!([{"weight": 1, "podAffinityTerm": {"topologyKey": "a"}}]),
        ),
        (
            "topologySpreadConstraints",
            json!([{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]),
        ),
        (
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/instance-type", "operator": "In", "values": ["a"]}]}]}),
        ),
        (
            "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}]}}]),
        ),
        (
            "topologySpreadConstraints",
            json!([{"maxSkew": 1, "topologyKey": "failure-domain.beta.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]),
        ),
        ("nodeSelector", json!({"beta.kubernetes.io/os": "linux"})),
        ("os", json!({"name": "x"})),
        ("os", json!({})),
        ("hostUsers", json!(false)),
        ("overhead", json!({"cpu": "-1"})),
        ("overhead", json!({"cpu": "1"})),
        ("priority", json!(0)),
        ("priority", json!(100)),
        ("priorityClassName", json!("system-node-critical")),
        ("resources", json!({"limits": {"nvidia.com/gpu": "1"}})),
        ("resources", json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
        ("tolerations", json!([{"operator": "Equal", "value": "x"}])),
        ("tolerations", json!([{"key": "a", "operator": "Exists", "value": "x"}])),
        ("tolerations", json!([{"key": "a", "operator": "x"}])),
        ("tolerations", json!([{"key": "a", "effect": "x"}])),
        ("tolerations", json!([{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}])),
        ("securityContext", json!({"fsGroup": -1})),
        ("securityContext", json!({"fsGroupChangePolicy": "x"})),
        ("securityContext", json!({"supplementalGroups": [-1]})),
        ("securityContext", json!({"supplementalGroupsPolicy": "x"})),
        ("securityContext", json!({"sysctls": [{"name": "a b", "value": "c"}]})),
        (
            "securityContext",
            json!({"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "kernel.shm_rmid_forced", "value": "1"}]}),
        ),
        ("securityContext", json!({"sysctls": [{"name": "", "value": "1"}]})),
        ("securityContext", json!({"seLinuxChangePolicy": "x"})),
        ("securityContext", json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}})),
        ("resourceClaims", json!([{"name": "r"}])),
        (
            "resourceClaims",
            json!([{"name": "r", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]),
        ),
        ("resourceClaims", json!([{"name": "r", "resourceClaimName": "A_b"}])),
        ("resourceClaims", json!([{"name": "A_b", "resourceClaimName": "a"}])),
        (
            "resourceClaims",
            json!([{"name": "r", "resourceClaimName": "a"}, {"name": "r", "resourceClaimName": "b"}]),
        ),
        (
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!({"nodeSelectorTerms": []}),
        ),
        (
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "Gt", "values": ["1", "2"]}]}]}),
        ),
        (
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!({"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "In", "values": ["b"]}]}]}),
        ),
        (
            "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!([{"labelSelector": {"matchLabels": {"a": "b"}}}]),
        ),
        (
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!([{"topologyKey": "a", "matchLabelKeys": ["b"]}]),
        ),
        (
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!([{"topologyKey": "a", "namespaces": ["A_b"], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}}]),
        ),
    ]
}

/// Constraints of spreading.
fn spreading() -> Vec<Mistake> {
    let selector = json!({"matchLabels": {"a": "b"}});
    let constraints = [
        json!({"maxSkew": 0}),
        json!({"maxSkew": -1}),
        json!({"topologyKey": ""}),
        json!({"topologyKey": "a b"}),
        json!({"whenUnsatisfiable": "x"}),
        json!({"whenUnsatisfiable": ""}),
        json!({"minDomains": 0}),
        json!({"minDomains": -1}),
        json!({"minDomains": 1, "whenUnsatisfiable": "ScheduleAnyway"}),
        json!({"minDomains": 0, "whenUnsatisfiable": "ScheduleAnyway"}),
        json!({"nodeAffinityPolicy": "x"}),
        json!({"nodeTaintsPolicy": "x"}),
        json!({"matchLabelKeys": ["c"], "labelSelector": null}),
        json!({"matchLabelKeys": ["c d"]}),
        json!({"matchLabelKeys": ["a"]}),
        json!({"labelSelector": {"matchLabels": {"a": "b c"}}}),
    ];
    let constraint = |change: &Value| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
        constraint.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        constraint
    };
    let twice = json!([constraint(&json!({})), constraint(&json!({"maxSkew": 2}))]);
    let mut all: Vec<Mistake> =
        constraints.iter().map(|change| ("topologySpreadConstraints", json!([constraint(change)]))).collect();
    all.push(("topologySpreadConstraints", twice));
    all
}

/// Mistakes that need two fields.
fn several() -> Vec<Value> {
    let combinations: [&[Mistake]; 12] = [
        &[
            ("hostNetwork", json!(true)),
            ("containers.0.ports", json!([{"containerPort": 80, "hostPort": 81}])),
        ],
        &[("dnsPolicy", json!("None")), ("dnsConfig", json!({"searches": ["a"]}))],
        &[("hostUsers", json!(false)), ("hostNetwork", json!(true))],
        &[("hostUsers", json!(false)), ("hostPID", json!(true)), ("hostIPC", json!(true))],
        &[("hostPID", json!(true)), ("shareProcessNamespace", json!(true))],
        &[("setHostnameAsFQDN", json!(true)), ("hostNetwork", json!(true))],
        &[("os", json!({"name": "windows"})), ("hostNetwork", json!(true))],
        &[("os", json!({"name": "linux"})), (LIFECYCLE, json!({"stopSignal": "TERM"}))],
        &[
            ("terminationGracePeriodSeconds", json!(5)),
            (LIFECYCLE, json!({"preStop": {"sleep": {"seconds": 6}}})),
        ],
        &[
            ("restartPolicy", json!("Never")),
            (
                "containers.0.resizePolicy",
                json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            ),
        ],
        &[
            ("containers.0.securityContext", json!({"privileged": true})),
            (
                "containers.0.volumeMounts.0",
                json!({"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}),
            ),
        ],
        &[(
            "containers",
            json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]},
                {"name": "d", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]),
        )],
    ];
    combinations
        .into_iter()
        .map(|changes| {
            let mut spec = base();
            for (place, value) in changes {
                put(&mut spec, place, value.clone());
            }
            spec
        })
        .collect()
}
