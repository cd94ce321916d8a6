//! Go types: Pod specs.

use longboat_template::reflect::Ty::{Bool, Int, Map, Ptr, Quantity, Slice, Str, Struct};

use super::{opt, req, structure};

structure!(
    POD_SPEC,
    "v1.PodSpec",
    [
        opt!("volumes", "Volumes", Slice("", &Struct(&super::volume::VOLUME))),
        opt!("initContainers", "InitContainers", Slice("", &Struct(&super::container::CONTAINER))),
        req!("containers", "Containers", Slice("", &Struct(&super::container::CONTAINER))),
        opt!(
            "ephemeralContainers",
            "EphemeralContainers",
            Slice("", &Struct(&super::container::EPHEMERAL_CONTAINER))
        ),
        opt!("restartPolicy", "RestartPolicy", Str("v1.RestartPolicy")),
        opt!("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", Ptr(&Int("int64"))),
        opt!("activeDeadlineSeconds", "ActiveDeadlineSeconds", Ptr(&Int("int64"))),
        opt!("dnsPolicy", "DNSPolicy", Str("v1.DNSPolicy")),
        opt!("nodeSelector", "NodeSelector", Map("", &Str("string"))),
        opt!("serviceAccountName", "ServiceAccountName", Str("string")),
        opt!("serviceAccount", "DeprecatedServiceAccount", Str("string")),
        opt!("automountServiceAccountToken", "AutomountServiceAccountToken", Ptr(&Bool("bool"))),
        opt!("nodeName", "NodeName", Str("string")),
        opt!("hostNetwork", "HostNetwork", Bool("bool")),
        opt!("hostPID", "HostPID", Bool("bool")),
        opt!("hostIPC", "HostIPC", Bool("bool")),
        opt!("shareProcessNamespace", "ShareProcessNamespace", Ptr(&Bool("bool"))),
        opt!("securityContext", "SecurityContext", Ptr(&Struct(&POD_SECURITY_CONTEXT))),
        opt!(
            "imagePullSecrets",
            "ImagePullSecrets",
            Slice("", &Struct(&super::volume::LOCAL_OBJECT_REFERENCE))
        ),
        opt!("hostname", "Hostname", Str("string")),
        opt!("subdomain", "Subdomain", Str("string")),
        opt!("affinity", "Affinity", Ptr(&Struct(&AFFINITY))),
        opt!("schedulerName", "SchedulerName", Str("string")),
        opt!("tolerations", "Tolerations", Slice("", &Struct(&TOLERATION))),
        opt!("hostAliases", "HostAliases", Slice("", &Struct(&HOST_ALIAS))),
        opt!("priorityClassName", "PriorityClassName", Str("string")),
        opt!("priority", "Priority", Ptr(&Int("int32"))),
        opt!("dnsConfig", "DNSConfig", Ptr(&Struct(&POD_DNS_CONFIG))),
        opt!("readinessGates", "ReadinessGates", Slice("", &Struct(&POD_READINESS_GATE))),
        opt!("runtimeClassName", "RuntimeClassName", Ptr(&Str("string"))),
        opt!("enableServiceLinks", "EnableServiceLinks", Ptr(&Bool("bool"))),
        opt!("preemptionPolicy", "PreemptionPolicy", Ptr(&Str("v1.PreemptionPolicy"))),
        opt!("overhead", "Overhead", Map("v1.ResourceList", &Quantity)),
        opt!(
            "topologySpreadConstraints",
            "TopologySpreadConstraints",
            Slice("", &Struct(&TOPOLOGY_SPREAD_CONSTRAINT))
        ),
        opt!("setHostnameAsFQDN", "SetHostnameAsFQDN", Ptr(&Bool("bool"))),
        opt!("os", "OS", Ptr(&Struct(&POD_OS))),
        opt!("hostUsers", "HostUsers", Ptr(&Bool("bool"))),
        opt!("schedulingGates", "SchedulingGates", Slice("", &Struct(&POD_SCHEDULING_GATE))),
        opt!("resourceClaims", "ResourceClaims", Slice("", &Struct(&POD_RESOURCE_CLAIM))),
        opt!("resources", "Resources", Ptr(&Struct(&super::container::RESOURCE_REQUIREMENTS))),
        opt!("hostnameOverride", "HostnameOverride", Ptr(&Str("string"))),
    ]
);

structure!(
    POD_SECURITY_CONTEXT,
    "v1.PodSecurityContext",
    [
        opt!("seLinuxOptions", "SELinuxOptions", Ptr(&Struct(&super::container::SE_LINUX_OPTIONS))),
        opt!(
            "windowsOptions",
            "WindowsOptions",
            Ptr(&Struct(&super::container::WINDOWS_SECURITY_CONTEXT_OPTIONS))
        ),
        opt!("runAsUser", "RunAsUser", Ptr(&Int("int64"))),
        opt!("runAsGroup", "RunAsGroup", Ptr(&Int("int64"))),
        opt!("runAsNonRoot", "RunAsNonRoot", Ptr(&Bool("bool"))),
        opt!("supplementalGroups", "SupplementalGroups", Slice("", &Int("int64"))),
        opt!(
            "supplementalGroupsPolicy",
            "SupplementalGroupsPolicy",
            Ptr(&Str("v1.SupplementalGroupsPolicy"))
        ),
        opt!("fsGroup", "FSGroup", Ptr(&Int("int64"))),
        opt!("sysctls", "Sysctls", Slice("", &Struct(&SYSCTL))),
        opt!("fsGroupChangePolicy", "FSGroupChangePolicy", Ptr(&Str("v1.PodFSGroupChangePolicy"))),
        opt!("seccompProfile", "SeccompProfile", Ptr(&Struct(&super::container::SECCOMP_PROFILE))),
        opt!("appArmorProfile", "AppArmorProfile", Ptr(&Struct(&super::container::APP_ARMOR_PROFILE))),
        opt!("seLinuxChangePolicy", "SELinuxChangePolicy", Ptr(&Str("v1.PodSELinuxChangePolicy"))),
    ]
);

structure!(
    AFFINITY,
    "v1.Affinity",
    [
        opt!("nodeAffinity", "NodeAffinity", Ptr(&Struct(&NODE_AFFINITY))),
        opt!("podAffinity", "PodAffinity", Ptr(&Struct(&POD_AFFINITY))),
        opt!("podAntiAffinity", "PodAntiAffinity", Ptr(&Struct(&POD_ANTI_AFFINITY))),
    ]
);

structure!(
    TOLERATION,
    "v1.Toleration",
    [
        opt!("key", "Key", Str("string")),
        opt!("operator", "Operator", Str("v1.TolerationOperator")),
        opt!("value", "Value", Str("string")),
        opt!("effect", "Effect", Str("v1.TaintEffect")),
        opt!("tolerationSeconds", "TolerationSeconds", Ptr(&Int("int64"))),
    ]
);

structure!(
    HOST_ALIAS,
    "v1.HostAlias",
    [req!("ip", "IP", Str("string")), opt!("hostnames", "Hostnames", Slice("", &Str("string"))),]
);

structure!(
    POD_DNS_CONFIG,
    "v1.PodDNSConfig",
    [
        opt!("nameservers", "Nameservers", Slice("", &Str("string"))),
        opt!("searches", "Searches", Slice("", &Str("string"))),
        opt!("options", "Options", Slice("", &Struct(&POD_DNS_CONFIG_OPTION))),
    ]
);

structure!(
    POD_READINESS_GATE,
    "v1.PodReadinessGate",
    [req!("conditionType", "ConditionType", Str("v1.PodConditionType")),]
);

structure!(
    TOPOLOGY_SPREAD_CONSTRAINT,
    "v1.TopologySpreadConstraint",
    [
        req!("maxSkew", "MaxSkew", Int("int32")),
        req!("topologyKey", "TopologyKey", Str("string")),
        req!("whenUnsatisfiable", "WhenUnsatisfiable", Str("v1.UnsatisfiableConstraintAction")),
        opt!("labelSelector", "LabelSelector", Ptr(&Struct(&super::meta::LABEL_SELECTOR))),
        opt!("minDomains", "MinDomains", Ptr(&Int("int32"))),
        opt!("nodeAffinityPolicy", "NodeAffinityPolicy", Ptr(&Str("v1.NodeInclusionPolicy"))),
        opt!("nodeTaintsPolicy", "NodeTaintsPolicy", Ptr(&Str("v1.NodeInclusionPolicy"))),
        opt!("matchLabelKeys", "MatchLabelKeys", Slice("", &Str("string"))),
    ]
);

structure!(POD_OS, "v1.PodOS", [req!("name", "Name", Str("v1.OSName")),]);

structure!(POD_SCHEDULING_GATE, "v1.PodSchedulingGate", [req!("name", "Name", Str("string")),]);

structure!(
    POD_RESOURCE_CLAIM,
    "v1.PodResourceClaim",
    [
        req!("name", "Name", Str("string")),
        opt!("resourceClaimName", "ResourceClaimName", Ptr(&Str("string"))),
        opt!("resourceClaimTemplateName", "ResourceClaimTemplateName", Ptr(&Str("string"))),
    ]
);

structure!(
    SYSCTL,
    "v1.Sysctl",
    [req!("name", "Name", Str("string")), req!("value", "Value", Str("string")),]
);

structure!(
    NODE_AFFINITY,
    "v1.NodeAffinity",
    [
        opt!(
            "requiredDuringSchedulingIgnoredDuringExecution",
            "RequiredDuringSchedulingIgnoredDuringExecution",
            Ptr(&Struct(&NODE_SELECTOR))
        ),
        opt!(
            "preferredDuringSchedulingIgnoredDuringExecution",
            "PreferredDuringSchedulingIgnoredDuringExecution",
            Slice("", &Struct(&PREFERRED_SCHEDULING_TERM))
        ),
    ]
);

structure!(
    POD_AFFINITY,
    "v1.PodAffinity",
    [
        opt!(
            "requiredDuringSchedulingIgnoredDuringExecution",
            "RequiredDuringSchedulingIgnoredDuringExecution",
            Slice("", &Struct(&POD_AFFINITY_TERM))
        ),
        opt!(
            "preferredDuringSchedulingIgnoredDuringExecution",
            "PreferredDuringSchedulingIgnoredDuringExecution",
            Slice("", &Struct(&WEIGHTED_POD_AFFINITY_TERM))
        ),
    ]
);

structure!(
    POD_ANTI_AFFINITY,
    "v1.PodAntiAffinity",
    [
        opt!(
            "requiredDuringSchedulingIgnoredDuringExecution",
            "RequiredDuringSchedulingIgnoredDuringExecution",
            Slice("", &Struct(&POD_AFFINITY_TERM))
        ),
        opt!(
            "preferredDuringSchedulingIgnoredDuringExecution",
            "PreferredDuringSchedulingIgnoredDuringExecution",
            Slice("", &Struct(&WEIGHTED_POD_AFFINITY_TERM))
        ),
    ]
);

structure!(
    POD_DNS_CONFIG_OPTION,
    "v1.PodDNSConfigOption",
    [opt!("name", "Name", Str("string")), opt!("value", "Value", Ptr(&Str("string"))),]
);

structure!(
    NODE_SELECTOR,
    "v1.NodeSelector",
    [req!("nodeSelectorTerms", "NodeSelectorTerms", Slice("", &Struct(&NODE_SELECTOR_TERM))),]
);

structure!(
    PREFERRED_SCHEDULING_TERM,
    "v1.PreferredSchedulingTerm",
    [req!("weight", "Weight", Int("int32")), req!("preference", "Preference", Struct(&NODE_SELECTOR_TERM)),]
);

structure!(
    POD_AFFINITY_TERM,
    "v1.PodAffinityTerm",
    [
        opt!("labelSelector", "LabelSelector", Ptr(&Struct(&super::meta::LABEL_SELECTOR))),
        opt!("namespaces", "Namespaces", Slice("", &Str("string"))),
        req!("topologyKey", "TopologyKey", Str("string")),
        opt!("namespaceSelector", "NamespaceSelector", Ptr(&Struct(&super::meta::LABEL_SELECTOR))),
        opt!("matchLabelKeys", "MatchLabelKeys", Slice("", &Str("string"))),
        opt!("mismatchLabelKeys", "MismatchLabelKeys", Slice("", &Str("string"))),
    ]
);

structure!(
    WEIGHTED_POD_AFFINITY_TERM,
    "v1.WeightedPodAffinityTerm",
    [
        req!("weight", "Weight", Int("int32")),
        req!("podAffinityTerm", "PodAffinityTerm", Struct(&POD_AFFINITY_TERM)),
    ]
);

structure!(
    NODE_SELECTOR_TERM,
    "v1.NodeSelectorTerm",
    [
        opt!("matchExpressions", "MatchExpressions", Slice("", &Struct(&NODE_SELECTOR_REQUIREMENT))),
        opt!("matchFields", "MatchFields", Slice("", &Struct(&NODE_SELECTOR_REQUIREMENT))),
    ]
);

structure!(
    POD_CERTIFICATE_PROJECTION,
    "v1.PodCertificateProjection",
    [
        opt!("signerName", "SignerName", Str("string")),
        opt!("keyType", "KeyType", Str("string")),
        opt!("maxExpirationSeconds", "MaxExpirationSeconds", Ptr(&Int("int32"))),
        opt!("credentialBundlePath", "CredentialBundlePath", Str("string")),
        opt!("keyPath", "KeyPath", Str("string")),
        opt!("certificateChainPath", "CertificateChainPath", Str("string")),
    ]
);

structure!(
    NODE_SELECTOR_REQUIREMENT,
    "v1.NodeSelectorRequirement",
    [
        req!("key", "Key", Str("string")),
        req!("operator", "Operator", Str("v1.NodeSelectorOperator")),
        opt!("values", "Values", Slice("", &Str("string"))),
    ]
);
