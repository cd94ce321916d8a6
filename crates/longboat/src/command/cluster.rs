//! Reaching the cluster that a verb is about.

use anyhow::Context;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{cli::ClusterArgs, tree::Place};

/// A client, as the flags or the environment say.
pub(crate) async fn client(cluster: &ClusterArgs) -> anyhow::Result<Client> {
    let options = KubeConfigOptions { context: cluster.context.clone(), ..KubeConfigOptions::default() };
    let config = match &cluster.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig `{}`", path.display()))?;
            Config::from_custom_kubeconfig(file, &options).await?
        }
        None if cluster.context.is_some() => Config::from_kubeconfig(&options).await?,
        None => {
            Config::infer().await.context("no cluster to look at: set KUBECONFIG, or use `--kubeconfig`")?
        }
    };
    Ok(Client::try_from(config)?)
}

/// Whether the cluster is a local world.
pub(crate) async fn place(client: &Client) -> anyhow::Result<Place> {
    let version = client.apiserver_version().await.context("the API server does not answer")?;
    Ok(if version.git_version.ends_with("+longboat") { Place::Laptop } else { Place::Cluster })
}
