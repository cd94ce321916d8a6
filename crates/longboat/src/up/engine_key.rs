//! The API key that the engine of a service asks for, with which the gateway has nothing to do.

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, Client, api::ListParams};
use longboat_api::{
    engine::EngineKey,
    labels::{KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, NAME, ROLE, role, value},
    names::MAIN_CONTAINER,
};

/// The most pods that are looked at. All pods of a service have the same key.
const MAX_PODS: u32 = 20;

/// A key that requests to a service need.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RequiredKey {
    /// The key, if it can be read.
    pub(crate) text: Option<String>,
    /// A line of a shell that sets the variable KEY, or a comment that says what belongs there.
    pub(crate) line: String,
}

// === impl RequiredKey ===

/// Shows no key.
impl fmt::Debug for RequiredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl RequiredKey {
    /// Looks for the key in a pod of the service, and in the Secret that the pod names. Returns `None` if the engine asks for no key.
    pub(crate) async fn find(client: &Client, namespace: &str, service: &str) -> Option<Self> {
        let selector = format!("{NAME}={service},{KSERVE_COMPONENT}={KSERVE_COMPONENT_WORKLOAD}");
        let listed = ListParams::default().labels(&selector).limit(MAX_PODS);
        let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&listed).await.ok()?;
        let mut containers = pods
            .items
            .into_iter()
            .filter(|pod| value(&pod.metadata, ROLE) != Some(role::PREFILL))
            .flat_map(|pod| pod.spec.into_iter().flat_map(|spec| spec.containers));
        let key = EngineKey::of(&containers.find(|container| container.name == MAIN_CONTAINER)?)?;
        Some(match key {
            EngineKey::Secret { name, entry } => {
                let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(&name).await.ok();
                let bytes = secret.and_then(|secret| secret.data?.remove(&entry));
                let line = format!(
                    "export KEY=$(kubectl get secret -n {namespace} {name} -o jsonpath='{{.data.{}}}' | base64 -d)",
                    entry.replace('.', "\\.")
                );
                Self { text: bytes.and_then(|bytes| String::from_utf8(bytes.0).ok()), line }
            }
            EngineKey::Text(text) => {
                Self { text: Some(text), line: "# KEY is the API key in the manifest".into() }
            }
            EngineKey::Elsewhere => Self { text: None, line: "# KEY is the API key of the engine".into() },
        })
    }
}
