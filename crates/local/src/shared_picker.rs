//! Installs the picker that pools share, as soon as the settings of the platform ask for it. On a cluster, `longboat install` does.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, runtime::watcher::Event};
use longboat_api::names::{DEFAULT_SYSTEM_NAMESPACE, PLATFORM_CONFIG_MAP};
use longboat_compose::Platform;
use longboat_install::{SharedPicker, Values, picker};
use longboat_key::Namespace;
use longboat_watch::{Selection, text_of_watch};
use tokio_util::sync::CancellationToken;

use crate::apply::{self, Owner};

/// How long to wait before an object that the server refused is sent again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Follows the settings until `shutdown`. The picker stays when they ask for it no more: services move back one by one.
pub(crate) async fn run(client: Client, shutdown: CancellationToken) {
    let namespace = Namespace(DEFAULT_SYSTEM_NAMESPACE);
    let selection = Selection::of::<ConfigMap>().within(Some(namespace));
    let selection = selection.fields(format!("metadata.name={PLATFORM_CONFIG_MAP}"));
    let mut events = longboat_watch::decoded::<ConfigMap>(&client, &selection);
    while let Some(Some(event)) = shutdown.run_until_cancelled(events.next()).await {
        match event {
            Ok(Event::Apply(settings) | Event::InitApply(settings)) => {
                // The controller reports settings that cannot be read.
                let platform = Platform::parse(&settings.data.unwrap_or_default(), namespace);
                if platform.is_ok_and(|platform| platform.shared_picker) {
                    install(&client, &shutdown).await;
                    return;
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), "The watch of the platform's settings is interrupted.");
            }
        }
    }
}

/// Installs the picker. A server that refuses an object now may take it later, so this tries again until `shutdown`.
async fn install(client: &Client, shutdown: &CancellationToken) {
    let values = Values { shared_picker: SharedPicker { enabled: true, replicas: 1 }, ..Values::default() };
    let objects = match picker::objects(DEFAULT_SYSTEM_NAMESPACE, &values) {
        Ok(objects) => objects,
        Err(error) => return tracing::error!(%error, "Cannot read the objects of the shared picker."),
    };
    for object in objects {
        while let Err(error) = apply::one(client, Owner::Up, None, object.clone()).await {
            tracing::error!(%error, "Cannot install the shared picker. Longboat tries again.");
            if shutdown.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await.is_none() {
                return;
            }
        }
    }
}
