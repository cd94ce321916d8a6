//! What the tree shows, as it is now.

use std::{fmt::Debug, sync::Arc};

use anyhow::{Context, bail};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use super::{PART_OF_A_SERVICE, Scope, Seen};

/// The one kind that clusters may lack.
const LEADER_WORKER_SETS: &str = "LeaderWorkerSets";

/// Looks once.
pub(crate) async fn look(client: &Client, scope: &Scope) -> anyhow::Result<Seen> {
    let (any, ours) = (ListParams::default(), ListParams::default().labels(PART_OF_A_SERVICE));
    let (services, deployments, sets, pods) = tokio::try_join!(
        list(scope.api(client), &any, "LLMInferenceServices"),
        list(scope.api(client), &ours, "Deployments"),
        list(scope.api(client), &ours, LEADER_WORKER_SETS),
        list(scope.api(client), &ours, "Pods"),
    )?;
    Ok(Seen { services, deployments, sets, pods })
}

/// The objects of a kind; none where the cluster does not know the kind and need not.
async fn list<K>(api: Api<K>, parameters: &ListParams, what: &str) -> anyhow::Result<Vec<Arc<K>>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    match api.list(parameters).await {
        Ok(listed) => Ok(listed.items.into_iter().map(Arc::new).collect()),
        Err(kube::Error::Api(status)) if status.is_not_found() && what == LEADER_WORKER_SETS => {
            Ok(Vec::new())
        }
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            bail!("the cluster does not know {what}: install Longboat with `longboat install`")
        }
        Err(error) => Err(error).with_context(|| format!("cannot list {what}")),
    }
}
