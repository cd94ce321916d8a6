//! Finds out why services do not become ready, with the checks of `longboat doctor`.

use std::collections::BTreeSet;

use kube::Client;
use longboat_api::names::{DEFAULT_PRESET_PREFIX, DEFAULT_SYSTEM_NAMESPACE};
use longboat_doctor::{
    Finding, examine,
    gather::{self, Scope},
};

/// Returns the findings about these services, `(namespace, name)`.
pub(crate) async fn findings(client: &Client, names: &[(String, String)]) -> Vec<Finding> {
    let namespaces: BTreeSet<&String> = names.iter().map(|(namespace, _)| namespace).collect();
    let scope = Scope {
        system_namespace: DEFAULT_SYSTEM_NAMESPACE.to_owned(),
        preset_prefix: DEFAULT_PRESET_PREFIX.to_owned(),
        namespaces: namespaces.into_iter().cloned().collect(),
        services: names.iter().map(|(_, name)| name.clone()).collect(),
        ask: false,
    };
    // Only ready services get a request, so the function is never called here.
    let nobody = |_| std::future::ready(Err(String::new()));
    let Ok(facts) = Box::pin(gather::gather(client.clone(), &scope, nobody)).await else { return Vec::new() };
    let objects: BTreeSet<String> =
        names.iter().map(|(namespace, name)| format!("LLMInferenceService {namespace}/{name}")).collect();
    examine(&facts).into_iter().filter(|finding| objects.contains(&finding.object)).collect()
}
