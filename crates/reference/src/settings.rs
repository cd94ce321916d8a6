//! The page of the platform's settings. The types that parse the settings determine the keys.

use std::fmt::Write as _;

use crate::{NOTE, cell, differences, source};

/// Structs that read the ConfigMap, and the path of their fields.
const STRUCTS: [(&str, &str); 10] = [
    ("RawIngress", "ingress"),
    ("RawStorage", "storageInitializer"),
    ("Credentials", "credentials"),
    ("GcsCredentials", "credentials.gcs"),
    ("S3Credentials", "credentials.s3"),
    ("RawScheduler", "scheduler"),
    ("Autoscaling", "autoscaling-wva-controller-config"),
    ("Prometheus", "autoscaling-wva-controller-config.prometheus"),
    ("RawLocalModel", "localModel"),
    ("RawLongboat", "longboat"),
];

/// Fields that hold a struct with a section of its own.
const SECTIONS: [&str; 3] =
    ["credentials.gcs", "credentials.s3", "autoscaling-wva-controller-config.prometheus"];

const SENTENCES: &[(&str, &str)] = &[
    ("ingress.kserveIngressGateway", "`NAMESPACE/NAME` of the Gateway that routes attach to."),
    (
        "ingress.ingressGateway",
        "Required if the key `ingress` exists. Not used: other controllers of KServe read it.",
    ),
    ("ingress.ingressDomain", "Required if `pathTemplate` is set. Not used otherwise."),
    ("ingress.pathTemplate", "Not used. If set, `ingressDomain` is required."),
    (
        "ingress.enableGatewayApi",
        "If true, `kserveIngressGateway` must have the form `NAMESPACE/NAME`. Default `false`.",
    ),
    ("ingress.urlScheme", "Scheme of addresses if the Gateway does not determine it. Default `http`."),
    (
        "ingress.enableLLMInferenceServiceTLS",
        "Whether model servers and pickers use TLS, with certificates from the controller. Default `false`.",
    ),
    (
        "ingress.modelBasedRoutingHeaderName",
        "Name of the header that selects a model. Default `X-Gateway-Model-Name`.",
    ),
    (
        "ingress.modelBasedRoutingMode",
        "Whether routes match this header: `Enabled` (default) unless a Gateway opts out, `Forced` always, `Disabled` never. Only services with the annotation `serving.kserve.io/model-based-routing-enabled` are concerned.",
    ),
    (
        "ingress.loraModelRoutingStrategy",
        "How routes match the names of LoRA adapters in this header: `exact` (default) has one match for each, so at most 7 adapters fit into the route of the presets; `regex` has one regular expression for all. Services can override it with `spec.annotations[serving.kserve.io/lora-model-routing-strategy]`.",
    ),
    (
        "storageInitializer.image",
        "Image of the init container that downloads models. Default: the image of this build.",
    ),
    ("storageInitializer.cpuRequest", "CPU request of the init container, a quantity. Required."),
    ("storageInitializer.cpuLimit", "CPU limit of the init container, a quantity. Required."),
    ("storageInitializer.memoryRequest", "Memory request of the init container, a quantity. Required."),
    (
        "storageInitializer.memoryLimit",
        "Memory limit of the init container, a quantity. Default: `100Mi` for the image of this build and `1Gi` for other images, but at least the memory request.",
    ),
    ("storageInitializer.caBundleConfigMapName", "ConfigMap with the CA certificates of model stores."),
    ("storageInitializer.caBundleVolumeMountPath", "Folder into which this ConfigMap is mounted."),
    (
        "storageInitializer.enableModelcar",
        "Whether the image of an `oci://` model runs as a container beside the model server. Default `false`.",
    ),
    ("storageInitializer.enableOciModelSupport", "Other name of `enableModelcar`."),
    (
        "storageInitializer.ociModelMode",
        "How `oci://` models reach the model server: `modelcar` (a container beside it), `native` (an image volume) or `fetch` (a download). Overrides the two settings above.",
    ),
    ("storageInitializer.cpuModelcar", "CPU of the `modelcar` container, a quantity. Default `10m`."),
    ("storageInitializer.memoryModelcar", "Memory of the `modelcar` container, a quantity. Default `15Mi`."),
    ("storageInitializer.uidModelcar", "User ID of the `modelcar` container."),
    ("storageInitializer.ociInsecureRegistry", "Registries that are reached without TLS."),
    ("credentials.storageSpecSecretName", "Name of the Secret with storage specs."),
    ("credentials.storageSecretNameAnnotation", "Annotation in which a service names its Secret."),
    ("credentials.gcs.gcsCredentialFileName", "Key of the Google Cloud credentials in a Secret."),
    ("credentials.s3.s3AccessKeyIDName", "Key of the access key ID in a Secret."),
    ("credentials.s3.s3SecretAccessKeyName", "Key of the secret access key in a Secret."),
    ("credentials.s3.s3Endpoint", "Endpoint of the S3 store."),
    ("credentials.s3.s3UseHttps", "`0` uses plain HTTP."),
    ("credentials.s3.s3Region", "Region of the S3 store."),
    ("credentials.s3.s3VerifySSL", "`0` accepts any certificate."),
    (
        "credentials.s3.s3UseVirtualBucket",
        "Whether the host name contains the bucket (virtual-hosted addressing).",
    ),
    ("credentials.s3.s3UseAccelerate", "Whether to use S3 transfer acceleration."),
    ("credentials.s3.s3UseAnonymousCredential", "Whether to send requests without a signature."),
    ("credentials.s3.s3CABundleConfigMap", "ConfigMap with the CA certificates of the store."),
    ("credentials.s3.s3CABundle", "File with the CA certificates of the store."),
    (
        "scheduler.expirationAnnotations",
        "Annotations for the time at which a certificate is replaced. The first is written, all are read. Default `certificates.kserve.io/expiration`.",
    ),
    ("autoscaling-wva-controller-config.prometheus.url", "URL of Prometheus for the triggers of KEDA."),
    (
        "autoscaling-wva-controller-config.prometheus.tlsInsecureSkipVerify",
        "Whether to accept any certificate. Default `false`.",
    ),
    (
        "autoscaling-wva-controller-config.prometheus.authModes",
        "Authentication modes, as in a trigger of KEDA.",
    ),
    (
        "autoscaling-wva-controller-config.prometheus.triggerAuthName",
        "Name of the authentication object of KEDA.",
    ),
    (
        "autoscaling-wva-controller-config.prometheus.triggerAuthKind",
        "Kind of the authentication object of KEDA.",
    ),
    ("localModel.enabled", "Whether services use model caches on nodes. Default `false`."),
    (
        "longboat.image",
        "Image of the picker, the routing sidecar and the storage initializer. `reference` selects the images of KServe and llm-d. Default: the image of this build.",
    ),
    (
        "longboat.disruptionBudgets",
        "Whether each workload with several replicas gets a PodDisruptionBudget, which allows the eviction of one pod at a time. Groups of pods get none. Default `false`.",
    ),
    (
        "longboat.pickerClients",
        "List of namespaces whose pods may call the pickers' ext_proc port, usually those of your gateways. Each picker then gets a NetworkPolicy, which takes effect if the network of the cluster enforces policies. Empty (default): everybody may.",
    ),
    (
        "longboat.kvPairing",
        "Whether prefill and decode pods of different revisions are kept apart. The controller labels them with a hash of the settings that both must share to exchange KV cache, and the picker pairs only pods with equal labels. Default `false`. The annotation `longboat.dev/kv-pairing` overrides it for a service. Turning it on restarts the pods of services with separate prefill.",
    ),
    (
        "longboat.servingProof",
        "Whether a test request proves that services serve: `off` (default) sends no request, `report` reports the result in conditions, `gate` also makes `Ready` depend on it. The annotation `longboat.dev/serving-proof` overrides it for a service.",
    ),
    (
        "longboat.servingProofCA",
        "ConfigMap in the namespace of the platform with the CA certificates of Gateways, for the test request.",
    ),
    (
        "longboat.downloadProgressPort",
        "Port, from 1024, at which storage initializers report the progress of a download. The controller shows the progress in the condition `ModelFetched`. Applies to new workloads, and needs the image of this build. Default: none, progress is not reported.",
    ),
    (
        "longboat.podSecurity",
        "`restricted` makes all pods follow this Pod Security profile, which rules out RDMA. Default: pods keep the settings of presets and services.",
    ),
];

/// Paths of all fields, with their types.
fn paths(text: &str) -> Vec<(String, String)> {
    let fields = STRUCTS.iter().flat_map(|(name, path)| {
        source::fields(text, name).into_iter().map(move |item| (format!("{path}.{}", item.name), item.kind))
    });
    fields.filter(|(path, _)| !SECTIONS.contains(&path.as_str())).collect()
}

/// Makes the page from the source of the types.
pub(crate) fn page(text: &str) -> String {
    let mut page = format!(
        "# Settings\n\n{NOTE}\n\nThe settings of the platform are in the ConfigMap `inferenceservice-config` in the namespace of the platform \
         (`kserve`). Each key holds a JSON object. `longboat install` and the Helm chart write the ConfigMap from \
         `platform.settings`. A change reaches all services without a restart of the controller.\n"
    );
    let mut section = "";
    let paths = paths(text);
    for (path, kind) in &paths {
        let key = path.split('.').next().unwrap_or_default();
        if key != section {
            let _ = write!(page, "\n## {key}\n\n| field | type | effect |\n|---|---|---|\n");
            section = key;
        }
        let field = path.strip_prefix(&format!("{key}.")).unwrap_or(path);
        let effect = SENTENCES.iter().find(|(name, _)| name == path).map_or("", |(_, effect)| effect);
        let _ = writeln!(page, "| `{field}` | {} | {} |", kind_of(kind), cell(effect));
    }
    page
}

/// Fields without a sentence, sentences without a field, and structs that are not known here.
pub(crate) fn gaps(text: &str) -> Vec<String> {
    let paths = paths(text);
    let known = paths.iter().map(|(path, _)| path.as_str());
    let mut gaps = differences("setting", known, SENTENCES.iter().map(|(path, _)| *path));
    let readers = text.split("Deserialize)]\n").skip(1).filter_map(|rest| {
        let (_, rest) = rest.split_once("struct ")?;
        rest.split_once(' ').map(|(name, _)| name)
    });
    gaps.extend(differences("struct", readers, STRUCTS.iter().map(|(name, _)| *name)));
    gaps
}

fn kind_of(rust: &str) -> &'static str {
    match rust {
        "String" => "string",
        "bool" => "boolean",
        "Option<i64>" | "Option<u16>" => "integer",
        "Vec<String>" => "list of string",
        _ => "any",
    }
}
