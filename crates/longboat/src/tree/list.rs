//! Reads the objects of the tree once.

use std::{fmt::Debug, sync::Arc};

use anyhow::{Context, anyhow};
use kube::{Api, Client, api::ListParams};
use longboat_api::labels::PART_OF_SELECTOR;
use longboat_controller::reader;
use serde::de::DeserializeOwned;

use super::{Scope, TreeObjects};

/// Lists all objects of the tree.
pub(crate) async fn list_objects(client: &Client, scope: &Scope) -> anyhow::Result<TreeObjects> {
    let (any, ours) = (ListParams::default(), ListParams::default().labels(PART_OF_SELECTOR));
    let (services, deployments, sets, pods) = tokio::try_join!(
        list(scope.api(client), &any, "LLMInferenceServices"),
        list(scope.api(client), &ours, "Deployments"),
        list(scope.api(client), &ours, "LeaderWorkerSets"),
        list(scope.api(client), &ours, "Pods"),
    )?;
    let not_installed = || anyhow!("the cluster does not serve LLMInferenceServices: run `longboat install`");
    Ok(TreeObjects {
        services: services.ok_or_else(not_installed)?,
        deployments: deployments.unwrap_or_default(),
        sets: sets.unwrap_or_default(),
        pods: pods.unwrap_or_default(),
    })
}

/// Lists the objects of a kind. Returns `None` if the cluster does not serve the kind.
async fn list<K>(api: Api<K>, parameters: &ListParams, what: &str) -> anyhow::Result<Option<Vec<Arc<K>>>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let listed = reader::list(&api, parameters).await.with_context(|| format!("cannot list {what}"))?;
    Ok(listed.map(|all| all.into_iter().map(Arc::new).collect()))
}
