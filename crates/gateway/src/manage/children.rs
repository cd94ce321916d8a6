//! The objects that serve Gateways on a cluster. Pure functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{foreign::gateway::Gateway, labels, names::TOKEN_REVIEWER};
use longboat_key::{Key, Name, Namespace};
use longboat_watch::Decode;
use serde_json::{Error, Value, json};

use super::parameters::Parameters;
use crate::{
    MONITORING_PORT, PICKING_ROLE, POD_ROLE, Picking, RoutingInputs,
    gateways::requested_addresses,
    grants::GATEWAY_GROUP,
    keys::{self, KeyCopy, KeyTable, KeyedServices},
    listeners::ServedGateway,
    names::{self, MAX_NAME},
    references::References,
    resolved::Resolved,
    secret_namespaces::SecretNamespaces,
};

/// The label of all objects that are made for Gateways. Its value is the name of the Gateway's Deployment.
pub(super) const LABEL: &str = "longboat.dev/gateway";
/// The label with the namespace of the Gateway: some of its objects are in other namespaces.
const NAMESPACE_LABEL: &str = "longboat.dev/gateway-namespace";
/// The user of the image. It owns nothing.
const USER: u32 = 1000;
/// How long a pod accepts connections after SIGTERM, until load balancers have learnt that it ends.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(5);
/// The time that a pod needs to end after the last request.
const MARGIN: Duration = Duration::from_secs(10);
/// Ports below this one need a right, unless the pod sets this sysctl. It is a safe one, which every cluster allows.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// What the pods of Gateways run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodTemplate {
    /// The image of this build.
    pub image: String,
}

/// The objects of all Gateways, with the Gateway of each.
#[derive(Debug, Default)]
pub(crate) struct Children {
    pub(super) accounts: Vec<(Key, ServiceAccount)>,
    pub(super) roles: Vec<(Key, Role)>,
    pub(super) role_bindings: Vec<(Key, RoleBinding)>,
    pub(super) cluster_role_bindings: Vec<(Key, ClusterRoleBinding)>,
    pub(super) api_keys: Vec<(Key, Secret)>,
    pub(super) policies: Vec<(Key, NetworkPolicy)>,
    pub(super) budgets: Vec<(Key, PodDisruptionBudget)>,
    pub(super) deployments: Vec<(Key, Deployment)>,
    pub(super) services: Vec<(Key, Service)>,
    /// The names of the Deployments of Gateways that are not accepted: their objects stay as they are.
    pub(super) retained: BTreeSet<Key>,
    /// Secrets with API keys that cannot be used, and why.
    pub(super) refused_keys: BTreeMap<Key, String>,
}

// === impl Children ===

impl Children {
    /// Plans the objects of all Gateways that are accepted.
    ///
    /// # Errors
    /// If an object cannot be built, which is a mistake in this build.
    pub(crate) fn new(
        observed: &RoutingInputs,
        resolved: &Resolved,
        template: &PodTemplate,
        secrets: &SecretNamespaces,
    ) -> Result<Self, Error> {
        let table = KeyTable::new(&observed.api_keys);
        let keyed = KeyedServices::new(observed);
        let mut all = Self { refused_keys: table.refused.clone(), ..Self::default() };
        for (index, served) in resolved.gateways.iter().enumerate() {
            // A Gateway that is being deleted keeps its objects until it is gone: streams may still run.
            let Ok(parameters) = Parameters::of(observed, &served.gateway) else {
                all.retained.insert(names::deployment(&served.gateway));
                continue;
            };
            let plan = GatewayPlan::new(observed, served, &parameters, template);
            if served.refused.is_some() || plan.ports.is_empty() {
                all.retained.insert(plan.name);
                continue;
            }
            let may_write = secrets.contains(&served.key.namespace);
            plan.add(&mut all, may_write)?;
            if may_write && keyed.may_concern(&served.gateway.metadata) {
                let namespaces = resolved.key_namespaces(observed, &keyed, index);
                let KeyCopy { data, left_out } = KeyCopy::new(&table, &namespaces);
                let why = || {
                    format!(
                        "Gateway {} has no room for more keys of this namespace: remove other ones, or models from their entries",
                        served.key
                    )
                };
                all.refused_keys.extend(left_out.into_iter().map(|secret| (secret, why())));
                all.api_keys.push((served.key.clone(), plan.api_keys(data)?));
            }
        }
        Ok(all)
    }
}

/// Returns the name of the Deployment of the Gateway for which an object was made.
pub(super) fn deployment_of(object: &ObjectMeta) -> Option<Key> {
    let labels = object.labels.as_ref()?;
    Some(Key::new(Namespace(labels.get(NAMESPACE_LABEL)?), Name(labels.get(LABEL)?)))
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
            name: names::deployment(&served.gateway),
            ports: accepted.filter_map(|listener| u16::try_from(listener.port).ok()).collect(),
            references: References::of(observed, &served.gateway),
            parameters,
            template,
        }
    }

    /// Adds the objects. `with_keys`: pods get the right to the Secret with API keys.
    fn add(&self, all: &mut Children, with_keys: bool) -> Result<(), Error> {
        fn push<K: Decode>(list: &mut Vec<(Key, K)>, key: &Key, object: &Value) -> Result<(), Error> {
            list.push((key.clone(), K::decode(&object.to_string())?));
            Ok(())
        }
        push(&mut all.accounts, self.key, &json!({"metadata": self.metadata()}))?;
        for (namespace, rules) in self.rules(with_keys) {
            push(
                &mut all.roles,
                self.key,
                &json!({"metadata": self.rights_metadata(Some(&namespace)), "rules": rules}),
            )?;
            let binding = self.binding(Some(&namespace), "Role", &self.rights_name());
            push(&mut all.role_bindings, self.key, &binding)?;
        }
        push(&mut all.cluster_role_bindings, self.key, &self.binding(None, "ClusterRole", POD_ROLE))?;
        if self.picks() {
            // With the second role, the pods check who may read the decisions of their pickers, as pickers do in their own pods.
            for role in [PICKING_ROLE, TOKEN_REVIEWER] {
                let mut binding = self.binding(None, "ClusterRole", role);
                binding["metadata"]["name"] = format!("{}:{role}", self.rights_name()).into();
                push(&mut all.cluster_role_bindings, self.key, &binding)?;
            }
        }
        push(&mut all.policies, self.key, &self.policy())?;
        push(&mut all.budgets, self.key, &self.budget())?;
        push(&mut all.deployments, self.key, &self.deployment())?;
        push(&mut all.services, self.key, &self.service())
    }

    /// Whether the pods pick endpoints themselves.
    fn picks(&self) -> bool {
        self.parameters.picking == Picking::Gateway
    }

    /// The labels by which pods are selected.
    fn selector(&self) -> Value {
        json!({LABEL: &*self.name.name, NAMESPACE_LABEL: &*self.key.namespace})
    }

    fn labels(&self) -> Value {
        let infrastructure = self.gateway.spec.infrastructure.as_ref();
        let mut labels = json!(infrastructure.map(|all| all.labels.clone()).unwrap_or_default());
        labels[labels::NAME] = "longboat".into();
        labels[labels::COMPONENT] = "gateway".into();
        labels["app.kubernetes.io/managed-by"] = "longboat".into();
        for (label, value) in [
            (labels::GATEWAY_NAME, &*self.key.name),
            ("gateway.networking.k8s.io/gateway-class-name", self.gateway.spec.gateway_class_name.as_str()),
        ] {
            if value.len() <= MAX_NAME {
                labels[label] = value.into();
            }
        }
        // Last, because the labels of the Gateway's `infrastructure` must not replace those of selectors.
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
        self.named(&self.name)
    }

    fn named(&self, name: &Key) -> Value {
        json!({
            "name": &*name.name,
            "namespace": &*self.key.namespace,
            "labels": self.labels(),
            "annotations": self.annotations(),
            "ownerReferences": [{
                "apiVersion": format!("{GATEWAY_GROUP}/v1"), "kind": "Gateway", "controller": true,
                "name": &*self.key.name, "uid": self.gateway.metadata.uid,
            }],
        })
    }

    fn rights_name(&self) -> String {
        format!("longboat-gateway:{}:{}", self.key.namespace, self.name.name)
    }

    /// Metadata of rights. An owner must be in the same namespace, so rights have none: their labels say whose they are.
    fn rights_metadata(&self, namespace: Option<&str>) -> Value {
        json!({"name": self.rights_name(), "namespace": namespace, "labels": self.labels()})
    }

    /// The Secret with the API keys that the pods check.
    fn api_keys(&self, data: BTreeMap<String, ByteString>) -> Result<Secret, Error> {
        let metadata = self.named(&names::api_keys(self.gateway));
        Ok(Secret {
            data: Some(data),
            ..Secret::decode(&json!({"metadata": metadata, "type": keys::COPY_TYPE}).to_string())?
        })
    }

    /// The rights in namespaces: to the Gateway itself, and to the objects to which it refers, by name. The right to the Secret
    /// with API keys is there before a service asks for keys, so that pods are never refused.
    fn rules(&self, with_keys: bool) -> BTreeMap<String, Vec<Value>> {
        let api_keys = names::api_keys(self.gateway);
        let secrets: BTreeSet<&Key> =
            self.references.secrets.iter().chain(with_keys.then_some(&api_keys)).collect();
        let config_maps: BTreeSet<&Key> = self.references.config_maps.iter().collect();
        let mut rules: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut add = |namespace: &str, group: &str, resource: &str, names: Vec<&str>| {
            rules.entry(namespace.to_owned()).or_default().push(json!({
                "apiGroups": [group], "resources": [resource], "resourceNames": names,
                "verbs": ["get", "list", "watch"],
            }));
        };
        add(&self.key.namespace, GATEWAY_GROUP, "gateways", vec![&*self.key.name]);
        for (resource, keys) in [("secrets", secrets), ("configmaps", config_maps)] {
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
            "metadata": self.rights_metadata(namespace),
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
        let requested = requested_addresses(self.gateway).unwrap_or_default();
        if let Some(address) = requested.first() {
            // `loadBalancerIP` is deprecated since Kubernetes 1.24, but has no successor that all providers read.
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
        if self.picks()
            && let Some(arguments) = pod["containers"][0]["args"].as_array_mut()
        {
            arguments.push("--picking=gateway".into());
        }
        if self.ports.first().is_some_and(|port| *port < FIRST_UNPRIVILEGED_PORT) {
            pod["securityContext"]["sysctls"] =
                json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
        }
        pod
    }
}
