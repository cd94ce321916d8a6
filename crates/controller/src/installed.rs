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

use crate::args::{Args, PRESET_PREFIX};

/// The annotation that names the container of the controller. Others may be injected before it.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the image of the pod in which this process runs, or `None` outside of a cluster. Waits for the API server: with another image,
/// all pickers would restart.
pub(crate) async fn image_of_this_pod(client: &Client, namespace: Namespace<&str>) -> Option<String> {
    std::env::var_os("KUBERNETES_SERVICE_HOST")?;
    let name = std::env::var("HOSTNAME").ok()?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    loop {
        match pods.get_opt(&name).await {
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
                tokio::time::sleep(RETRY_INTERVAL).await;
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
