//! Finds out why services do not become ready, with the checks of `longboat doctor`.

use std::collections::BTreeSet;

use kube::Client;
use longboat_doctor::{
    Finding, examine,
    gather::{self, Scope},
};
use longboat_key::{Key, Namespace};
use longboat_offline::Settings;

/// Returns the findings about these services. The settings say where the platform is.
pub(crate) async fn findings(client: &Client, settings: &Settings, names: &[Key]) -> Vec<Finding> {
    let namespaces: BTreeSet<&Namespace> = names.iter().map(|key| &key.namespace).collect();
    let scope = Scope {
        system_namespace: settings.system_namespace.clone(),
        preset_prefix: settings.preset_names.prefix.clone(),
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
