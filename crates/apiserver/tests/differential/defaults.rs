//! Objects in which defaults are missing, one for each type of the table that has defaults, at a place in each kind.

use std::collections::{BTreeSet, VecDeque};

use longboat_types::{Field, Presence, Shape, TypeDef, type_def};
use serde_json::{Map, Value, json};

use crate::requests::{Request, Verb};

/// The kinds, and where they are created.
const KINDS: [(&str, &str); 25] = [
    (
        "admissionregistration.v1.MutatingWebhookConfiguration",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    ),
    (
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    ),
    ("apps.v1.DaemonSet", "/apis/apps/v1/namespaces/diff/daemonsets"),
    ("apps.v1.Deployment", "/apis/apps/v1/namespaces/diff/deployments"),
    ("apps.v1.ReplicaSet", "/apis/apps/v1/namespaces/diff/replicasets"),
    ("apps.v1.StatefulSet", "/apis/apps/v1/namespaces/diff/statefulsets"),
    (
        "autoscaling.v1.HorizontalPodAutoscaler",
        "/apis/autoscaling/v1/namespaces/diff/horizontalpodautoscalers",
    ),
    (
        "autoscaling.v2.HorizontalPodAutoscaler",
        "/apis/autoscaling/v2/namespaces/diff/horizontalpodautoscalers",
    ),
    ("batch.v1.CronJob", "/apis/batch/v1/namespaces/diff/cronjobs"),
    ("batch.v1.Job", "/apis/batch/v1/namespaces/diff/jobs"),
    ("core.v1.Endpoints", "/api/v1/namespaces/diff/endpoints"),
    ("core.v1.LimitRange", "/api/v1/namespaces/diff/limitranges"),
    ("core.v1.PersistentVolume", "/api/v1/persistentvolumes"),
    ("core.v1.PersistentVolumeClaim", "/api/v1/namespaces/diff/persistentvolumeclaims"),
    ("core.v1.Pod", "/api/v1/namespaces/diff/pods"),
    ("core.v1.ReplicationController", "/api/v1/namespaces/diff/replicationcontrollers"),
    ("core.v1.Secret", "/api/v1/namespaces/diff/secrets"),
    ("core.v1.Service", "/api/v1/namespaces/diff/services"),
    ("discovery.v1.EndpointSlice", "/apis/discovery.k8s.io/v1/namespaces/diff/endpointslices"),
    ("networking.v1.IngressClass", "/apis/networking.k8s.io/v1/ingressclasses"),
    ("networking.v1.NetworkPolicy", "/apis/networking.k8s.io/v1/namespaces/diff/networkpolicies"),
    ("rbac.v1.RoleBinding", "/apis/rbac.authorization.k8s.io/v1/namespaces/diff/rolebindings"),
    ("resource.v1.ResourceClaimTemplate", "/apis/resource.k8s.io/v1/namespaces/diff/resourceclaimtemplates"),
    ("scheduling.v1.PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("storage.v1.StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
];

/// Types of which kube-apiserver drops the values, because their features are off.
const OFF: [&str; 3] =
    ["core.v1.FileKeySelector", "core.v1.ImageVolumeSource", "resource.v1.DeviceToleration"];

/// Containers that new objects cannot have, and those that get the same as others.
const NOT_FOLLOWED: [&str; 2] = ["ephemeralContainers", "initContainers"];

/// What a value of a type needs to be valid.
fn needed(type_name: &str) -> Value {
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    });
    let workload = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let mut job = json!({"spec": {"template": template}});
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let scaler = json!({"spec": {"scaleTargetRef": deployment, "maxReplicas": 2}});
    match type_name {
        "admissionregistration.v1.MutatingWebhook" | "admissionregistration.v1.ValidatingWebhook" => {
            json!({"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None"})
        }
        "admissionregistration.v1.RuleWithOperations" => {
            json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]})
        }
        "admissionregistration.v1.ServiceReference" => json!({"namespace": "n", "name": "s"}),
        "apps.v1.DaemonSet" | "apps.v1.Deployment" | "apps.v1.ReplicaSet" | "apps.v1.StatefulSet" => workload,
        "autoscaling.v1.HorizontalPodAutoscaler" | "autoscaling.v2.HorizontalPodAutoscaler" => scaler,
        "batch.v1.CronJob" => json!({"spec": {"schedule": "@daily", "jobTemplate": job}}),
        "batch.v1.Job" => job,
        "batch.v1.PodFailurePolicyOnPodConditionsPattern" => json!({"type": "DisruptionTarget"}),
        "batch.v1.PodFailurePolicyRule" => json!({"action": "Ignore"}),
        "core.v1.AzureDiskVolumeSource" => json!({"diskName": "d", "diskURI": "https://a.example/d"}),
        "core.v1.ConfigMapEnvSource"
        | "core.v1.ConfigMapProjection"
        | "core.v1.ConfigMapVolumeSource"
        | "core.v1.SecretEnvSource"
        | "core.v1.SecretProjection" => json!({"name": "n"}),
        "core.v1.ConfigMapKeySelector" | "core.v1.SecretKeySelector" => json!({"name": "n", "key": "k"}),
        "core.v1.Container" => json!({"name": "c", "image": "nginx:1"}),
        "core.v1.ContainerPort" => json!({"containerPort": 80}),
        "core.v1.DownwardAPIVolumeFile" => json!({"path": "p"}),
        "core.v1.EndpointAddress" => json!({"ip": "10.1.2.3"}),
        "core.v1.EndpointPort"
        | "core.v1.ServicePort"
        | "discovery.v1.EndpointPort"
        | "core.v1.GRPCAction"
        | "core.v1.HTTPGetAction" => json!({"port": 80}),
        "core.v1.EndpointSubset" => json!({"addresses": [{"ip": "10.1.2.3"}]}),
        "core.v1.EnvVar" => json!({"name": "A"}),
        "core.v1.HostPathVolumeSource" => json!({"path": "/x"}),
        "core.v1.ISCSIPersistentVolumeSource" | "core.v1.ISCSIVolumeSource" => {
            json!({"targetPortal": "10.1.2.3:3260", "iqn": "iqn.2001-04.com.example:storage", "lun": 0})
        }
        "core.v1.LimitRangeItem" => json!({"type": "Container", "max": {"cpu": "1"}}),
        "core.v1.ObjectFieldSelector" => json!({"fieldPath": "metadata.name"}),
        "core.v1.PersistentVolume" => {
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}})
        }
        "core.v1.PersistentVolumeClaim" => {
            json!({"metadata": {"name": "p"}, "spec": needed("core.v1.PersistentVolumeClaimSpec")})
        }
        "core.v1.PersistentVolumeClaimTemplate" => {
            json!({"spec": needed("core.v1.PersistentVolumeClaimSpec")})
        }
        "core.v1.PersistentVolumeClaimSpec" => {
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
        }
        "core.v1.Pod" => json!({"spec": {
            "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "nginx:1"}],
        }}),
        "core.v1.RBDPersistentVolumeSource" | "core.v1.RBDVolumeSource" => {
            json!({"monitors": ["m"], "image": "i"})
        }
        "core.v1.ReplicationController" => json!({"spec": {"template": template}}),
        "core.v1.ResourceFieldSelector" => json!({"containerName": "c", "resource": "limits.cpu"}),
        "core.v1.ScaleIOPersistentVolumeSource" | "core.v1.ScaleIOVolumeSource" => {
            json!({"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "n"}})
        }
        "core.v1.SecretVolumeSource" => json!({"secretName": "s"}),
        "core.v1.Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        "core.v1.ServiceAccountTokenProjection" => json!({"path": "t"}),
        "core.v1.Volume" => json!({"name": "v"}),
        "discovery.v1.EndpointSlice" => {
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]})
        }
        "networking.v1.IngressClass" => json!({"spec": {"controller": "a.example/c"}}),
        "networking.v1.IngressClassParametersReference" => json!({"kind": "K", "name": "n"}),
        "rbac.v1.RoleBinding" => json!({"roleRef": {"kind": "Role", "name": "r"}}),
        "rbac.v1.Subject" => json!({"kind": "User", "name": "u"}),
        "resource.v1.DeviceRequest" => json!({"name": "r"}),
        "resource.v1.DeviceSubRequest" => json!({"name": "s", "deviceClassName": "c"}),
        "resource.v1.ExactDeviceRequest" => json!({"deviceClassName": "c"}),
        "scheduling.v1.PriorityClass" => json!({"value": 1}),
        "storage.v1.StorageClass" => json!({"provisioner": "a.example/p"}),
        _ => json!({}),
    }
}

/// What a value of a type needs to be valid unless `next` is set in it.
fn needed_beside(type_name: &str, next: &str) -> Value {
    match (type_name, next) {
        ("admissionregistration.v1.MutatingWebhook" | "admissionregistration.v1.ValidatingWebhook", next)
            if next != "clientConfig" =>
        {
            json!({"clientConfig": {"url": "https://a.example/"}})
        }
        ("core.v1.Probe", "") => json!({"tcpSocket": {"port": 80}}),
        ("core.v1.PersistentVolumeSpec", "") => json!({"nfs": {"server": "s", "path": "/x"}}),
        _ => json!({}),
    }
}

/// Returns a request for each type with defaults at one place of each kind, and the type.
pub(crate) fn requests() -> Vec<(&'static str, Request)> {
    let mut all = Vec::new();
    for (kind, path) in KINDS {
        for (target, steps) in places(type_def(kind).unwrap()) {
            let mut body = sample(kind, &steps);
            merge(&mut body, json!({"metadata": {"name": "defaults"}}));
            let path = format!("{path}?dryRun=All");
            all.push((target, Request { verb: Verb::Post, path, body }));
        }
    }
    all
}

/// The types with defaults below a kind, each with the fields of one shortest way to it.
fn places(kind: &'static TypeDef) -> Vec<(&'static str, Vec<&'static Field>)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([kind.name]);
    let mut queue = VecDeque::from([(kind, Vec::new())]);
    while let Some((def, steps)) = queue.pop_front() {
        if OFF.contains(&def.name) {
            continue;
        }
        if def.fields.iter().any(has_default) {
            found.push((def.name, steps.clone()));
        }
        for field in &def.fields {
            let is_of_server = steps.is_empty() && matches!(field.name, "metadata" | "status");
            if is_of_server || NOT_FOLLOWED.contains(&field.name) {
                continue;
            }
            if let Shape::Message { name, .. } = field.shape.leaf()
                && seen.insert(name)
            {
                let mut steps = steps.clone();
                steps.push(field);
                queue.push_back((type_def(name).unwrap(), steps));
            }
        }
    }
    found
}

/// Whether kube-apiserver fills in something: a default, or a quantity that is always there.
fn has_default(field: &Field) -> bool {
    field.default.is_some() || matches!(field.shape, Shape::Quantity) && field.presence == Presence::Zero
}

/// Returns a valid value of a type, with the place that the steps lead to.
fn sample(type_name: &str, steps: &[&'static Field]) -> Value {
    let mut value = needed(type_name);
    merge(&mut value, needed_beside(type_name, steps.first().map_or("", |step| step.name)));
    if let Some((step, rest)) = steps.split_first()
        && let Shape::Message { name, .. } = step.shape.leaf()
    {
        let inner = wrapped(&step.shape, sample(name, rest));
        merge(&mut value, Value::Object(Map::from_iter([(step.name.to_owned(), inner)])));
    }
    value
}

/// Puts the only element into lists and maps.
fn wrapped(shape: &Shape, value: Value) -> Value {
    match shape {
        Shape::List { element, .. } => json!([wrapped(element, value)]),
        Shape::Map { value: inner, .. } => json!({"k": wrapped(inner, value)}),
        _ => value,
    }
}

/// Adds what `other` has; lists are merged element by element.
fn merge(value: &mut Value, other: Value) {
    match (value, other) {
        (Value::Object(map), Value::Object(other)) => {
            for (key, value) in other {
                merge(map.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(items), Value::Array(other)) => {
            for (at, value) in other.into_iter().enumerate() {
                if at == items.len() {
                    items.push(Value::Null);
                }
                merge(&mut items[at], value);
            }
        }
        (value, other) => *value = other,
    }
}
