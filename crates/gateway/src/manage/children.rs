//! The objects that serve Gateways on a cluster. Pure functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use longboat_api::foreign::gateway::Gateway;
use longboat_key::{Key, Name, Namespace};
use serde::de::DeserializeOwned;
use serde_json::{Error, Value, json};

use super::{PodTemplate, parameters::Parameters};
use crate::{
    MONITORING_PORT, POD_ROLE, RoutingInputs,
    grants::GATEWAY_GROUP,
    listeners::{ServedGateway, asked_addresses},
    references::References,
    resolved::Resolved,
};

/// The label of all objects that are made for Gateways. Its value is the name of the Gateway's Deployment.
pub(super) const LABEL: &str = "longboat.dev/gateway";
/// The label with the namespace of the Gateway: some of its objects are in other namespaces.
const NAMESPACE_LABEL: &str = "longboat.dev/gateway-namespace";
/// The longest name of a Service, and the longest value of a label.
const MAX_NAME: usize = 63;
/// The user of the image. It owns nothing.
const USER: u32 = 1000;
/// How long a pod accepts connections after SIGTERM, until load balancers have learnt that it ends.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(5);
/// The time that a pod needs to end after the last request.
const MARGIN: Duration = Duration::from_secs(10);
/// Ports below this one need a right, unless the pod sets this sysctl. It is a safe one, which every cluster allows.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// The objects of all Gateways, with the Gateway of each.
#[derive(Debug, Default)]
pub(super) struct Children {
    pub(super) accounts: Vec<(Key, ServiceAccount)>,
    pub(super) roles: Vec<(Key, Role)>,
    pub(super) role_bindings: Vec<(Key, RoleBinding)>,
    pub(super) cluster_role_bindings: Vec<(Key, ClusterRoleBinding)>,
    pub(super) policies: Vec<(Key, NetworkPolicy)>,
    pub(super) budgets: Vec<(Key, PodDisruptionBudget)>,
    pub(super) deployments: Vec<(Key, Deployment)>,
    pub(super) services: Vec<(Key, Service)>,
}

/// Returns the name of a Gateway's Deployment, Service and account: that of the Gateway and its class, as the Gateway API
/// recommends, if a Service can have it.
pub(super) fn name(gateway: &Gateway) -> Key {
    let own = Name::of(&gateway.metadata);
    let name = format!("{own}-{}", gateway.spec.gateway_class_name);
    let fits =
        name.len() <= MAX_NAME && !name.contains('.') && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let uid = gateway.metadata.uid.as_deref().unwrap_or_default();
    let name = if fits { name } else { format!("gateway-{uid}") };
    Key::new(Namespace::of(&gateway.metadata), Name(&name))
}

// === impl Children ===

impl Children {
    /// Plans the objects of all Gateways that are accepted.
    ///
    /// # Errors
    /// If an object cannot be built, which is a mistake in this build.
    pub(super) fn new(
        observed: &RoutingInputs,
        resolved: &Resolved,
        template: &PodTemplate,
    ) -> Result<Self, Error> {
        let mut all = Self::default();
        for served in &resolved.gateways {
            // A Gateway that is being deleted keeps its objects until it is gone: streams may still run.
            let Ok(parameters) = Parameters::of(observed, &served.gateway) else { continue };
            let plan = GatewayPlan::new(observed, served, &parameters, template);
            if served.refused.is_none() && !plan.ports.is_empty() {
                plan.add(&mut all)?;
            }
        }
        Ok(all)
    }
}

/// What the objects of one Gateway depend on.
struct GatewayPlan<'a> {
    gateway: &'a Gateway,
    key: &'a Key,
    name: Key,
    /// The ports of listeners.
    ports: BTreeSet<u16>,
    references: References,
    parameters: &'a Parameters,
    template: &'a PodTemplate,
}

// === impl GatewayPlan ===

impl<'a> GatewayPlan<'a> {
    fn new(
        observed: &RoutingInputs,
        served: &'a ServedGateway,
        parameters: &'a Parameters,
        template: &'a PodTemplate,
    ) -> Self {
        // Listeners without certificates count: their certificates may come at any time.
        let accepted = served.listeners.iter().filter(|listener| listener.refused.is_none());
        Self {
            gateway: &served.gateway,
            key: &served.key,
            name: name(&served.gateway),
            ports: accepted.filter_map(|listener| u16::try_from(listener.port).ok()).collect(),
            references: References::of(observed, &served.gateway),
            parameters,
            template,
        }
    }

    fn add(&self, all: &mut Children) -> Result<(), Error> {
        fn push<K: DeserializeOwned>(
            list: &mut Vec<(Key, K)>,
            key: &Key,
            object: Value,
        ) -> Result<(), Error> {
            list.push((key.clone(), serde_json::from_value(object)?));
            Ok(())
        }
        push(&mut all.accounts, self.key, json!({"metadata": self.metadata()}))?;
        for (namespace, rules) in self.rules() {
            push(
                &mut all.roles,
                self.key,
                json!({"metadata": self.right(Some(&namespace)), "rules": rules}),
            )?;
            let binding = self.binding(Some(&namespace), "Role", &self.right_name());
            push(&mut all.role_bindings, self.key, binding)?;
        }
        push(&mut all.cluster_role_bindings, self.key, self.binding(None, "ClusterRole", POD_ROLE))?;
        push(&mut all.policies, self.key, self.policy())?;
        push(&mut all.budgets, self.key, self.budget())?;
        push(&mut all.deployments, self.key, self.deployment())?;
        push(&mut all.services, self.key, self.service())
    }

    /// The labels by which pods are selected.
    fn selector(&self) -> Value {
        json!({LABEL: &*self.name.name, NAMESPACE_LABEL: &*self.key.namespace})
    }

    fn labels(&self) -> Value {
        let infrastructure = self.gateway.spec.infrastructure.as_ref();
        let mut labels = json!(infrastructure.map(|all| all.labels.clone()).unwrap_or_default());
        labels["app.kubernetes.io/name"] = "longboat".into();
        labels["app.kubernetes.io/component"] = "gateway".into();
        labels["app.kubernetes.io/managed-by"] = "longboat".into();
        for (label, value) in [
            ("gateway.networking.k8s.io/gateway-name", &*self.key.name),
            ("gateway.networking.k8s.io/gateway-class-name", self.gateway.spec.gateway_class_name.as_str()),
        ] {
            if value.len() <= MAX_NAME {
                labels[label] = value.into();
            }
        }
        labels[LABEL] = Value::from(&*self.name.name);
        labels[NAMESPACE_LABEL] = Value::from(&*self.key.namespace);
        labels
    }

    fn annotations(&self) -> Value {
        let infrastructure = self.gateway.spec.infrastructure.as_ref();
        json!(infrastructure.map(|all| all.annotations.clone()).unwrap_or_default())
    }

    /// Metadata of the objects that end with the Gateway.
    fn metadata(&self) -> Value {
        json!({
            "name": &*self.name.name,
            "namespace": &*self.key.namespace,
            "labels": self.labels(),
            "annotations": self.annotations(),
            "ownerReferences": [{
                "apiVersion": format!("{GATEWAY_GROUP}/v1"), "kind": "Gateway", "controller": true,
                "name": &*self.key.name, "uid": self.gateway.metadata.uid,
            }],
        })
    }

    fn right_name(&self) -> String {
        format!("longboat-gateway:{}:{}", self.key.namespace, self.name.name)
    }

    /// Metadata of rights. An owner must be in the same namespace, so rights have none: their labels say whose they are.
    fn right(&self, namespace: Option<&str>) -> Value {
        json!({"name": self.right_name(), "namespace": namespace, "labels": self.labels()})
    }

    /// The rights in namespaces: to the Gateway itself, and to the objects to which it refers, by name.
    fn rules(&self) -> BTreeMap<String, Vec<Value>> {
        let mut rules: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut add = |namespace: &str, group: &str, resource: &str, names: Vec<&str>| {
            rules.entry(namespace.to_owned()).or_default().push(json!({
                "apiGroups": [group], "resources": [resource], "resourceNames": names,
                "verbs": ["get", "list", "watch"],
            }));
        };
        add(&self.key.namespace, GATEWAY_GROUP, "gateways", vec![&*self.key.name]);
        for (resource, keys) in
            [("secrets", &self.references.secrets), ("configmaps", &self.references.config_maps)]
        {
            let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for key in keys {
                names.entry(&*key.namespace).or_default().push(&*key.name);
            }
            for (namespace, names) in names {
                add(namespace, "", resource, names);
            }
        }
        rules
    }

    fn binding(&self, namespace: Option<&str>, kind: &str, role: &str) -> Value {
        json!({
            "metadata": self.right(namespace),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{
                "kind": "ServiceAccount", "name": &*self.name.name, "namespace": &*self.key.namespace,
            }],
        })
    }

    /// Lets everybody reach the listeners and the port for probes and metrics, and no other port.
    fn policy(&self) -> Value {
        let ports = self.ports.iter().copied().chain([MONITORING_PORT]);
        let ports: Vec<_> = ports.map(|port| json!({"protocol": "TCP", "port": port})).collect();
        json!({"metadata": self.metadata(), "spec": {
            "podSelector": {"matchLabels": self.selector()},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": ports}],
        }})
    }

    fn budget(&self) -> Value {
        json!({"metadata": self.metadata(), "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": self.selector()},
        }})
    }

    fn service(&self) -> Value {
        // The pods listen on the ports of the listeners.
        let ports = self.ports.iter().map(|port| {
            json!({"name": format!("port-{port}"), "port": port, "targetPort": port, "protocol": "TCP"})
        });
        let mut spec = json!({
            "type": self.parameters.service_type,
            "selector": self.selector(),
            "ports": ports.collect::<Vec<_>>(),
        });
        let asked = asked_addresses(self.gateway).unwrap_or_default();
        if let Some(address) = asked.first() {
            let field =
                if self.parameters.service_type == "LoadBalancer" { "loadBalancerIP" } else { "clusterIP" };
            spec[field] = address.to_string().into();
        }
        json!({"metadata": self.metadata(), "spec": spec})
    }

    /// Its pods comply with the profile "restricted" of Pod Security.
    fn deployment(&self) -> Value {
        let selector = self.selector();
        json!({"metadata": self.metadata(), "spec": {
            "replicas": self.parameters.replicas,
            "selector": {"matchLabels": selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": self.labels(), "annotations": self.annotations()},
                "spec": self.pod(&selector),
            },
        }})
    }

    fn pod(&self, selector: &Value) -> Value {
        let seconds = |time: Duration| format!("{}s", time.as_secs());
        let probe = |path: &str, period: u32| json!({"httpGet": {"path": path, "port": "monitoring"}, "periodSeconds": period, "failureThreshold": 3});
        let mut pod = json!({
            "serviceAccountName": &*self.name.name,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector},
            }],
            "terminationGracePeriodSeconds":
                (SHUTDOWN_DELAY + self.parameters.drain_timeout + MARGIN).as_secs(),
            "containers": [{
                "name": "gateway",
                "image": self.template.image,
                "command": ["/longboat", "gateway"],
                "args": [
                    format!("--gateway-namespace={}", self.key.namespace),
                    format!("--gateway-name={}", self.key.name),
                    format!("--shutdown-delay={}", seconds(SHUTDOWN_DELAY)),
                    format!("--drain-timeout={}", seconds(self.parameters.drain_timeout)),
                ],
                "ports": [{"name": "monitoring", "containerPort": MONITORING_PORT, "protocol": "TCP"}],
                "livenessProbe": probe("/healthz", 20),
                "readinessProbe": probe("/readyz", 5),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": true,
                },
            }],
        });
        if self.ports.first().is_some_and(|port| *port < FIRST_UNPRIVILEGED_PORT) {
            pod["securityContext"]["sysctls"] =
                json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
        }
        pod
    }
}
