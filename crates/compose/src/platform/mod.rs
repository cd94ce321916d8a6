//! The platform's settings: ConfigMap `inferenceservice-config`.

mod longboat;
mod section;
mod spelling;

use std::collections::BTreeMap;

use longboat_api::{annotations::CERTIFICATE_EXPIRATION, engine::Engine, lora_routing::LoRaRoutingStrategy};
use longboat_key::{Key, Name, Namespace, names::is_label};
use longboat_quantity::{PATTERN_MISMATCH, Quantity};
use serde::Deserialize;
use serde_json::{Value, json};

pub use longboat::{IMAGE, Images, PodSecurity, ServingProof};
pub use section::PlatformError;
use section::section;
pub use spelling::{MisspeltKey, misspelt_keys};

/// The platform of a new installation, as YAML: its namespace, its settings and its default Gateway. Local mode and commands without a
/// cluster have the same.
pub const OBJECTS: &str = include_str!("objects.yaml");

/// The parsed settings. `Default` is what an empty ConfigMap would mean if its quantities were set.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Platform {
    /// Gateways and URLs.
    pub ingress: Ingress,
    /// How models are fetched.
    pub storage: StorageInitializer,
    /// Where credentials are.
    pub credentials: Credentials,
    /// Annotations for the time at which a certificate is replaced. The first is written, all are read.
    pub expiration_annotations: Vec<String>,
    /// Prometheus for autoscaling. `None` if the key is absent.
    pub autoscaling: Option<Autoscaling>,
    /// Whether models are cached on nodes.
    pub local_model: bool,
    /// The image of the controller, if it is known.
    pub controller_image: Option<String>,
    /// Which images the presets use for the roles of Longboat.
    pub images: Images,
    /// The Pod Security profile that pods follow.
    pub pod_security: PodSecurity,
    /// Whether workloads of several replicas get a PodDisruptionBudget: `disruptionBudgets` of the key `longboat`.
    pub disruption_budgets: bool,
    /// The namespaces whose pods may call pickers: `pickerClients` of the key `longboat`. Empty if everybody may.
    pub picker_clients: Vec<String>,
    /// Whether the picker that pools share picks for services: `picker` of the key `longboat`.
    pub shared_picker: bool,
    /// Whether test requests prove that services serve.
    pub serving_proof: ServingProof,
    /// The port at which init containers report the progress of a download: `downloadProgressPort` of the key `longboat`.
    /// `None` if the controller does not ask for it.
    pub download_progress_port: Option<u16>,
    /// Whether prefill and decode pods of different revisions are kept apart: `kvPairing` of the key `longboat`.
    pub kv_pairing: bool,
}

/// Gateways and URLs: key `ingress`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// The default gateway.
    pub gateway: Key,
    /// Scheme of URLs if the gateway does not determine it.
    pub url_scheme: String,
    /// Whether servers and pickers use TLS.
    pub enable_tls: bool,
    /// Header by which requests select a model.
    pub model_header: String,
    /// Whether routes match the model header.
    pub model_routing: ModelRouting,
    /// How routes match the names of LoRA adapters.
    pub lora_routing: LoRaRoutingStrategy,
}

/// Whether routes match requests by model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelRouting {
    /// Routes match by model unless a service opts out.
    #[default]
    Enabled,
    /// Routes always match by model.
    Forced,
    /// Routes never match by model.
    Disabled,
}

/// How models are fetched: key `storageInitializer`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageInitializer {
    /// Image of the init container: the configured image, or else the image that [`Images`] selects.
    pub image: String,
    /// Whether the image is Longboat's, which has other entry points than the reference's and needs less memory.
    pub ours: bool,
    /// Its CPU request.
    pub cpu_request: String,
    /// Its CPU limit.
    pub cpu_limit: String,
    /// Its memory request.
    pub memory_request: String,
    /// Its memory limit.
    pub memory_limit: String,
    /// ConfigMap with the CA bundle of stores; empty for none.
    pub ca_bundle_config_map: String,
    /// Where that bundle is mounted.
    pub ca_bundle_mount_path: String,
    /// How `oci://` models reach the model server. `None` if they are refused.
    pub oci_mode: Option<OciMode>,
    /// CPU of a model container. `None` means the reference's default, 10m.
    pub modelcar_cpu: Option<String>,
    /// Memory of a model container. `None` means the reference's default, 15Mi.
    pub modelcar_memory: Option<String>,
    /// User of a model container.
    pub modelcar_uid: Option<i64>,
    /// Registries that are reached without TLS, as configured.
    pub oci_insecure_registry: Option<Value>,
}

/// How `oci://` models reach the model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OciMode {
    /// A container beside the server that holds the files.
    Modelcar,
    /// An image volume.
    Native,
}

/// Where credentials are: key `credentials`. Empty strings mean unset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Credentials {
    /// Secret with storage specs.
    pub storage_spec_secret_name: String,
    /// Annotation by which a service names its secret.
    pub storage_secret_name_annotation: String,
    /// Google Cloud.
    pub gcs: GcsCredentials,
    /// S3.
    pub s3: S3Credentials,
}

/// Google Cloud credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GcsCredentials {
    /// Key of the credentials file in secrets.
    pub gcs_credential_file_name: String,
}

/// S3 credentials and endpoint defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct S3Credentials {
    /// Key of the access key's id in secrets.
    #[serde(rename = "s3AccessKeyIDName")]
    pub s3_access_key_id_name: String,
    /// Key of the secret access key in secrets.
    pub s3_secret_access_key_name: String,
    /// Endpoint.
    pub s3_endpoint: String,
    /// `0` for plain HTTP.
    pub s3_use_https: String,
    /// Region.
    pub s3_region: String,
    /// `0` to accept any certificate.
    #[serde(rename = "s3VerifySSL")]
    pub s3_verify_ssl: String,
    /// Whether host names contain the bucket.
    pub s3_use_virtual_bucket: String,
    /// Whether to use transfer acceleration.
    pub s3_use_accelerate: String,
    /// Whether requests are unsigned.
    pub s3_use_anonymous_credential: String,
    /// ConfigMap with the store's CA bundle.
    #[serde(rename = "s3CABundleConfigMap")]
    pub s3_ca_bundle_config_map: String,
    /// File of the store's CA bundle.
    #[serde(rename = "s3CABundle")]
    pub s3_ca_bundle: String,
}

/// Prometheus for autoscaling: key `autoscaling-wva-controller-config`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Autoscaling {
    /// Connection to Prometheus.
    pub prometheus: Prometheus,
}

/// Connection to Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Prometheus {
    /// Its URL.
    pub url: String,
    /// Whether to accept any certificate.
    pub tls_insecure_skip_verify: bool,
    /// Authentication modes of the trigger.
    pub auth_modes: String,
    /// Name of the KEDA authentication object.
    pub trigger_auth_name: String,
    /// Its kind.
    pub trigger_auth_kind: String,
}

impl Default for Ingress {
    fn default() -> Self {
        Self {
            gateway: Key::default(),
            url_scheme: "http".to_owned(),
            enable_tls: false,
            model_header: "X-Gateway-Model-Name".to_owned(),
            model_routing: ModelRouting::default(),
            lora_routing: LoRaRoutingStrategy::default(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawIngress {
    kserve_ingress_gateway: String,
    ingress_gateway: String,
    ingress_domain: String,
    path_template: String,
    enable_gateway_api: bool,
    url_scheme: String,
    #[serde(rename = "enableLLMInferenceServiceTLS")]
    enable_tls: bool,
    model_based_routing_header_name: String,
    model_based_routing_mode: String,
    lora_model_routing_strategy: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStorage {
    image: String,
    cpu_request: String,
    cpu_limit: String,
    memory_request: String,
    memory_limit: String,
    ca_bundle_config_map_name: String,
    ca_bundle_volume_mount_path: String,
    enable_modelcar: bool,
    enable_oci_model_support: bool,
    oci_model_mode: String,
    cpu_modelcar: String,
    memory_modelcar: String,
    uid_modelcar: Option<i64>,
    oci_insecure_registry: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawScheduler {
    expiration_annotations: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawLocalModel {
    enabled: bool,
}

/// The reference's image of the init container.
const REFERENCE_INITIALIZER: &str = "kserve/storage-initializer:latest";
/// The default memory limit of Longboat's init container, which holds no file in memory.
const OUR_MEMORY_LIMIT: &str = "100Mi";
/// The default memory limit of the reference's init container, which holds parts of files in memory.
const REFERENCE_MEMORY_LIMIT: &str = "1Gi";

impl Platform {
    /// Parses the data of the ConfigMap. `system_namespace` is the namespace of a gateway that is configured without one.
    pub fn parse(
        data: &BTreeMap<String, String>,
        system_namespace: Namespace<&str>,
    ) -> Result<Self, PlatformError> {
        Self::parse_for(data, system_namespace, None)
    }

    /// Like [`Self::parse`], for a controller with another image than [`IMAGE`]. Pickers, routing sidecars and downloads have the
    /// controller's image, unless the settings name another.
    pub fn parse_for(
        data: &BTreeMap<String, String>,
        system_namespace: Namespace<&str>,
        controller_image: Option<&str>,
    ) -> Result<Self, PlatformError> {
        let scheduler: RawScheduler = section(data, "scheduler")?.unwrap_or_default();
        let mut expiration_annotations = scheduler.expiration_annotations;
        if expiration_annotations.is_empty() {
            expiration_annotations.push(CERTIFICATE_EXPIRATION.to_owned());
        }
        let local: RawLocalModel = section(data, "localModel")?.unwrap_or_default();
        let own = longboat::read(data, controller_image)?;
        Ok(Self {
            ingress: ingress(data, system_namespace)?,
            storage: storage(data, &own.images)?,
            credentials: section(data, "credentials")?.unwrap_or_default(),
            expiration_annotations,
            autoscaling: section(data, "autoscaling-wva-controller-config")?,
            local_model: local.enabled,
            ..own
        })
    }

    /// Returns the settings that templates can use, under their Go names. `engine` says whether TLS is possible.
    pub(crate) fn template_globals(
        &self,
        engine: &Engine,
        system_namespace: Namespace<&str>,
        namespace: Namespace<&str>,
        pool: &str,
    ) -> Value {
        json!({
            "SystemNamespace": *system_namespace,
            "IngressGatewayName": *self.ingress.gateway.name,
            "IngressGatewayNamespace": *self.ingress.gateway.namespace,
            "EnableTLS": self.ingress.enable_tls && engine.tls,
            "ModelBasedRoutingHeaderName": self.ingress.model_header,
            "InferencePoolNamespacedName": format!("{namespace}/{pool}"),
            "Image": match &self.images {
                Images::Ours(image) => image.as_str(),
                Images::Reference => "",
            },
        })
    }
}

/// Parses a quantity into billionths.
fn amount(text: &str) -> Option<i128> {
    Some(Quantity::parse(text.trim())?.nano())
}

fn ingress(
    data: &BTreeMap<String, String>,
    system_namespace: Namespace<&str>,
) -> Result<Ingress, PlatformError> {
    let target = "IngressConfig";
    let invalid = |problem: &str| PlatformError::Invalid { target, problem: problem.to_owned() };
    let Some(raw) = section::<RawIngress>(data, "ingress")? else {
        return Ok(Ingress { gateway: Key::new(system_namespace, Name("")), ..Ingress::default() });
    };
    if raw.ingress_gateway.is_empty() {
        return Err(invalid("invalid ingress config - ingressGateway is required"));
    }
    // Without the Gateway API the reference does not check the form, so a gateway without a namespace is possible.
    let parts: Vec<&str> = raw.kserve_ingress_gateway.split('/').collect();
    if raw.enable_gateway_api && !matches!(parts[..], [ns, name] if is_label(ns) && is_label(name)) {
        return Err(invalid(
            "invalid ingress config - kserveIngressGateway should be in the format <namespace>/<name>",
        ));
    }
    if !raw.path_template.is_empty() && raw.ingress_domain.is_empty() {
        return Err(invalid("invalid ingress config - ingressDomain is required if pathTemplate is given"));
    }
    let gateway = match parts[..] {
        [namespace, name] => Key::new(Namespace(namespace), Name(name)),
        // A value without exactly two parts is a name in the controller's namespace.
        _ => Key::new(system_namespace, Name(&raw.kserve_ingress_gateway)),
    };
    let lora_routing = LoRaRoutingStrategy::of_setting(&raw.lora_model_routing_strategy)
        .map_err(|error| invalid(&format!("invalid ingress config - {error}")))?;
    let fallback = Ingress::default();
    let or = |given: String, fallback: String| if given.is_empty() { fallback } else { given };
    Ok(Ingress {
        gateway,
        url_scheme: or(raw.url_scheme, fallback.url_scheme),
        enable_tls: raw.enable_tls,
        model_header: or(raw.model_based_routing_header_name, fallback.model_header),
        model_routing: match raw.model_based_routing_mode.to_ascii_lowercase().as_str() {
            "forced" => ModelRouting::Forced,
            "disabled" => ModelRouting::Disabled,
            _ => ModelRouting::Enabled,
        },
        lora_routing,
    })
}

fn storage(data: &BTreeMap<String, String>, images: &Images) -> Result<StorageInitializer, PlatformError> {
    const KEY: &str = "storageInitializer";
    let target = "StorageInitializerConfig";
    let invalid = |problem: String| PlatformError::Invalid { target, problem };
    let mut raw: RawStorage = section(data, KEY)?.unwrap_or_default();
    let (image, ours) = match images {
        _ if !raw.image.is_empty() => (raw.image, false),
        Images::Ours(image) => (image.clone(), true),
        Images::Reference => (REFERENCE_INITIALIZER.to_owned(), false),
    };
    if raw.memory_limit.is_empty() && !raw.memory_request.is_empty() {
        let limit = if ours { OUR_MEMORY_LIMIT } else { REFERENCE_MEMORY_LIMIT };
        // A limit below the request would be refused.
        let needs_more = amount(&raw.memory_request) > amount(limit);
        let limit = if needs_more { raw.memory_request.clone() } else { limit.to_owned() };
        raw.memory_limit = limit;
    }
    let required = [
        ("memoryRequest", &raw.memory_request),
        ("memoryLimit", &raw.memory_limit),
        ("cpuRequest", &raw.cpu_request),
        ("cpuLimit", &raw.cpu_limit),
    ];
    let optional = [("cpuModelcar", &raw.cpu_modelcar), ("memoryModelcar", &raw.memory_modelcar)];
    let given = optional.into_iter().filter(|(_, value)| !value.is_empty());
    for (field, value) in required.into_iter().chain(given) {
        if amount(value).is_none() {
            return Err(invalid(format!(
                "failed to parse resource configuration for \"{KEY}\".\"{field}\": {PATTERN_MISMATCH}"
            )));
        }
    }
    let oci_mode = match raw.oci_model_mode.as_str() {
        "" if raw.enable_modelcar || raw.enable_oci_model_support => Some(OciMode::Modelcar),
        "" => None,
        // The reference downloads images for other kinds than this one only.
        "modelcar" | "fetch" => Some(OciMode::Modelcar),
        "native" => Some(OciMode::Native),
        other => {
            return Err(invalid(format!(
                "invalid ociModelMode \"{other}\": must be one of \"modelcar\", \"native\", \"fetch\""
            )));
        }
    };
    let some = |text: String| Some(text).filter(|t| !t.is_empty());
    Ok(StorageInitializer {
        image,
        ours,
        cpu_request: raw.cpu_request,
        cpu_limit: raw.cpu_limit,
        memory_request: raw.memory_request,
        memory_limit: raw.memory_limit,
        ca_bundle_config_map: raw.ca_bundle_config_map_name,
        ca_bundle_mount_path: raw.ca_bundle_volume_mount_path,
        oci_mode,
        modelcar_cpu: some(raw.cpu_modelcar),
        modelcar_memory: some(raw.memory_modelcar),
        modelcar_uid: raw.uid_modelcar,
        oci_insecure_registry: raw.oci_insecure_registry,
    })
}
