//! Gateways on a cluster: writes the objects that serve each Gateway, and the statuses. Runs in the controller that leads.

mod children;
mod live;
mod parameters;
mod place;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::Client;
use longboat_key::{Key, Namespace};
use longboat_watch::text_of;

use self::live::Live;
pub(crate) use self::{children::Children, place::ports as places};
pub use self::{children::PodTemplate, parameters::parameters_problem};
use crate::{
    RoutingInputs, gateways,
    keys::RefusedKeys,
    references,
    report::report,
    resolved::Resolved,
    route::RouteParser,
    secret_namespaces::SecretNamespaces,
    watch::{Scope, Watcher},
};

/// The wait after a failed write. The next change usually comes first.
const RETRY: Duration = Duration::from_secs(5);

/// Serves all Gateways of this controller's classes with Deployments. It reads Secrets only in these namespaces, or in all if
/// there are none. Does not end by itself.
pub async fn manage(client: Client, template: PodTemplate, secret_namespaces: Vec<Namespace>) {
    let secrets = SecretNamespaces(secret_namespaces);
    let mut watcher = Watcher::start(&client, &Scope::Manager(secrets.clone()));
    let live = Live::watch(watcher.source(), &secrets);
    let mut refused_keys = RefusedKeys::default();
    let mut parser = RouteParser::for_statuses();
    // By Gateway: why its objects could not be written.
    let mut failures = BTreeMap::new();
    let parameters = |observed: &RoutingInputs| -> BTreeSet<Key> {
        gateways::ours(observed).filter_map(|gateway| references::parameters(gateway)).collect()
    };
    while let Some(observed) = watcher.next(parameters).await {
        let ports = places(&observed, &live.deployments(), &failures);
        let resolved = Resolved::compute(&observed, &ports, &mut parser).await;
        let mut retry = false;
        match Children::new(&observed, &resolved, &template, &secrets) {
            Ok(children) => {
                refused_keys.log(&children.refused_keys);
                let failed = live.apply(&client, children).await;
                retry = !failed.is_empty();
                if failed != failures {
                    for (gateway, failure) in &failed {
                        tracing::warn!(%gateway, %failure, "Cannot write the objects of a Gateway; will retry.");
                    }
                    failures = failed;
                    // The statuses below were computed without them.
                    watcher.source().wake();
                }
            }
            Err(error) => tracing::error!(%error, "Cannot plan the objects of Gateways."),
        }
        if let Err(error) = report(&client, &observed, &resolved).await {
            tracing::warn!(error = %text_of(&error), "Cannot write the status of a Gateway; will retry.");
            retry = true;
        }
        if retry {
            watcher.source().wake_after(RETRY);
        }
    }
}

#[cfg(test)]
mod tests;
