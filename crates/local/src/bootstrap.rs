//! Installs what a cluster has before the first manifest: CRDs, the system namespace, platform settings, the default gateway
//! and the presets.

use std::net::SocketAddr;

use kube::Client;
use longboat_api::{groups, names::DEFAULT_SYSTEM_NAMESPACE};
use longboat_compose::{
    PresetNames,
    platform::{IMAGE, OBJECTS},
    presets::{self, BrokenPreset},
};
use longboat_key::Namespace;
use longboat_manifest::{self as manifest, ManifestError};
use serde_json::{Value, json};

use crate::apply::{self, ApplyError, Owner};

/// The setting with the address for KEDA's triggers. Nobody listens there: the node evaluates the queries itself.
const PROMETHEUS: &str = r#"{"prometheus": {"url": "http://prometheus.invalid"}}"#;
const CONTROLLER: &str = include_str!("objects/controller.yaml");

/// Why the initial objects cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The server refused an object.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The built-in platform manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A preset of this build is broken.
    #[error(transparent)]
    Preset(#[from] BrokenPreset),
    /// A preset cannot be serialized.
    #[error("cannot print a preset")]
    Print(#[from] serde_json::Error),
}

/// Installs all objects, or updates those in a kept state. `gateway` is the address of the gateway.
pub(crate) async fn install(client: &Client, gateway: SocketAddr) -> Result<(), BootstrapError> {
    let foreign = longboat_api::crd::foreign().into_iter().chain(longboat_api::crd::optional());
    let crds = longboat_api::crd::own().into_iter().chain(foreign).chain(longboat_api::crd::runtimes());
    for crd in crds.filter(|crd| crd["spec"]["group"] != groups::OLD_POOL) {
        apply::one(client, Owner::Up, None, crd).await?;
    }
    // With the kinds that pickers read, manifests with such objects can be applied.
    for definition in longboat_api::crd::pickers().into_iter().chain(longboat_api::crd::gateway_kinds()) {
        apply::one(client, Owner::Up, None, definition).await?;
    }
    let platform = manifest::parse("platform", OBJECTS)?.into_iter().map(|mut document| {
        if document.object["kind"] == "Gateway" {
            document.object["spec"]["listeners"][0]["port"] = Value::from(gateway.port());
            // Its own address would be another one.
            document.object["spec"]["addresses"] =
                json!([{"type": "IPAddress", "value": gateway.ip().to_string()}]);
        }
        if document.object["kind"] == "ConfigMap" {
            document.object["data"]["autoscaling-wva-controller-config"] = Value::from(PROMETHEUS);
        }
        document.object
    });
    let presets = presets::documents(&PresetNames::default(), Namespace(DEFAULT_SYSTEM_NAMESPACE))?;
    let runtimes = presets::runtimes()?;
    let runtimes = runtimes.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    let controller = manifest::parse("controller", CONTROLLER)?.into_iter().map(|mut document| {
        // Whoever reads the cluster takes this image for that of pickers and sidecars.
        document.object["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE.into();
        document.object
    });
    for object in platform.chain(controller).chain(runtimes).chain(presets) {
        apply::one(client, Owner::Up, None, object).await?;
    }
    Ok(())
}
