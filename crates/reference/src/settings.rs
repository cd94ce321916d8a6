//! The page of the platform's settings. Which keys there are, the types that read them say.

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
        "Required where the key is there, for the reference's other controllers. Not used otherwise.",
    ),
    ("ingress.ingressDomain", "Required where `pathTemplate` is set. Not used otherwise."),
    ("ingress.pathTemplate", "Not used, except that it needs `ingressDomain`."),
    ("ingress.enableGatewayApi", "`true`: `kserveIngressGateway` must have the form `NAMESPACE/NAME`."),
    ("ingress.urlScheme", "Scheme of addresses where the Gateway does not say. Default `http`."),
    (
        "ingress.enableLLMInferenceServiceTLS",
        "Servers and pickers use TLS with certificates of the controller. Default `false`.",
    ),
    (
        "ingress.modelBasedRoutingHeaderName",
        "Header by which a request names a model. Default `X-Gateway-Model-Name`.",
    ),
    (
        "ingress.modelBasedRoutingMode",
        "`Enabled` (default): routes match that header unless a service opts out. `Forced`: always. `Disabled`: never.",
    ),
    (
        "storageInitializer.image",
        "Image of the init container that downloads models. Default: that of this build.",
    ),
    ("storageInitializer.cpuRequest", "Its CPU request, a quantity. Required."),
    ("storageInitializer.cpuLimit", "Its CPU limit, a quantity. Required."),
    ("storageInitializer.memoryRequest", "Its memory request, a quantity. Required."),
    (
        "storageInitializer.memoryLimit",
        "Its memory limit. Default `100Mi` with the image of this build and `1Gi` with another, and not less than the request.",
    ),
    ("storageInitializer.caBundleConfigMapName", "ConfigMap with certificates that stores are verified by."),
    ("storageInitializer.caBundleVolumeMountPath", "Where it is mounted."),
    ("storageInitializer.enableModelcar", "`oci://` models run as a container beside the server."),
    ("storageInitializer.enableOciModelSupport", "The same under its other name."),
    (
        "storageInitializer.ociModelMode",
        "How `oci://` models get there: `modelcar`, `native` (an image volume) or `fetch` (downloaded). It wins over the two above.",
    ),
    ("storageInitializer.cpuModelcar", "CPU of the container beside the server. Default `10m`."),
    ("storageInitializer.memoryModelcar", "Its memory. Default `15Mi`."),
    ("storageInitializer.uidModelcar", "Its user."),
    ("storageInitializer.ociInsecureRegistry", "Registries that are spoken to without TLS."),
    ("credentials.storageSpecSecretName", "Secret with storage specs."),
    ("credentials.storageSecretNameAnnotation", "Annotation by which a service names its Secret."),
    ("credentials.gcs.gcsCredentialFileName", "Key of a Secret that holds Google's credentials."),
    ("credentials.s3.s3AccessKeyIDName", "Key of a Secret that holds the access key's id."),
    ("credentials.s3.s3SecretAccessKeyName", "Key of a Secret that holds the secret access key."),
    ("credentials.s3.s3Endpoint", "Address of the store."),
    ("credentials.s3.s3UseHttps", "`0`: plain HTTP."),
    ("credentials.s3.s3Region", "Region."),
    ("credentials.s3.s3VerifySSL", "`0`: accept any certificate."),
    ("credentials.s3.s3UseVirtualBucket", "Buckets as host names."),
    ("credentials.s3.s3UseAccelerate", "Transfer acceleration."),
    ("credentials.s3.s3UseAnonymousCredential", "Requests without a signature."),
    ("credentials.s3.s3CABundleConfigMap", "ConfigMap with certificates of the store."),
    ("credentials.s3.s3CABundle", "File with certificates of the store."),
    (
        "scheduler.expirationAnnotations",
        "Annotations that hold when a certificate expires: the first is written, all are read. Default `certificates.kserve.io/expiration`.",
    ),
    ("autoscaling-wva-controller-config.prometheus.url", "Address of Prometheus, for KEDA."),
    (
        "autoscaling-wva-controller-config.prometheus.tlsInsecureSkipVerify",
        "Accept any certificate. Default `false`.",
    ),
    ("autoscaling-wva-controller-config.prometheus.authModes", "How KEDA authenticates, as in its trigger."),
    ("autoscaling-wva-controller-config.prometheus.triggerAuthName", "Name of KEDA's authentication object."),
    ("autoscaling-wva-controller-config.prometheus.triggerAuthKind", "Its kind."),
    ("localModel.enabled", "Services use model caches on nodes. Default `false`."),
    (
        "longboat.image",
        "Image for the roles that this build plays: picker, routing sidecar, storage initializer. `reference`: the images of the reference. Default: the image of this build.",
    ),
    (
        "longboat.disruptionBudgets",
        "Whether each workload of several replicas gets a PodDisruptionBudget, by which at most one of its pods is evicted at a time. Groups of pods get none. Default `false`.",
    ),
    (
        "longboat.kvPairing",
        "Label the pods of services whose prefill is apart with a digest of what both must agree about to exchange KV cache, and pair equal ones only. Default `false`. A service may say otherwise by annotation. Switching it on rolls their pods.",
    ),
    (
        "longboat.servingProof",
        "Whether a request proves that services serve: `off` (default), `report` or `gate`. A service may say otherwise by annotation.",
    ),
    (
        "longboat.servingProofCA",
        "ConfigMap of the platform's namespace with certificates that Gateways are verified by, for that request.",
    ),
    (
        "longboat.downloadProgressPort",
        "Port, from 1024, at which storage initializers of new workloads tell how far they are; the controller asks and shows it in the condition `ModelFetched`. Needs the image of this build. Default: nobody is asked.",
    ),
    (
        "longboat.podSecurity",
        "`restricted`: bring all pods to that profile of Pod Security, at the price of RDMA. Default: as presets and services ask.",
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
        "# Settings\n\n{NOTE}\n\nThe settings of the platform are in ConfigMap `inferenceservice-config` of the platform's namespace \
         (`kserve`). Each key holds a JSON object. `longboat install` and the Helm chart write it from `platform.settings`. A \
         change reaches all services without a restart.\n"
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
