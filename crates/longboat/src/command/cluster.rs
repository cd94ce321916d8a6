//! Connects to the cluster of a verb.

use std::{io::ErrorKind, path::PathBuf, sync::Arc};

use anyhow::{anyhow, bail};
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::{
    Api, Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError},
};
use longboat_controller::reader;
use longboat_key::Namespace;
use longboat_manifest::yaml_error;
use parking_lot::Mutex;

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
    let client = longboat_watch::named(reconnecting(client, cluster.clone()), "longboat");
    let environment = match client.apiserver_version().await {
        // The embedded API server ends its version like this.
        Ok(version) if version.git_version.ends_with("+longboat") => Environment::Laptop,
        Ok(_) => Environment::Cluster,
        // The server answers, but the user may not read its version.
        Err(kube::Error::Api(status)) if status.code == 403 => Environment::Cluster,
        Err(error) => return Err(unreachable(&address, &error)),
    };
    Ok(Cluster { client, environment })
}

/// Returns a client that reads the kubeconfig again if the API server cannot be reached or does not accept the credentials: a local
/// cluster that was restarted may have another port, certificate and token. The failed request is not repeated, because watches and the
/// page of the dashboard repeat theirs.
fn reconnecting(client: Client, cluster: ClusterArgs) -> Client {
    let namespace = client.default_namespace().to_owned();
    let current = Arc::new(Mutex::new(client));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (current, cluster) = (Arc::clone(&current), cluster.clone());
        async move {
            let client = current.lock().clone();
            let result = client.send(request).await;
            let is_outdated =
                result.as_ref().map_or(true, |response| response.status() == StatusCode::UNAUTHORIZED);
            if is_outdated
                && let Ok(config) = config(&cluster).await
                && let Ok(client) = Client::try_from(config)
            {
                *current.lock() = client;
            }
            result
        }
    });
    Client::new(service, namespace)
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

/// Returns how to reach the cluster that the flags or the environment name.
pub(super) async fn config(cluster: &ClusterArgs) -> anyhow::Result<Config> {
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
    if let Some(file) = unreadable_file() {
        return anyhow!("cannot use the kubeconfig `{}`: {why}", file.display());
    }
    anyhow!(
        "no cluster is configured: {why}, and this is not a pod\n  Set KUBECONFIG, or use `--kubeconfig`."
    )
}

/// Returns the file of the variable KUBECONFIG that is no kubeconfig.
fn unreadable_file() -> Option<PathBuf> {
    // The variable may name several files, and kube's error names none of them.
    let named = std::env::var_os("KUBECONFIG")?;
    std::env::split_paths(&named)
        .find(|path| matches!(Kubeconfig::read_from(path), Err(KubeconfigError::Parse(_))))
}

/// Describes the error of a kubeconfig by its fields. kube's own messages have the words of its libraries.
fn sentence(error: &KubeconfigError) -> String {
    let data = |field: &str, error: &LoadDataError| match error {
        LoadDataError::DecodeBase64(_) => format!("`{field}-data` is not base64"),
        LoadDataError::ReadFile(error, path) => {
            format!("`{field}`: cannot read `{}`: {error}", path.display())
        }
        LoadDataError::NoBase64DataOrFile => format!("it has neither `{field}` nor `{field}-data`"),
    };
    match error {
        KubeconfigError::ReadConfig(error, path) if error.kind() == ErrorKind::NotFound => {
            format!("there is no file `{}`", path.display())
        }
        KubeconfigError::ReadConfig(error, path) => format!("cannot read `{}`: {error}", path.display()),
        KubeconfigError::CurrentContextNotSet => "it has no current context: use `--context`".to_owned(),
        KubeconfigError::KindMismatch => {
            "its files have several values of `kind`: expected `Config` in each".to_owned()
        }
        KubeconfigError::ApiVersionMismatch => {
            "its files have several values of `apiVersion`: expected `v1` in each".to_owned()
        }
        KubeconfigError::LoadContext(name) => {
            format!("it has no context `{name}`: `kubectl config get-contexts` lists those that it has")
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("it has no cluster `{name}`, which its context names")
        }
        KubeconfigError::FindPath => "there is no home folder".to_owned(),
        KubeconfigError::Parse(error) => {
            let (at, message) = yaml_error(error);
            format!("line {}, column {}: {message}", at.line, at.column)
        }
        KubeconfigError::MissingClusterUrl => "its cluster has no `server`".to_owned(),
        KubeconfigError::ParseClusterUrl(error) => format!("`server` of its cluster is no URL: {error}"),
        KubeconfigError::ParseProxyUrl(error) => format!("`proxy-url` of its cluster is no URL: {error}"),
        KubeconfigError::LoadCertificateAuthority(error) => data("certificate-authority", error),
        KubeconfigError::LoadClientCertificate(error) => data("client-certificate", error),
        KubeconfigError::LoadClientKey(error) => data("client-key", error),
        KubeconfigError::ParseCertificates(_) => {
            "`certificate-authority` of its cluster has no certificates as PEM".to_owned()
        }
    }
}

fn unreachable(address: &str, error: &kube::Error) -> anyhow::Error {
    let reason = reader::sentence(error);
    match error {
        kube::Error::Api(_) => anyhow!("the API server at {address} refuses the request: {reason}"),
        _ => anyhow!(
            "the API server at {address} does not answer: {reason}\n  Is the cluster running, and is this its kubeconfig?"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn an_error_of_a_kubeconfig_names_the_place_and_no_library() {
        const CLUSTERS: &str = "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: '?'}}]";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let context = |cluster: &str| {
            format!(
                "current-context: c\ncontexts: [{{name: c, context: {{cluster: {cluster}}}}}]\n{CLUSTERS}\n"
            )
        };
        for (text, expected) in [
            ("clusters:\n- name: [".to_owned(), "line 2, column"),
            ("clusters: 3".to_owned(), "line 1, column 11: "),
            ("kind: Config".to_owned(), "it has no current context: use `--context`"),
            ("current-context: d".to_owned(), "it has no context `d`: `kubectl config get-contexts` lists"),
            (context("other"), "it has no cluster `other`, which its context names"),
            (context("k"), "`certificate-authority-data` is not base64"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let args = ClusterArgs { kubeconfig: Some(path.clone()), context: None };
            let error = config(&args).await.unwrap_err().to_string();
            let start = format!("cannot use the kubeconfig `{}`: {expected}", path.display());
            assert!(error.starts_with(&start), "{text}: {error}");
            assert!(!error.contains("failed to") && !error.contains("serde"), "{error}");
        }
    }

    #[tokio::test]
    async fn after_a_failed_request_the_kubeconfig_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let write = |port: u16| {
            let text = format!(
                "current-context: c\ncontexts: [{{name: c, context: {{cluster: k}}}}]\n\
                 clusters: [{{name: k, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
            );
            std::fs::write(&path, text).unwrap();
        };
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        write(closed);
        let args = ClusterArgs { kubeconfig: Some(path.clone()), context: None };
        let client = Client::try_from(config(&args).await.unwrap()).unwrap();
        let client = reconnecting(client, args);

        let restarted = TcpListener::bind("127.0.0.1:0").await.unwrap();
        write(restarted.local_addr().unwrap().port());
        assert!(client.apiserver_version().await.is_err());
        let answer = async {
            let (mut stream, _) = restarted.accept().await.unwrap();
            // hyper takes a response that comes before its request for a broken connection.
            assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
            let version = json!({
                "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": "",
            });
            let body = version.to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.unwrap();
            stream
        };
        let (version, _stream) = tokio::join!(client.apiserver_version(), answer);
        assert_eq!(version.unwrap().git_version, "v1.34.0");
    }
}
