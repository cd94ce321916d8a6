//! Go types: Volumes and claims.

use longboat_template::reflect::Ty::{Bool, Int, Map, Ptr, Quantity, Slice, Str, Struct};

use super::{embed, inlined, opt, req, structure};

structure!(LOCAL_OBJECT_REFERENCE, "v1.LocalObjectReference", [opt!("name", "Name", Str("string")),]);

structure!(
    TYPED_LOCAL_OBJECT_REFERENCE,
    "v1.TypedLocalObjectReference",
    [
        req!("apiGroup", "APIGroup", Ptr(&Str("string"))),
        req!("kind", "Kind", Str("string")),
        req!("name", "Name", Str("string")),
    ]
);

structure!(
    VOLUME,
    "v1.Volume",
    [req!("name", "Name", Str("string")), inlined!("VolumeSource", Struct(&VOLUME_SOURCE)),]
);

structure!(
    VOLUME_SOURCE,
    "v1.VolumeSource",
    [
        opt!("hostPath", "HostPath", Ptr(&Struct(&HOST_PATH_VOLUME_SOURCE))),
        opt!("emptyDir", "EmptyDir", Ptr(&Struct(&EMPTY_DIR_VOLUME_SOURCE))),
        opt!("gcePersistentDisk", "GCEPersistentDisk", Ptr(&Struct(&GCE_PERSISTENT_DISK_VOLUME_SOURCE))),
        opt!(
            "awsElasticBlockStore",
            "AWSElasticBlockStore",
            Ptr(&Struct(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE))
        ),
        opt!("gitRepo", "GitRepo", Ptr(&Struct(&GIT_REPO_VOLUME_SOURCE))),
        opt!("secret", "Secret", Ptr(&Struct(&super::projection::SECRET_VOLUME_SOURCE))),
        opt!("nfs", "NFS", Ptr(&Struct(&NFS_VOLUME_SOURCE))),
        opt!("iscsi", "ISCSI", Ptr(&Struct(&ISCSI_VOLUME_SOURCE))),
        opt!("glusterfs", "Glusterfs", Ptr(&Struct(&GLUSTERFS_VOLUME_SOURCE))),
        opt!(
            "persistentVolumeClaim",
            "PersistentVolumeClaim",
            Ptr(&Struct(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE))
        ),
        opt!("rbd", "RBD", Ptr(&Struct(&RBD_VOLUME_SOURCE))),
        opt!("flexVolume", "FlexVolume", Ptr(&Struct(&FLEX_VOLUME_SOURCE))),
        opt!("cinder", "Cinder", Ptr(&Struct(&CINDER_VOLUME_SOURCE))),
        opt!("cephfs", "CephFS", Ptr(&Struct(&CEPH_FS_VOLUME_SOURCE))),
        opt!("flocker", "Flocker", Ptr(&Struct(&FLOCKER_VOLUME_SOURCE))),
        opt!("downwardAPI", "DownwardAPI", Ptr(&Struct(&super::projection::DOWNWARD_API_VOLUME_SOURCE))),
        opt!("fc", "FC", Ptr(&Struct(&FC_VOLUME_SOURCE))),
        opt!("azureFile", "AzureFile", Ptr(&Struct(&AZURE_FILE_VOLUME_SOURCE))),
        opt!("configMap", "ConfigMap", Ptr(&Struct(&super::projection::CONFIG_MAP_VOLUME_SOURCE))),
        opt!("vsphereVolume", "VsphereVolume", Ptr(&Struct(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE))),
        opt!("quobyte", "Quobyte", Ptr(&Struct(&QUOBYTE_VOLUME_SOURCE))),
        opt!("azureDisk", "AzureDisk", Ptr(&Struct(&AZURE_DISK_VOLUME_SOURCE))),
        opt!(
            "photonPersistentDisk",
            "PhotonPersistentDisk",
            Ptr(&Struct(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE))
        ),
        opt!("projected", "Projected", Ptr(&Struct(&super::projection::PROJECTED_VOLUME_SOURCE))),
        opt!("portworxVolume", "PortworxVolume", Ptr(&Struct(&PORTWORX_VOLUME_SOURCE))),
        opt!("scaleIO", "ScaleIO", Ptr(&Struct(&SCALE_IO_VOLUME_SOURCE))),
        opt!("storageos", "StorageOS", Ptr(&Struct(&STORAGE_OS_VOLUME_SOURCE))),
        opt!("csi", "CSI", Ptr(&Struct(&CSI_VOLUME_SOURCE))),
        opt!("ephemeral", "Ephemeral", Ptr(&Struct(&EPHEMERAL_VOLUME_SOURCE))),
        opt!("image", "Image", Ptr(&Struct(&IMAGE_VOLUME_SOURCE))),
    ]
);

structure!(
    CONFIG_MAP_KEY_SELECTOR,
    "v1.ConfigMapKeySelector",
    [
        inlined!("LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        req!("key", "Key", Str("string")),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    HOST_PATH_VOLUME_SOURCE,
    "v1.HostPathVolumeSource",
    [req!("path", "Path", Str("string")), opt!("type", "Type", Ptr(&Str("v1.HostPathType"))),]
);

structure!(
    EMPTY_DIR_VOLUME_SOURCE,
    "v1.EmptyDirVolumeSource",
    [opt!("medium", "Medium", Str("v1.StorageMedium")), opt!("sizeLimit", "SizeLimit", Ptr(&Quantity)),]
);

structure!(
    GCE_PERSISTENT_DISK_VOLUME_SOURCE,
    "v1.GCEPersistentDiskVolumeSource",
    [
        req!("pdName", "PDName", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("partition", "Partition", Int("int32")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
    "v1.AWSElasticBlockStoreVolumeSource",
    [
        req!("volumeID", "VolumeID", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("partition", "Partition", Int("int32")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    GIT_REPO_VOLUME_SOURCE,
    "v1.GitRepoVolumeSource",
    [
        req!("repository", "Repository", Str("string")),
        opt!("revision", "Revision", Str("string")),
        opt!("directory", "Directory", Str("string")),
    ]
);

structure!(
    NFS_VOLUME_SOURCE,
    "v1.NFSVolumeSource",
    [
        req!("server", "Server", Str("string")),
        req!("path", "Path", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    ISCSI_VOLUME_SOURCE,
    "v1.ISCSIVolumeSource",
    [
        req!("targetPortal", "TargetPortal", Str("string")),
        req!("iqn", "IQN", Str("string")),
        req!("lun", "Lun", Int("int32")),
        opt!("iscsiInterface", "ISCSIInterface", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
        opt!("portals", "Portals", Slice("", &Str("string"))),
        opt!("chapAuthDiscovery", "DiscoveryCHAPAuth", Bool("bool")),
        opt!("chapAuthSession", "SessionCHAPAuth", Bool("bool")),
        opt!("secretRef", "SecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
        opt!("initiatorName", "InitiatorName", Ptr(&Str("string"))),
    ]
);

structure!(
    GLUSTERFS_VOLUME_SOURCE,
    "v1.GlusterfsVolumeSource",
    [
        req!("endpoints", "EndpointsName", Str("string")),
        req!("path", "Path", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE,
    "v1.PersistentVolumeClaimVolumeSource",
    [req!("claimName", "ClaimName", Str("string")), opt!("readOnly", "ReadOnly", Bool("bool")),]
);

structure!(
    RBD_VOLUME_SOURCE,
    "v1.RBDVolumeSource",
    [
        req!("monitors", "CephMonitors", Slice("", &Str("string"))),
        req!("image", "RBDImage", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("pool", "RBDPool", Str("string")),
        opt!("user", "RadosUser", Str("string")),
        opt!("keyring", "Keyring", Str("string")),
        opt!("secretRef", "SecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    FLEX_VOLUME_SOURCE,
    "v1.FlexVolumeSource",
    [
        req!("driver", "Driver", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("secretRef", "SecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
        opt!("readOnly", "ReadOnly", Bool("bool")),
        opt!("options", "Options", Map("", &Str("string"))),
    ]
);

structure!(
    CINDER_VOLUME_SOURCE,
    "v1.CinderVolumeSource",
    [
        req!("volumeID", "VolumeID", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
        opt!("secretRef", "SecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
    ]
);

structure!(
    CEPH_FS_VOLUME_SOURCE,
    "v1.CephFSVolumeSource",
    [
        req!("monitors", "Monitors", Slice("", &Str("string"))),
        opt!("path", "Path", Str("string")),
        opt!("user", "User", Str("string")),
        opt!("secretFile", "SecretFile", Str("string")),
        opt!("secretRef", "SecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    FLOCKER_VOLUME_SOURCE,
    "v1.FlockerVolumeSource",
    [opt!("datasetName", "DatasetName", Str("string")), opt!("datasetUUID", "DatasetUUID", Str("string")),]
);

structure!(
    FC_VOLUME_SOURCE,
    "v1.FCVolumeSource",
    [
        opt!("targetWWNs", "TargetWWNs", Slice("", &Str("string"))),
        opt!("lun", "Lun", Ptr(&Int("int32"))),
        opt!("fsType", "FSType", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
        opt!("wwids", "WWIDs", Slice("", &Str("string"))),
    ]
);

structure!(
    AZURE_FILE_VOLUME_SOURCE,
    "v1.AzureFileVolumeSource",
    [
        req!("secretName", "SecretName", Str("string")),
        req!("shareName", "ShareName", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    "v1.VsphereVirtualDiskVolumeSource",
    [
        req!("volumePath", "VolumePath", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("storagePolicyName", "StoragePolicyName", Str("string")),
        opt!("storagePolicyID", "StoragePolicyID", Str("string")),
    ]
);

structure!(
    QUOBYTE_VOLUME_SOURCE,
    "v1.QuobyteVolumeSource",
    [
        req!("registry", "Registry", Str("string")),
        req!("volume", "Volume", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
        opt!("user", "User", Str("string")),
        opt!("group", "Group", Str("string")),
        opt!("tenant", "Tenant", Str("string")),
    ]
);

structure!(
    AZURE_DISK_VOLUME_SOURCE,
    "v1.AzureDiskVolumeSource",
    [
        req!("diskName", "DiskName", Str("string")),
        req!("diskURI", "DataDiskURI", Str("string")),
        opt!("cachingMode", "CachingMode", Ptr(&Str("v1.AzureDataDiskCachingMode"))),
        opt!("fsType", "FSType", Ptr(&Str("string"))),
        opt!("readOnly", "ReadOnly", Ptr(&Bool("bool"))),
        opt!("kind", "Kind", Ptr(&Str("v1.AzureDataDiskKind"))),
    ]
);

structure!(
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
    "v1.PhotonPersistentDiskVolumeSource",
    [req!("pdID", "PdID", Str("string")), opt!("fsType", "FSType", Str("string")),]
);

structure!(
    PORTWORX_VOLUME_SOURCE,
    "v1.PortworxVolumeSource",
    [
        req!("volumeID", "VolumeID", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    SCALE_IO_VOLUME_SOURCE,
    "v1.ScaleIOVolumeSource",
    [
        req!("gateway", "Gateway", Str("string")),
        req!("system", "System", Str("string")),
        req!("secretRef", "SecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
        opt!("sslEnabled", "SSLEnabled", Bool("bool")),
        opt!("protectionDomain", "ProtectionDomain", Str("string")),
        opt!("storagePool", "StoragePool", Str("string")),
        opt!("storageMode", "StorageMode", Str("string")),
        opt!("volumeName", "VolumeName", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
    ]
);

structure!(
    STORAGE_OS_VOLUME_SOURCE,
    "v1.StorageOSVolumeSource",
    [
        opt!("volumeName", "VolumeName", Str("string")),
        opt!("volumeNamespace", "VolumeNamespace", Str("string")),
        opt!("fsType", "FSType", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
        opt!("secretRef", "SecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
    ]
);

structure!(
    CSI_VOLUME_SOURCE,
    "v1.CSIVolumeSource",
    [
        req!("driver", "Driver", Str("string")),
        opt!("readOnly", "ReadOnly", Ptr(&Bool("bool"))),
        opt!("fsType", "FSType", Ptr(&Str("string"))),
        opt!("volumeAttributes", "VolumeAttributes", Map("", &Str("string"))),
        opt!("nodePublishSecretRef", "NodePublishSecretRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
    ]
);

structure!(
    EPHEMERAL_VOLUME_SOURCE,
    "v1.EphemeralVolumeSource",
    [opt!("volumeClaimTemplate", "VolumeClaimTemplate", Ptr(&Struct(&PERSISTENT_VOLUME_CLAIM_TEMPLATE))),]
);

structure!(
    IMAGE_VOLUME_SOURCE,
    "v1.ImageVolumeSource",
    [opt!("reference", "Reference", Str("string")), opt!("pullPolicy", "PullPolicy", Str("v1.PullPolicy")),]
);

structure!(
    PERSISTENT_VOLUME_CLAIM_TEMPLATE,
    "v1.PersistentVolumeClaimTemplate",
    [
        embed!("metadata", "ObjectMeta", Struct(&super::meta::OBJECT_META)),
        req!("spec", "Spec", Struct(&PERSISTENT_VOLUME_CLAIM_SPEC)),
    ]
);

structure!(
    OBJECT_FIELD_SELECTOR,
    "v1.ObjectFieldSelector",
    [opt!("apiVersion", "APIVersion", Str("string")), req!("fieldPath", "FieldPath", Str("string")),]
);

structure!(
    RESOURCE_FIELD_SELECTOR,
    "v1.ResourceFieldSelector",
    [
        opt!("containerName", "ContainerName", Str("string")),
        req!("resource", "Resource", Str("string")),
        opt!("divisor", "Divisor", Quantity),
    ]
);

structure!(
    SECRET_KEY_SELECTOR,
    "v1.SecretKeySelector",
    [
        inlined!("LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        req!("key", "Key", Str("string")),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    PERSISTENT_VOLUME_CLAIM_SPEC,
    "v1.PersistentVolumeClaimSpec",
    [
        opt!("accessModes", "AccessModes", Slice("", &Str("v1.PersistentVolumeAccessMode"))),
        opt!("selector", "Selector", Ptr(&Struct(&super::meta::LABEL_SELECTOR))),
        opt!("resources", "Resources", Struct(&VOLUME_RESOURCE_REQUIREMENTS)),
        opt!("volumeName", "VolumeName", Str("string")),
        opt!("storageClassName", "StorageClassName", Ptr(&Str("string"))),
        opt!("volumeMode", "VolumeMode", Ptr(&Str("v1.PersistentVolumeMode"))),
        opt!("dataSource", "DataSource", Ptr(&Struct(&TYPED_LOCAL_OBJECT_REFERENCE))),
        opt!("dataSourceRef", "DataSourceRef", Ptr(&Struct(&TYPED_OBJECT_REFERENCE))),
        opt!("volumeAttributesClassName", "VolumeAttributesClassName", Ptr(&Str("string"))),
    ]
);

structure!(
    VOLUME_RESOURCE_REQUIREMENTS,
    "v1.VolumeResourceRequirements",
    [
        opt!("limits", "Limits", Map("v1.ResourceList", &Quantity)),
        opt!("requests", "Requests", Map("v1.ResourceList", &Quantity)),
    ]
);

structure!(
    TYPED_OBJECT_REFERENCE,
    "v1.TypedObjectReference",
    [
        req!("apiGroup", "APIGroup", Ptr(&Str("string"))),
        req!("kind", "Kind", Str("string")),
        req!("name", "Name", Str("string")),
        opt!("namespace", "Namespace", Ptr(&Str("string"))),
    ]
);
