//! Connects to the cluster of a verb.

use std::io::ErrorKind;

use anyhow::{anyhow, bail};
use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use longboat_controller::reader;
use longboat_key::Namespace;

use crate::{cli::ClusterArgs, tree::Environment};

/// A connected cluster.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// The kind of environment.
    pub(crate) environment: Environment,
}

/// Connects to the cluster that the flags or the environment name.
///
/// # Errors
///
/// If there is no cluster, or if it does not answer. The error has its address and one sentence.
pub(crate) async fn connect(cluster: &ClusterArgs) -> anyhow::Result<Cluster> {
    let config = config(cluster).await?;
    let address = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = Client::try_from(config).map_err(|error| unreachable(&address, &error))?;
    let client = longboat_watch::named(client, "longboat");
    let environment = match client.apiserver_version().await {
        Ok(version) if version.git_version.ends_with("+longboat") => Environment::Laptop,
        Ok(_) => Environment::Cluster,
        // The server answers, but the user may not read its version.
        Err(kube::Error::Api(status)) if status.code == 403 => Environment::Cluster,
        Err(error) => return Err(unreachable(&address, &error)),
    };
    Ok(Cluster { client, environment })
}

/// Refuses a namespace that does not exist: nothing in it would look like no problem, or like services that are gone. Who may not read
/// namespaces is not asked.
///
/// # Errors
///
/// If a namespace is given and does not exist.
pub(crate) async fn namespace_exists(client: &Client, namespace: Option<&Namespace>) -> anyhow::Result<()> {
    let Some(namespace) = namespace else { return Ok(()) };
    let found = Api::<NamespaceObject>::all(client.clone()).get_metadata_opt(namespace).await;
    match found {
        Ok(None) => {
            bail!("namespace {namespace} does not exist: `kubectl get namespaces` lists those of the cluster")
        }
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

async fn config(cluster: &ClusterArgs) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: cluster.context.clone(), ..KubeConfigOptions::default() };
    match &cluster.kubeconfig {
        Some(path) => {
            let unusable =
                |error| anyhow!("cannot use the kubeconfig `{}`: {}", path.display(), sentence(&error));
            let file = Kubeconfig::read_from(path).map_err(unusable)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(unusable)
        }
        None if cluster.context.is_some() => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| anyhow!("cannot use the kubeconfig: {}", sentence(&error))),
        None => match Config::from_kubeconfig(&options).await {
            Ok(config) => Ok(config),
            Err(error) => Config::incluster().map_err(|_| nowhere(&error)),
        },
    }
}

/// Returns the error if there is neither a kubeconfig nor a service account of a pod.
fn nowhere(error: &KubeconfigError) -> anyhow::Error {
    let why = sentence(error);
    anyhow!(
        "no cluster is configured: {why}, and this is not a pod\n  Set KUBECONFIG, or use `--kubeconfig`."
    )
}

/// Describes the error of a kubeconfig. kube's own message quotes paths like Rust's debug output.
fn sentence(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, path) if error.kind() == ErrorKind::NotFound => {
            format!("there is no file `{}`", path.display())
        }
        KubeconfigError::ReadConfig(error, path) => format!("cannot read `{}`: {error}", path.display()),
        KubeconfigError::CurrentContextNotSet => "it has no current context: use `--context`".to_owned(),
        other => other.to_string(),
    }
}

fn unreachable(address: &str, error: &kube::Error) -> anyhow::Error {
    let said = reader::sentence(error);
    match error {
        kube::Error::Api(_) => anyhow!("the API server at {address} refuses the request: {said}"),
        _ => anyhow!(
            "the API server at {address} does not answer: {said}\n  Is the cluster running, and is this its kubeconfig?"
        ),
    }
}
