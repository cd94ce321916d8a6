//! Mistakes in containers.

use serde_json::{Value, json};

pub(super) type Mistake = (&'static str, Value);

pub(super) const LIFECYCLE: &str = "containers.0.lifecycle";

/// Hooks and probes have exactly one handler, which is complete.
pub(super) fn handlers() -> Vec<Mistake> {
    let exec = json!({"command": ["true"]});
    let get = json!({"port": 80});
    let sleep = json!({"seconds": 1});
    let of_hooks = [
        json!({}),
        json!({"exec": exec, "httpGet": get}),
        json!({"exec": exec, "sleep": sleep}),
        json!({"httpGet": get, "tcpSocket": {"port": 80}, "sleep": sleep}),
        json!({"exec": {}}),
        json!({"exec": {"command": []}}),
        json!({"httpGet": {}}),
        json!({"httpGet": {"port": 0}}),
        json!({"httpGet": {"port": "A_b"}}),
        json!({"httpGet": {"port": 80, "scheme": "ftp"}}),
        json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": "c"}]}}),
        json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "", "value": "c"}]}}),
        json!({"tcpSocket": {"port": 70_000}}),
        json!({"sleep": {"seconds": -1}}),
        json!({"sleep": {"seconds": 31}}),
        json!({"sleep": {"seconds": 0}}),
    ];
    let of_probes = [
        json!({}),
        json!({"periodSeconds": 1}),
        json!({"exec": exec, "httpGet": get}),
        json!({"tcpSocket": {"port": 80}, "grpc": {"port": 80}}),
        json!({"exec": {}}),
        json!({"httpGet": {"port": "--"}}),
        json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "a:b", "value": "c"}]}}),
        json!({"grpc": {"port": 0}}),
        json!({"grpc": {"port": 70_000}}),
        json!({"tcpSocket": {}}),
    ];
    let hooks = of_hooks.into_iter().flat_map(|handler| {
        [(LIFECYCLE, json!({"preStop": handler})), (LIFECYCLE, json!({"postStart": handler}))]
    });
    let probes = of_probes.into_iter().flat_map(|handler| {
        ["containers.0.livenessProbe", "containers.0.readinessProbe", "containers.0.startupProbe"]
            .map(|place| (place, handler.clone()))
    });
    let signals = ["SIGTERM", "TERM"].map(|signal| (LIFECYCLE, json!({"stopSignal": signal})));
    hooks.chain(probes).chain(signals).collect()
}

/// The numbers of a probe.
pub(super) fn probes() -> Vec<Mistake> {
    let probe = |field: &str, number: i64| {
        let mut probe = json!({"tcpSocket": {"port": 80}});
        probe[field] = json!(number);
        probe
    };
    let mut all = Vec::new();
    for place in ["containers.0.livenessProbe", "containers.0.readinessProbe", "containers.0.startupProbe"] {
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold"] {
            all.push((place, probe(field, -1)));
        }
        for number in [-1, 2] {
            all.push((place, probe("successThreshold", number)));
        }
        for number in [-1, 0, 1] {
            all.push((place, probe("terminationGracePeriodSeconds", number)));
        }
    }
    all.extend(["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"].map(|field| {
        ("initContainers.0", json!({"name": "b", "image": "i", field: {"tcpSocket": {"port": 80}}}))
    }));
    all.push((
        "initContainers.0",
        json!({"name": "b", "image": "i", "restartPolicy": "Always", "readinessProbe": {}}),
    ));
    all.push((
        "initContainers.0",
        json!({"name": "b", "image": "i", "restartPolicy": "Always", "lifecycle": {"preStop": {}}}),
    ));
    all
}

/// Where containers see their volumes.
pub(super) fn mounts() -> Vec<Mistake> {
    let mounts = [
        json!({"mountPropagation": "Bidirectional"}),
        json!({"mountPropagation": "bidirectional"}),
        json!({"mountPropagation": "HostToContainer"}),
        json!({"recursiveReadOnly": "Enabled"}),
        json!({"recursiveReadOnly": "IfPossible", "readOnly": true, "mountPropagation": "HostToContainer"}),
        json!({"recursiveReadOnly": "Always"}),
        json!({"subPath": "/a"}),
        json!({"subPath": "../a"}),
        json!({"subPathExpr": "/a"}),
        json!({"subPathExpr": "a/.."}),
        json!({"subPath": "a", "subPathExpr": "b"}),
        json!({"name": "w"}),
        json!({"name": ""}),
        json!({"mountPath": ""}),
        json!({"mountPath": "a:b"}),
        json!({"mountPath": "v"}),
    ];
    let mut all: Vec<Mistake> = mounts
        .into_iter()
        .map(|change| {
            let mut mount = json!({"name": "v", "mountPath": "/v"});
            mount.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            ("containers.0.volumeMounts.0", mount)
        })
        .collect();
    let twice = json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]);
    all.push(("containers.0.volumeMounts", twice.clone()));
    all.push(("initContainers.0.volumeMounts", twice));
    all.push(("containers.0.volumeDevices", json!([{"name": "v", "devicePath": "/d"}])));
    all.push(("containers.0.volumeDevices", json!([{"name": "w", "devicePath": "/v"}])));
    all
}

/// Environment variables.
pub(super) fn variables() -> Vec<Mistake> {
    let key = json!({"name": "s", "key": "k"});
    let variables = [
        json!({"name": "A", "value": "b", "valueFrom": {"secretKeyRef": key}}),
        json!({"name": "A", "valueFrom": {"secretKeyRef": key, "configMapKeyRef": key}}),
        json!({"name": "A", "value": "b", "valueFrom": {"secretKeyRef": key, "configMapKeyRef": key}}),
        json!({"name": "A", "value": "b", "valueFrom": {}}),
        json!({"name": "A", "valueFrom": {}}),
        json!({"name": "", "value": "b"}),
        json!({"name": "A=B", "value": "b"}),
        json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}),
        json!({"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}),
        json!({"name": "A", "valueFrom": {"configMapKeyRef": {"name": "A_b", "key": "a b"}}}),
        json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}),
        json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": ""}}}),
        json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.host"}}}),
        json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}),
        json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}),
        json!({"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}}),
        json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": ""}}}),
        json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.nvidia.com/gpu"}}}),
        json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}),
        json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1m"}}}),
    ];
    let sources = [
        json!({}),
        json!({"configMapRef": {}}),
        json!({"secretRef": {"name": "A_b"}}),
        json!({"configMapRef": {"name": "m"}, "secretRef": {"name": "s"}}),
        json!({"prefix": "a=", "configMapRef": {"name": "m"}}),
    ];
    let twice = json!([{"name": "A", "value": "b"}, {"name": "A", "value": "c"}]);
    variables
        .into_iter()
        .map(|variable| ("containers.0.env", json!([variable])))
        .chain(sources.into_iter().map(|source| ("containers.0.envFrom", json!([source]))))
        .chain([("containers.0.env", twice)])
        .collect()
}

/// Other fields of containers.
pub(super) fn containers() -> Vec<Mistake> {
    let ports = [
        json!([{"containerPort": 0}]),
        json!([{"containerPort": 70_000}]),
        json!([{"containerPort": 80, "hostPort": 70_000}]),
        json!([{"containerPort": 80, "hostPort": -1}]),
        json!([{"containerPort": 80, "protocol": "HTTP"}]),
        json!([{"containerPort": 80, "name": "A"}]),
        json!([{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]),
        json!([{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]),
        json!([{"containerPort": 80}, {"containerPort": 80}]),
    ];
    let policies = ["Always", "Never", "OnFailure"];
    let resizes = [
        json!([{"resourceName": "nvidia.com/gpu", "restartPolicy": "NotRequired"}]),
        json!([{"resourceName": "cpu", "restartPolicy": "Never"}]),
        json!([{"resourceName": "cpu", "restartPolicy": ""}]),
        json!([{"resourceName": "", "restartPolicy": "NotRequired"}]),
        json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}, {"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]),
    ];
    let contexts = [
        json!({"runAsUser": -1}),
        json!({"runAsGroup": -1}),
        json!({"procMount": "x"}),
        json!({"procMount": "Unmasked"}),
        json!({"seccompProfile": {"type": "x"}}),
        json!({"seccompProfile": {}}),
        json!({"seccompProfile": {"type": "Localhost"}}),
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}}),
        json!({"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}}),
        json!({"appArmorProfile": {"type": "x"}}),
        json!({"appArmorProfile": {"type": "Localhost"}}),
        json!({"appArmorProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}),
        json!({"privileged": true, "allowPrivilegeEscalation": false}),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
    ];
    let mut all: Vec<Mistake> = ports.into_iter().map(|ports| ("containers.0.ports", ports)).collect();
    all.extend(policies.map(|policy| ("initContainers.0.restartPolicy", json!(policy))));
    all.extend(policies.map(|policy| ("containers.0.restartPolicy", json!(policy))));
    all.extend(resizes.clone().map(|policy| ("containers.0.resizePolicy", policy)));
    all.extend(resizes.map(|policy| ("initContainers.0.resizePolicy", policy)));
    all.extend(contexts.map(|context| ("containers.0.securityContext", context)));
    all.extend([
        ("containers", json!([])),
        ("containers.0.name", json!("")),
        ("containers.0.name", json!("A_b")),
        ("containers.0.name", json!("b")),
        ("containers.0.image", json!("")),
        ("containers.0.imagePullPolicy", json!("x")),
        ("containers.0.terminationMessagePolicy", json!("x")),
        ("initContainers.0.name", json!("")),
        ("ephemeralContainers", json!([{"name": "e", "image": "i"}])),
    ]);
    all
}

/// Amounts of resources.
pub(super) fn resources() -> Vec<Mistake> {
    [
        json!({"limits": {"nvidia.com/gpu": "0.5"}}),
        json!({"requests": {"nvidia.com/gpu": "1"}}),
        json!({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}),
        json!({"limits": {"gpu": "1"}}),
        json!({"limits": {"cpu": "-1"}}),
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        json!({"limits": {"hugepages-2Mi": "3Mi", "memory": "1Gi"}}),
        json!({"limits": {"hugepages-2Mi": "4Mi"}}),
        json!({"limits": {"memory": "1Gi"}, "requests": {"hugepages-2Mi": "4Mi"}}),
        json!({"limits": {"kubernetes.io/x": "1"}}),
        json!({"limits": {"a b/c": "1"}}),
        json!({"claims": [{"name": "x"}]}),
        json!({"claims": [{"name": ""}]}),
    ]
    .into_iter()
    .map(|resources| ("containers.0.resources", resources))
    .collect()
}
