//! Finds out why services do not become ready, with the checks of `longboat doctor`.

use std::collections::BTreeSet;

use kube::Client;
use longboat_api::names::{DEFAULT_PRESET_PREFIX, DEFAULT_SYSTEM_NAMESPACE};
use longboat_doctor::{
    Finding, examine,
    gather::{self, Scope},
};
use longboat_key::{Key, Namespace};

/// Returns the findings about these services.
pub(crate) async fn findings(client: &Client, names: &[Key]) -> Vec<Finding> {
    let namespaces: BTreeSet<&Namespace> = names.iter().map(|key| &key.namespace).collect();
    let scope = Scope {
        system_namespace: Namespace(DEFAULT_SYSTEM_NAMESPACE).to_shared(),
        preset_prefix: DEFAULT_PRESET_PREFIX.to_owned(),
        namespaces: namespaces.into_iter().cloned().collect(),
        services: names.iter().map(|key| key.name.clone()).collect(),
        ask: false,
    };
    // Only ready services get a request, so the function is never called here.
    let nobody = |_, _| std::future::ready(Err(String::new()));
    let Ok(facts) = Box::pin(gather::gather(client.clone(), &scope, nobody)).await else { return Vec::new() };
    let objects: BTreeSet<String> = names.iter().map(object).collect();
    examine(&facts).into_iter().filter(|finding| objects.contains(&finding.object)).collect()
}

/// The object of findings about a service.
pub(crate) fn object(service: &Key) -> String {
    format!("LLMInferenceService {}/{}", service.namespace, service.name)
}
