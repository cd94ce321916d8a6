//! Objects with as many fields as a valid object can have, for every kind that users write.

use serde_json::{Value, json};

/// The objects, with the paths where they are created.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    let lists = [
        configuration(),
        workloads(),
        jobs(),
        networks(),
        services(),
        autoscaling(),
        storage(),
        volumes(),
        devices(),
        rights(),
    ];
    lists.into_iter().flatten().collect()
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn object(spec: &Value) -> Value {
    json!({"metadata": {"name": "rich"}, "spec": spec})
}

fn configuration() -> Vec<(&'static str, Value)> {
    const SECRETS: &str = "/api/v1/namespaces/diff/secrets";
    let secret = |kind: &str, data: Value| {
        (
            SECRETS,
            json!({"metadata": {"name": "rich", "annotations": {"kubernetes.io/service-account.name": "default"}},
            "type": kind, "data": data}),
        )
    };
    vec![
        (
            "/api/v1/namespaces/diff/configmaps",
            json!({"metadata": {"name": "rich", "labels": {"a": "b"}, "annotations": {"a": "b"}},
                "data": {"k": "v"}, "binaryData": {"l": "YQ=="}, "immutable": true}),
        ),
        (
            SECRETS,
            json!({"metadata": {"name": "rich"}, "stringData": {"k": "v"}, "data": {"l": "YQ=="}, "immutable": true}),
        ),
        secret("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "e30="})),
        secret("kubernetes.io/dockercfg", json!({".dockercfg": "e30="})),
        secret("kubernetes.io/tls", json!({"tls.crt": "YQ==", "tls.key": "YQ=="})),
        secret("kubernetes.io/ssh-auth", json!({"ssh-privatekey": "YQ=="})),
        secret("kubernetes.io/basic-auth", json!({"username": "YQ=="})),
        secret("kubernetes.io/service-account-token", json!({})),
        (
            "/api/v1/namespaces/diff/serviceaccounts",
            json!({"metadata": {"name": "rich"}, "automountServiceAccountToken": false, "secrets": [{"name": "s"}],
                "imagePullSecrets": [{"name": "p"}]}),
        ),
        (
            "/api/v1/namespaces",
            json!({"metadata": {"name": "rich", "labels": {"a": "b"}}, "spec": {"finalizers": ["kubernetes"]}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/diff/leases",
            object(&json!({"holderIdentity": "x", "leaseDurationSeconds": 5, "leaseTransitions": 1,
                "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"})),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"metadata": {"name": "rich"}, "value": 1_000_000_000, "globalDefault": false, "description": "d",
                "preemptionPolicy": "Never"}),
        ),
    ]
}

fn workloads() -> Vec<(&'static str, Value)> {
    let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
    vec![
        (
            "/apis/apps/v1/namespaces/diff/deployments",
            object(
                &json!({"replicas": 1, "selector": selector, "template": template(), "minReadySeconds": 1, "paused": false,
                "revisionHistoryLimit": 1, "progressDeadlineSeconds": 5,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}}),
            ),
        ),
        (
            "/apis/apps/v1/namespaces/diff/replicasets",
            object(
                &json!({"replicas": 1, "selector": selector, "template": template(), "minReadySeconds": 1}),
            ),
        ),
        (
            "/apis/apps/v1/namespaces/diff/statefulsets",
            object(
                &json!({"replicas": 1, "selector": selector, "template": template(), "serviceName": "s", "minReadySeconds": 1,
                "revisionHistoryLimit": 1, "podManagementPolicy": "Parallel", "ordinals": {"start": 1},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
                "volumeClaimTemplates": [{"metadata": {"name": "v", "labels": {"a": "b"}}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "c", "resources": {"requests": {"storage": "1Gi"}}}}]}),
            ),
        ),
        (
            "/apis/apps/v1/namespaces/diff/daemonsets",
            object(
                &json!({"selector": selector, "template": template(), "minReadySeconds": 1, "revisionHistoryLimit": 1,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}),
            ),
        ),
    ]
}

fn jobs() -> Vec<(&'static str, Value)> {
    const JOBS: &str = "/apis/batch/v1/namespaces/diff/jobs";
    let pods = |policy: &str| {
        let mut template = template();
        template["spec"]["restartPolicy"] = json!(policy);
        template
    };
    vec![
        (
            JOBS,
            object(
                &json!({"parallelism": 1, "completions": 2, "completionMode": "Indexed", "backoffLimit": 3,
                "backoffLimitPerIndex": 1, "maxFailedIndexes": 1, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 10,
                "suspend": true, "podReplacementPolicy": "Failed", "managedBy": "a.example/b", "template": pods("Never"),
                "podFailurePolicy": {"rules": [
                    {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [1, 2]}},
                    {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [0, 3]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
                "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}}),
            ),
        ),
        (
            JOBS,
            object(
                &json!({"parallelism": 1, "backoffLimit": 3, "podReplacementPolicy": "TerminatingOrFailed", "template": pods("OnFailure")}),
            ),
        ),
        (
            JOBS,
            object(&json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, "template": pods("Never")})),
        ),
        (
            "/apis/batch/v1/namespaces/diff/cronjobs",
            object(
                &json!({"schedule": "*/5 0-3,5 * jan MON", "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid", "suspend": true,
                "startingDeadlineSeconds": 5, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
                "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 3,
                    "template": pods("OnFailure")}}}),
            ),
        ),
    ]
}

fn networks() -> Vec<(&'static str, Value)> {
    const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/diff/ingresses";
    const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
    let parameters =
        json!({"apiGroup": "a.example", "kind": "K", "name": "n", "scope": "Namespace", "namespace": "diff"});
    vec![
        (
            "/apis/networking.k8s.io/v1/namespaces/diff/networkpolicies",
            object(&json!({"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                        {"podSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {"matchLabels": {"a": "b"}}}],
                    "ports": [{"port": 80, "endPort": 90, "protocol": "TCP"}, {"port": "http", "protocol": "UDP"}]}],
                "egress": [{"to": [{"ipBlock": {"cidr": "2001:db8::/64", "except": ["2001:db8::/66"]}}], "ports": [{"port": 80}]}]})),
        ),
        (
            INGRESSES,
            object(
                &json!({"ingressClassName": "c", "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}},
                "tls": [{"hosts": ["a.example"], "secretName": "s"}],
                "rules": [{"host": "*.example", "http": {"paths": [
                    {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"name": "http"}}}},
                    {"path": "/x", "pathType": "Exact", "backend": {"resource": {"apiGroup": "a.example", "kind": "K", "name": "n"}}}]}}]}),
            ),
        ),
        (CLASSES, object(&json!({"controller": "a.example/c", "parameters": parameters}))),
        (
            CLASSES,
            object(
                &json!({"controller": "a.example/c", "parameters": {"kind": "K", "name": "n", "scope": "Cluster"}}),
            ),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/diff/endpointslices",
            json!({"metadata": {"name": "rich"}, "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
                    "hostname": "h", "nodeName": "n", "zone": "z", "hints": {"forZones": [{"name": "z"}]},
                    "targetRef": {"kind": "Pod", "name": "p", "namespace": "diff"}}],
                "ports": [{"name": "a", "port": 80, "protocol": "TCP", "appProtocol": "http"}]}),
        ),
    ]
}

fn services() -> Vec<(&'static str, Value)> {
    const SERVICES: &str = "/api/v1/namespaces/diff/services";
    let port =
        json!({"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP", "appProtocol": "http"});
    let other = json!({"name": "b", "port": 81, "targetPort": 8081, "protocol": "UDP"});
    vec![
        (
            SERVICES,
            object(
                &json!({"type": "ClusterIP", "selector": {"a": "b"}, "ports": [port, other], "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}, "externalIPs": ["1.2.3.4"],
                "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Local", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "publishNotReadyAddresses": true, "trafficDistribution": "PreferClose"}),
            ),
        ),
        (
            SERVICES,
            object(
                &json!({"type": "LoadBalancer", "selector": {"a": "b"}, "ports": [port], "externalTrafficPolicy": "Cluster",
                "loadBalancerIP": "1.2.3.4", "loadBalancerSourceRanges": ["10.0.0.0/8"], "loadBalancerClass": "a.example/c",
                "allocateLoadBalancerNodePorts": false}),
            ),
        ),
        (SERVICES, object(&json!({"type": "ExternalName", "externalName": "a.example"}))),
    ]
}

fn autoscaling() -> Vec<(&'static str, Value)> {
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let metric = json!({"name": "m", "selector": {"matchLabels": {"a": "b"}}});
    let value = json!({"type": "Value", "value": "1"});
    let average = json!({"type": "AverageValue", "averageValue": "1"});
    let share = json!({"type": "Utilization", "averageUtilization": 50});
    let rules = json!({"stabilizationWindowSeconds": 5, "selectPolicy": "Min",
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]});
    vec![
        (
            "/apis/autoscaling/v2/namespaces/diff/horizontalpodautoscalers",
            object(&json!({"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": target, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": share}},
                {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": average}},
                {"type": "Pods", "pods": {"metric": metric, "target": average}},
                {"type": "Object", "object": {"metric": metric, "target": value, "describedObject": target}},
                {"type": "External", "external": {"metric": metric, "target": value}}],
                "behavior": {"scaleUp": rules, "scaleDown": rules}})),
        ),
        (
            "/apis/autoscaling/v1/namespaces/diff/horizontalpodautoscalers",
            object(
                &json!({"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50}),
            ),
        ),
        (
            "/apis/policy/v1/namespaces/diff/poddisruptionbudgets",
            object(
                &json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {"matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "a", "operator": "Exists"}]}}),
            ),
        ),
        (
            "/apis/policy/v1/namespaces/diff/poddisruptionbudgets",
            object(&json!({"maxUnavailable": "50%", "selector": {}})),
        ),
    ]
}

fn storage() -> Vec<(&'static str, Value)> {
    vec![
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"metadata": {"name": "rich"}, "provisioner": "a.example/p", "parameters": {"k": "v"}, "reclaimPolicy": "Retain",
                "mountOptions": ["ro"], "allowVolumeExpansion": true, "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]},
                    {"key": "rack", "values": ["1"]}]}]}),
        ),
        (
            "/api/v1/namespaces/diff/persistentvolumeclaims",
            object(
                &json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "volumeMode": "Filesystem", "storageClassName": "c",
                "volumeName": "v", "volumeAttributesClassName": "a",
                "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
                "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                "dataSource": {"kind": "PersistentVolumeClaim", "name": "p"},
                "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "p"}}),
            ),
        ),
        (
            "/api/v1/namespaces/diff/persistentvolumeclaims",
            object(
                &json!({"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}},
                "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "p"}}),
            ),
        ),
    ]
}

fn volumes() -> Vec<(&'static str, Value)> {
    let secret = json!({"name": "s", "namespace": "n"});
    let affinity = json!({"required": {"nodeSelectorTerms": [{
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "n", "operator": "Gt", "values": ["1"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}});
    let of = |source: Value| {
        let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        ("/api/v1/persistentvolumes", object(&spec))
    };
    vec![
        of(
            json!({"hostPath": {"path": "/x", "type": "Directory"}, "storageClassName": "c", "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Recycle", "mountOptions": ["ro"], "nodeAffinity": affinity,
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "diff", "name": "c"}}),
        ),
        of(json!({"local": {"path": "/x", "fsType": "ext4"}, "nodeAffinity": affinity})),
        of(json!({"nfs": {"server": "s", "path": "/x", "readOnly": true}})),
        of(
            json!({"csi": {"driver": "a.example", "volumeHandle": "h", "fsType": "ext4", "volumeAttributes": {"k": "v"},
            "controllerPublishSecretRef": secret, "nodeStageSecretRef": secret, "nodePublishSecretRef": secret,
            "controllerExpandSecretRef": secret, "nodeExpandSecretRef": secret}, "volumeAttributesClassName": "a"}),
        ),
        of(json!({"azureFile": {"secretName": "s", "shareName": "s", "secretNamespace": "n"}})),
        of(json!({"cephfs": {"monitors": ["m"], "path": "/x", "secretRef": secret}})),
        of(json!({"rbd": {"monitors": ["m"], "image": "i", "pool": "p"}})),
    ]
}

fn devices() -> Vec<(&'static str, Value)> {
    let selectors = json!([{"cel": {"expression": "device.driver == \"a.example\""}}]);
    let opaque = json!({"driver": "a.example", "parameters": {"k": "v"}});
    let spec = json!({"devices": {
        "requests": [
            {"name": "r", "exactly": {"deviceClassName": "c", "selectors": selectors, "allocationMode": "ExactCount", "count": 2}},
            {"name": "s", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
            {"name": "t", "firstAvailable": [
                {"name": "a", "deviceClassName": "c", "selectors": selectors, "allocationMode": "ExactCount", "count": 1},
                {"name": "b", "deviceClassName": "d"}]}],
        "constraints": [{"requests": ["r", "t/a"], "matchAttribute": "a.example/model"}],
        "config": [{"requests": ["r", "t"], "opaque": opaque}]}});
    vec![
        ("/apis/resource.k8s.io/v1/namespaces/diff/resourceclaims", object(&spec)),
        (
            "/apis/resource.k8s.io/v1/namespaces/diff/resourceclaimtemplates",
            object(&json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec})),
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            object(&json!({"selectors": selectors, "config": [{"opaque": opaque}]})),
        ),
    ]
}

fn rights() -> Vec<(&'static str, Value)> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"], "verbs": ["get"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "default", "namespace": "diff"},
        {"kind": "User", "name": "u", "apiGroup": RBAC}, {"kind": "Group", "name": "g", "apiGroup": RBAC}]);
    let binding = |kind: &str| {
        let role = json!({"apiGroup": RBAC, "kind": kind, "name": "r"});
        json!({"metadata": {"name": "rich"}, "roleRef": role, "subjects": subjects})
    };
    vec![
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/diff/roles",
            json!({"metadata": {"name": "rich"}, "rules": rules}),
        ),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/diff/rolebindings", binding("Role")),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"metadata": {"name": "rich"}, "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"metadata": {"name": "rich"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
        ),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding("ClusterRole")),
    ]
}
