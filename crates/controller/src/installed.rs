//! How the controller is installed: its image, which pickers, routing sidecars and downloads have, too, and the prefix of its presets.

use std::time::Duration;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Container, Pod, PodSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client};
use longboat_api::names;
use longboat_key::Namespace;
use tokio_util::sync::CancellationToken;

use crate::args::{Args, PRESET_PREFIX};

/// The annotation that names the container of the controller. Others may be injected before it.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the image of the pod in which this process runs, or `None` outside of a cluster. Waits for the API server: with another image,
/// all pickers would restart.
pub(crate) async fn image_of_this_pod(
    client: &Client,
    namespace: Namespace<&str>,
    shutdown: &CancellationToken,
) -> Option<String> {
    std::env::var_os("KUBERNETES_SERVICE_HOST")?;
    let name = std::env::var("HOSTNAME").ok()?;
    image_of(client, namespace, &name, shutdown).await
}

/// Returns the image of the controller in a pod, or `None` if `shutdown` comes first.
async fn image_of(
    client: &Client,
    namespace: Namespace<&str>,
    name: &str,
    shutdown: &CancellationToken,
) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    loop {
        match shutdown.run_until_cancelled(pods.get_opt(name)).await? {
            Ok(pod) => {
                let pod = pod?;
                return container(&pod.metadata, pod.spec.as_ref())?.image.clone();
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::warn!(
                    pod = name,
                    error = status.message,
                    "Cannot read the image of the own pod: set --image if it is not that of this release."
                );
                return None;
            }
            Err(error) => {
                tracing::warn!(
                    pod = name,
                    error = longboat_tls::chain(&error),
                    "Cannot read the image of the own pod yet."
                );
                shutdown.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await?;
            }
        }
    }
}

/// Sets the arguments to those of the controller that is installed. Changes nothing if there is none, or if it must not be read.
pub(crate) async fn complete(args: &mut Args, client: &Client) {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &args.system_namespace);
    let Ok(Some(found)) = deployments.get_opt(names::CONTROLLER).await else { return };
    let template = found.spec.map(|spec| spec.template).unwrap_or_default();
    let Some(container) = container(&template.metadata.unwrap_or_default(), template.spec.as_ref()) else {
        return;
    };
    args.image.clone_from(&container.image);
    let mut variables = container.env.iter().flatten();
    let prefix =
        variables.find(|variable| variable.name == PRESET_PREFIX).and_then(|variable| variable.value.clone());
    if let Some(prefix) = prefix {
        args.preset_prefix = prefix;
    }
}

fn container<'a>(metadata: &ObjectMeta, pod: Option<&'a PodSpec>) -> Option<&'a Container> {
    let containers = &pod?.containers;
    let name = metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT_CONTAINER));
    containers.iter().find(|container| Some(&container.name) == name).or_else(|| containers.first())
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_ends_the_wait_for_an_api_server_that_fails() {
        let failing = tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Body>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
        });
        let (client, shutdown) = (Client::new(failing, "ns"), CancellationToken::new());
        let stop = async {
            tokio::time::sleep(3 * RETRY_INTERVAL).await;
            shutdown.cancel();
        };
        let read = async { tokio::join!(image_of(&client, Namespace("ns"), "pod", &shutdown), stop).0 };
        let image = tokio::time::timeout(10 * RETRY_INTERVAL, read).await;
        assert_eq!(image, Ok(None), "it goes on waiting");
    }
}
