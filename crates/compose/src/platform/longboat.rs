//! Settings that only Longboat has: key `longboat`, which the reference ignores.

use std::collections::BTreeMap;

use longboat_api::{proof::ProofMode, shared_picker::SHARED};
use longboat_key::names::{is_label, is_subdomain};
use serde::Deserialize;

use super::{
    Platform,
    section::{LONGBOAT, PlatformError, section},
};

/// The image under which this build is published. An installation may have another.
pub const IMAGE: &str = concat!("ghcr.io/longboat/longboat:v", env!("CARGO_PKG_VERSION"));

/// Which images are used for the roles of Longboat: `image` of the key `longboat`. The roles are the picker and the routing
/// sidecar of the presets, and the storage initializer if the platform names no image for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Images {
    /// The images of the reference, as the presets name them.
    Reference,
    /// The image of Longboat: that of the controller, unless the settings name another.
    Ours(String),
}

impl Default for Images {
    fn default() -> Self {
        Self::Ours(IMAGE.to_owned())
    }
}

impl Images {
    /// Whether this is the image of Longboat.
    pub fn are_ours(&self, image: &str) -> bool {
        matches!(self, Self::Ours(ours) if ours == image)
    }
}

/// The Pod Security profile that pods follow: `podSecurity` of the key `longboat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodSecurity {
    /// The security contexts that presets and users set. Presets for groups of pods add capabilities for RDMA, and the
    /// tokenizer runs as root.
    #[default]
    AsGiven,
    /// The profile "restricted" for all containers, which rules out RDMA.
    Restricted,
}

/// Whether test requests prove that services serve: `servingProof` and `servingProofCA` of the key `longboat`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServingProof {
    /// The mode of services that do not set one themselves.
    pub mode: ProofMode,
    /// ConfigMap of the system namespace with CA certificates of the gateways, in addition to those that the controller's
    /// environment trusts. Empty for none.
    pub ca_config_map: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct RawLongboat {
    image: String,
    pod_security: String,
    disruption_budgets: bool,
    picker_clients: Vec<String>,
    picker: String,
    kv_pairing: bool,
    serving_proof: String,
    #[serde(rename = "servingProofCA")]
    serving_proof_ca: String,
    download_progress_port: Option<u16>,
}

/// Reads the key; what other keys set has its default. `own` is the image of the controller.
pub(super) fn read(data: &BTreeMap<String, String>, own: Option<&str>) -> Result<Platform, PlatformError> {
    let raw: RawLongboat = section(data, "longboat")?.unwrap_or_default();
    Ok(Platform {
        images: images(&raw, own)?,
        controller_image: own.map(str::to_owned),
        pod_security: pod_security(&raw)?,
        disruption_budgets: raw.disruption_budgets,
        picker_clients: picker_clients(&raw)?,
        shared_picker: shared_picker(&raw)?,
        serving_proof: serving_proof(&raw)?,
        download_progress_port: download_progress_port(&raw)?,
        kv_pairing: raw.kv_pairing,
        ..Platform::default()
    })
}

fn invalid(problem: String) -> PlatformError {
    PlatformError::Invalid { target: LONGBOAT, problem }
}

/// The value that stands for the images of the reference.
const REFERENCE: &str = "reference";

fn images(raw: &RawLongboat, own: Option<&str>) -> Result<Images, PlatformError> {
    match raw.image.as_str() {
        "" => Ok(own.map_or_else(Images::default, |own| Images::Ours(own.to_owned()))),
        REFERENCE => Ok(Images::Reference),
        image if image.contains(char::is_whitespace) => Err(invalid(format!(
            "\"longboat\".\"image\" is {image:?}: expected an image, or \"{REFERENCE}\" for the images of \
             KServe and llm-d"
        ))),
        image => Ok(Images::Ours(image.to_owned())),
    }
}

/// The value that brings all pods to the profile of that name.
const RESTRICTED: &str = "restricted";

fn pod_security(raw: &RawLongboat) -> Result<PodSecurity, PlatformError> {
    match raw.pod_security.as_str() {
        "" => Ok(PodSecurity::AsGiven),
        RESTRICTED => Ok(PodSecurity::Restricted),
        other => Err(invalid(format!(
            "\"longboat\".\"podSecurity\" is \"{other}\": expected \"{RESTRICTED}\", or an empty string to \
             leave pods unchanged"
        ))),
    }
}

fn picker_clients(raw: &RawLongboat) -> Result<Vec<String>, PlatformError> {
    match raw.picker_clients.iter().find(|namespace| !is_label(namespace)) {
        Some(namespace) => Err(invalid(format!(
            "\"longboat\".\"pickerClients\" has \"{namespace}\": expected names of namespaces"
        ))),
        None => Ok(raw.picker_clients.clone()),
    }
}

fn shared_picker(raw: &RawLongboat) -> Result<bool, PlatformError> {
    match raw.picker.as_str() {
        "" => return Ok(false),
        SHARED => {}
        other => {
            return Err(invalid(format!(
                "\"longboat\".\"picker\" is \"{other}\": expected \"{SHARED}\", or an empty string for a picker of each service"
            )));
        }
    }
    if images(raw, None)? == Images::Reference {
        return Err(invalid(format!(
            "\"longboat\".\"picker\" is \"{SHARED}\" and \"longboat\".\"image\" is \"{REFERENCE}\": only Longboat's picker can \
             be shared, so set an image of Longboat"
        )));
    }
    Ok(true)
}

fn serving_proof(raw: &RawLongboat) -> Result<ServingProof, PlatformError> {
    let mode = match raw.serving_proof.as_str() {
        "" => ProofMode::Off,
        word => ProofMode::parse(word)
            .map_err(|unknown| invalid(format!("\"longboat\".\"servingProof\": {unknown}")))?,
    };
    let ca = raw.serving_proof_ca.clone();
    if !ca.is_empty() && !is_subdomain(&ca) {
        return Err(invalid(format!(
            "\"longboat\".\"servingProofCA\" is \"{ca}\": expected the name of a ConfigMap in the namespace of the platform"
        )));
    }
    Ok(ServingProof { mode, ca_config_map: ca })
}

fn download_progress_port(raw: &RawLongboat) -> Result<Option<u16>, PlatformError> {
    match raw.download_progress_port {
        // The other ports below 1024 are privileged: a container without capabilities cannot listen on them.
        Some(port @ 0..1024) => Err(invalid(format!(
            "\"longboat\".\"downloadProgressPort\" is {port}: expected a port from 1024, or no value to \
             turn progress reports off"
        ))),
        port => Ok(port),
    }
}
