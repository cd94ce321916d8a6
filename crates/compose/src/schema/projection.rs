//! Go types: volumes that present other objects as files.

use longboat_template::reflect::Ty::{Bool, Int, Ptr, Slice, Str, Struct};

use super::{inlined, opt, req, structure};

structure!(
    SECRET_VOLUME_SOURCE,
    "v1.SecretVolumeSource",
    [
        opt!("secretName", "SecretName", Str("string")),
        opt!("items", "Items", Slice("", &Struct(&KEY_TO_PATH))),
        opt!("defaultMode", "DefaultMode", Ptr(&Int("int32"))),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    CONFIG_MAP_VOLUME_SOURCE,
    "v1.ConfigMapVolumeSource",
    [
        inlined!("LocalObjectReference", Struct(&super::volume::LOCAL_OBJECT_REFERENCE)),
        opt!("items", "Items", Slice("", &Struct(&KEY_TO_PATH))),
        opt!("defaultMode", "DefaultMode", Ptr(&Int("int32"))),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    DOWNWARD_API_VOLUME_SOURCE,
    "v1.DownwardAPIVolumeSource",
    [
        opt!("items", "Items", Slice("", &Struct(&DOWNWARD_API_VOLUME_FILE))),
        opt!("defaultMode", "DefaultMode", Ptr(&Int("int32"))),
    ]
);

structure!(
    PROJECTED_VOLUME_SOURCE,
    "v1.ProjectedVolumeSource",
    [
        req!("sources", "Sources", Slice("", &Struct(&VOLUME_PROJECTION))),
        opt!("defaultMode", "DefaultMode", Ptr(&Int("int32"))),
    ]
);

structure!(
    VOLUME_PROJECTION,
    "v1.VolumeProjection",
    [
        opt!("secret", "Secret", Ptr(&Struct(&SECRET_PROJECTION))),
        opt!("downwardAPI", "DownwardAPI", Ptr(&Struct(&DOWNWARD_API_PROJECTION))),
        opt!("configMap", "ConfigMap", Ptr(&Struct(&CONFIG_MAP_PROJECTION))),
        opt!("serviceAccountToken", "ServiceAccountToken", Ptr(&Struct(&SERVICE_ACCOUNT_TOKEN_PROJECTION))),
        opt!("clusterTrustBundle", "ClusterTrustBundle", Ptr(&Struct(&CLUSTER_TRUST_BUNDLE_PROJECTION))),
        opt!("podCertificate", "PodCertificate", Ptr(&Struct(&super::pod::POD_CERTIFICATE_PROJECTION))),
    ]
);

structure!(
    SECRET_PROJECTION,
    "v1.SecretProjection",
    [
        inlined!("LocalObjectReference", Struct(&super::volume::LOCAL_OBJECT_REFERENCE)),
        opt!("items", "Items", Slice("", &Struct(&KEY_TO_PATH))),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    CONFIG_MAP_PROJECTION,
    "v1.ConfigMapProjection",
    [
        inlined!("LocalObjectReference", Struct(&super::volume::LOCAL_OBJECT_REFERENCE)),
        opt!("items", "Items", Slice("", &Struct(&KEY_TO_PATH))),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    DOWNWARD_API_PROJECTION,
    "v1.DownwardAPIProjection",
    [opt!("items", "Items", Slice("", &Struct(&DOWNWARD_API_VOLUME_FILE))),]
);

structure!(
    SERVICE_ACCOUNT_TOKEN_PROJECTION,
    "v1.ServiceAccountTokenProjection",
    [
        opt!("audience", "Audience", Str("string")),
        opt!("expirationSeconds", "ExpirationSeconds", Ptr(&Int("int64"))),
        req!("path", "Path", Str("string")),
    ]
);

structure!(
    CLUSTER_TRUST_BUNDLE_PROJECTION,
    "v1.ClusterTrustBundleProjection",
    [
        opt!("name", "Name", Ptr(&Str("string"))),
        opt!("signerName", "SignerName", Ptr(&Str("string"))),
        opt!("labelSelector", "LabelSelector", Ptr(&Struct(&super::meta::LABEL_SELECTOR))),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
        req!("path", "Path", Str("string")),
    ]
);

structure!(
    KEY_TO_PATH,
    "v1.KeyToPath",
    [
        req!("key", "Key", Str("string")),
        req!("path", "Path", Str("string")),
        opt!("mode", "Mode", Ptr(&Int("int32"))),
    ]
);

structure!(
    DOWNWARD_API_VOLUME_FILE,
    "v1.DownwardAPIVolumeFile",
    [
        req!("path", "Path", Str("string")),
        opt!("fieldRef", "FieldRef", Ptr(&Struct(&super::volume::OBJECT_FIELD_SELECTOR))),
        opt!("resourceFieldRef", "ResourceFieldRef", Ptr(&Struct(&super::volume::RESOURCE_FIELD_SELECTOR))),
        opt!("mode", "Mode", Ptr(&Int("int32"))),
    ]
);
