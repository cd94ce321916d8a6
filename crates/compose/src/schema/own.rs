//! Go types: `serving.kserve.io/v1alpha2`.

use longboat_template::reflect::Ty::{
    Bool, Int, IntOrString, Map, Ptr, Quantity, Raw, Slice, Str, Struct, Url,
};

use super::{embed, inlined, opt, req, structure};

structure!(
    LLM_INFERENCE_SERVICE,
    "v1alpha2.LLMInferenceService",
    [
        inlined!("TypeMeta", Struct(&super::meta::TYPE_META)),
        embed!("metadata", "ObjectMeta", Struct(&super::meta::OBJECT_META)),
        opt!("spec", "Spec", Struct(&LLM_INFERENCE_SERVICE_SPEC)),
        opt!("status", "Status", Struct(&LLM_INFERENCE_SERVICE_STATUS)),
    ],
    &super::methods::LLM_INFERENCE_SERVICE_METHODS
);

structure!(
    LLM_INFERENCE_SERVICE_CONFIG,
    "v1alpha2.LLMInferenceServiceConfig",
    [
        inlined!("TypeMeta", Struct(&super::meta::TYPE_META)),
        embed!("metadata", "ObjectMeta", Struct(&super::meta::OBJECT_META)),
        opt!("spec", "Spec", Struct(&LLM_INFERENCE_SERVICE_SPEC)),
        opt!("status", "Status", Struct(&LLM_INFERENCE_SERVICE_CONFIG_STATUS)),
    ]
);

structure!(
    LLM_INFERENCE_SERVICE_SPEC,
    "v1alpha2.LLMInferenceServiceSpec",
    [
        req!("model", "Model", Struct(&LLM_MODEL_SPEC)),
        opt!("storageInitializer", "StorageInitializer", Ptr(&Struct(&STORAGE_INITIALIZER_SPEC))),
        inlined!("WorkloadSpec", Struct(&WORKLOAD_SPEC)),
        opt!("router", "Router", Ptr(&Struct(&ROUTER_SPEC))),
        opt!("prefill", "Prefill", Ptr(&Struct(&WORKLOAD_SPEC))),
        opt!("tracing", "Tracing", Ptr(&Struct(&TRACING_SPEC))),
        opt!("baseRefs", "BaseRefs", Slice("", &Struct(&super::volume::LOCAL_OBJECT_REFERENCE))),
    ]
);

structure!(
    LLM_INFERENCE_SERVICE_STATUS,
    "v1alpha2.LLMInferenceServiceStatus",
    [
        opt!("url", "URL", Ptr(&Url)),
        inlined!("Status", Struct(&super::duck::STATUS)),
        opt!("address", "Address", Ptr(&Struct(&super::duck::ADDRESSABLE))),
        opt!("addresses", "Addresses", Slice("", &Struct(&SOURCED_ADDRESS))),
        opt!("router", "Router", Ptr(&Struct(&ROUTER_STATUS))),
        opt!("workloads", "Workloads", Ptr(&Struct(&WORKLOAD_STATUS))),
        opt!("appliedConfigs", "AppliedConfigRefs", Slice("", &Struct(&APPLIED_CONFIG_REF))),
    ]
);

structure!(
    LLM_INFERENCE_SERVICE_CONFIG_STATUS,
    "v1alpha2.LLMInferenceServiceConfigStatus",
    [
        inlined!("Status", Struct(&super::duck::STATUS)),
        opt!("referencedBy", "ReferencedBy", Slice("", &Struct(&UNTYPED_OBJECT_REFERENCE))),
    ]
);

structure!(
    LLM_MODEL_SPEC,
    "v1alpha2.LLMModelSpec",
    [
        req!("uri", "URI", Url),
        opt!("name", "Name", Ptr(&Str("string"))),
        opt!("lora", "LoRA", Ptr(&Struct(&LO_RA_SPEC))),
        opt!("confidential", "Confidential", Ptr(&Struct(&CONFIDENTIAL_SPEC))),
    ]
);

structure!(
    STORAGE_INITIALIZER_SPEC,
    "v1alpha2.StorageInitializerSpec",
    [opt!("enabled", "Enabled", Ptr(&Bool("bool"))),]
);

structure!(
    WORKLOAD_SPEC,
    "v1alpha2.WorkloadSpec",
    [
        opt!("replicas", "Replicas", Ptr(&Int("int32"))),
        opt!("scaling", "Scaling", Ptr(&Struct(&SCALING_SPEC))),
        opt!("parallelism", "Parallelism", Ptr(&Struct(&PARALLELISM_SPEC))),
        opt!("labels", "Labels", Map("", &Str("string"))),
        opt!("annotations", "Annotations", Map("", &Str("string"))),
        opt!("template", "Template", Ptr(&Struct(&super::pod::POD_SPEC))),
        opt!("worker", "Worker", Ptr(&Struct(&super::pod::POD_SPEC))),
        opt!("kvCacheOffloading", "KVCacheOffloading", Ptr(&Struct(&KV_CACHE_OFFLOADING_SPEC))),
        opt!("rolloutStrategy", "RolloutStrategy", Ptr(&Struct(&ROLLOUT_STRATEGY))),
    ]
);

structure!(
    ROUTER_SPEC,
    "v1alpha2.RouterSpec",
    [
        opt!("route", "Route", Ptr(&Struct(&GATEWAY_ROUTES_SPEC))),
        opt!("gateway", "Gateway", Ptr(&Struct(&GATEWAY_SPEC))),
        opt!("ingress", "Ingress", Ptr(&Struct(&INGRESS_SPEC))),
        opt!("scheduler", "Scheduler", Ptr(&Struct(&SCHEDULER_SPEC))),
    ],
    &super::methods::ROUTER
);

structure!(
    TRACING_SPEC,
    "v1alpha2.TracingSpec",
    [
        opt!("exporterEndpoint", "ExporterEndpoint", Ptr(&Str("string"))),
        opt!("sampler", "Sampler", Ptr(&Str("string"))),
        opt!("samplerArg", "SamplerArg", Ptr(&Str("string"))),
        opt!("exporter", "Exporter", Ptr(&Str("string"))),
    ]
);

structure!(
    SOURCED_ADDRESS,
    "v1alpha2.SourcedAddress",
    [
        inlined!("Addressable", Struct(&super::duck::ADDRESSABLE)),
        opt!("origin", "Origin", Ptr(&Struct(&super::gateway::OBJECT_REFERENCE))),
        opt!("models", "Models", Slice("", &Struct(&MODEL_SOURCED_ADDRESS_STATUS))),
    ]
);

structure!(
    ROUTER_STATUS,
    "v1alpha2.RouterStatus",
    [
        opt!("gateways", "Gateways", Slice("", &Struct(&OBSERVED_GATEWAY))),
        opt!("scheduler", "Scheduler", Ptr(&Struct(&OBSERVED_SCHEDULER_STATUS))),
        opt!("group", "Group", Ptr(&Struct(&GROUP_STATUS))),
    ]
);

structure!(
    WORKLOAD_STATUS,
    "v1alpha2.WorkloadStatus",
    [
        opt!("primary", "Primary", Ptr(&Struct(&OBSERVED_WORKLOAD_STATUS))),
        opt!("prefill", "Prefill", Ptr(&Struct(&OBSERVED_WORKLOAD_STATUS))),
        opt!("service", "Service", Ptr(&Struct(&super::volume::TYPED_LOCAL_OBJECT_REFERENCE))),
        opt!("scheduler", "Scheduler", Ptr(&Struct(&OBSERVED_WORKLOAD_STATUS))),
    ]
);

structure!(
    APPLIED_CONFIG_REF,
    "v1alpha2.AppliedConfigRef",
    [
        req!("name", "Name", Str("v1.ObjectName")),
        req!("namespace", "Namespace", Str("v1.Namespace")),
        req!("source", "Source", Str("v1alpha2.AppliedConfigSource")),
    ]
);

structure!(
    UNTYPED_OBJECT_REFERENCE,
    "v1alpha2.UntypedObjectReference",
    [opt!("name", "Name", Str("v1.ObjectName")), opt!("namespace", "Namespace", Str("v1.Namespace")),]
);

structure!(
    LO_RA_SPEC,
    "v1alpha2.LoRASpec",
    [
        opt!("adapters", "Adapters", Slice("", &Struct(&LLM_MODEL_SPEC))),
        opt!("maxRank", "MaxRank", Ptr(&Int("int32"))),
        opt!("maxAdapters", "MaxAdapters", Ptr(&Int("int32"))),
        opt!("maxCpuAdapters", "MaxCpuAdapters", Ptr(&Int("int32"))),
    ]
);

structure!(
    CONFIDENTIAL_SPEC,
    "v1alpha2.ConfidentialSpec",
    [req!("enabled", "Enabled", Bool("bool")), opt!("resourceId", "ResourceId", Ptr(&Str("string"))),]
);

structure!(
    SCALING_SPEC,
    "v1alpha2.ScalingSpec",
    [
        opt!("minReplicas", "MinReplicas", Ptr(&Int("int32"))),
        req!("maxReplicas", "MaxReplicas", Int("int32")),
        opt!("wva", "WVA", Ptr(&Struct(&WVA_SPEC))),
        opt!("keda", "KEDA", Ptr(&Struct(&DIRECT_KEDA_SCALING_SPEC))),
    ]
);

structure!(
    PARALLELISM_SPEC,
    "v1alpha2.ParallelismSpec",
    [
        opt!("tensor", "Tensor", Ptr(&Int("int32"))),
        opt!("pipeline", "Pipeline", Ptr(&Int("int32"))),
        opt!("data", "Data", Ptr(&Int("int32"))),
        opt!("dataLocal", "DataLocal", Ptr(&Int("int32"))),
        opt!("dataRPCPort", "DataRPCPort", Ptr(&Int("int32"))),
        opt!("expert", "Expert", Bool("bool")),
    ],
    &super::methods::PARALLELISM
);

structure!(
    KV_CACHE_OFFLOADING_SPEC,
    "v1alpha2.KVCacheOffloadingSpec",
    [
        req!("cpu", "CPU", Quantity),
        opt!("evictionPolicy", "EvictionPolicy", Str("string")),
        opt!("secondary", "Secondary", Slice("", &Struct(&SECONDARY_TIER_SPEC))),
    ]
);

structure!(
    ROLLOUT_STRATEGY,
    "v1alpha2.RolloutStrategy",
    [
        opt!("maxUnavailable", "MaxUnavailable", Ptr(&IntOrString)),
        opt!("maxSurge", "MaxSurge", Ptr(&IntOrString)),
    ]
);

structure!(
    GATEWAY_ROUTES_SPEC,
    "v1alpha2.GatewayRoutesSpec",
    [
        opt!("http", "HTTP", Ptr(&Struct(&HTTP_ROUTE_SPEC))),
        opt!("group", "Group", Ptr(&Str("string"))),
        opt!("weight", "Weight", Ptr(&Int("int32"))),
    ]
);

structure!(
    GATEWAY_SPEC,
    "v1alpha2.GatewaySpec",
    [opt!("refs", "Refs", Slice("", &Struct(&GATEWAY_OBJECT_REFERENCE))),],
    &super::methods::GATEWAY
);

structure!(
    INGRESS_SPEC,
    "v1alpha2.IngressSpec",
    [opt!("refs", "Refs", Slice("", &Struct(&UNTYPED_OBJECT_REFERENCE))),]
);

structure!(
    SCHEDULER_SPEC,
    "v1alpha2.SchedulerSpec",
    [
        opt!("pool", "Pool", Ptr(&Struct(&INFERENCE_POOL_SPEC))),
        opt!("labels", "Labels", Map("", &Str("string"))),
        opt!("annotations", "Annotations", Map("", &Str("string"))),
        opt!("template", "Template", Ptr(&Struct(&super::pod::POD_SPEC))),
        opt!("config", "Config", Ptr(&Struct(&SCHEDULER_CONFIG_SPEC))),
        opt!("replicas", "Replicas", Ptr(&Int("int32"))),
        opt!("tokenizer", "Tokenizer", Ptr(&Struct(&TOKENIZER_SPEC))),
    ],
    &super::methods::SCHEDULER
);

structure!(
    MODEL_SOURCED_ADDRESS_STATUS,
    "v1alpha2.ModelSourcedAddressStatus",
    [req!("name", "Name", Str("string")),]
);

structure!(
    OBSERVED_GATEWAY,
    "v1alpha2.ObservedGateway",
    [
        inlined!("ObjectReference", Struct(&super::gateway::OBJECT_REFERENCE)),
        opt!("listeners", "Listeners", Slice("", &Str("v1.SectionName"))),
        opt!("httpRoutes", "HTTPRoutes", Slice("", &Struct(&super::gateway::OBJECT_REFERENCE))),
    ]
);

structure!(
    OBSERVED_SCHEDULER_STATUS,
    "v1alpha2.ObservedSchedulerStatus",
    [
        opt!("inferencePool", "InferencePool", Ptr(&Struct(&super::gateway::OBJECT_REFERENCE))),
        opt!("service", "Service", Ptr(&Struct(&super::gateway::OBJECT_REFERENCE))),
    ]
);

structure!(
    GROUP_STATUS,
    "v1alpha2.GroupStatus",
    [
        req!("name", "Name", Str("string")),
        opt!("members", "Members", Slice("", &Struct(&GROUP_MEMBER_STATUS))),
    ]
);

structure!(
    OBSERVED_WORKLOAD_STATUS,
    "v1alpha2.ObservedWorkloadStatus",
    [
        inlined!("TypedLocalObjectReference", Struct(&super::volume::TYPED_LOCAL_OBJECT_REFERENCE)),
        opt!("readyReplicas", "ReadyReplicas", Ptr(&Int("int32"))),
    ]
);

structure!(
    WVA_SPEC,
    "v1alpha2.WVASpec",
    [opt!("variantCost", "VariantCost", Str("string")), inlined!("ActuatorSpec", Struct(&ACTUATOR_SPEC)),]
);

structure!(
    DIRECT_KEDA_SCALING_SPEC,
    "v1alpha2.DirectKEDAScalingSpec",
    [
        inlined!("KEDAScalingSpec", Struct(&KEDA_SCALING_SPEC)),
        req!("triggers", "Triggers", Slice("", &Struct(&super::keda::SCALE_TRIGGERS))),
    ]
);

structure!(
    SECONDARY_TIER_SPEC,
    "v1alpha2.SecondaryTierSpec",
    [opt!("fileSystem", "FileSystem", Ptr(&Struct(&FILE_SYSTEM_TIER_SPEC))),]
);

structure!(
    HTTP_ROUTE_SPEC,
    "v1alpha2.HTTPRouteSpec",
    [
        opt!("refs", "Refs", Slice("", &Struct(&super::volume::LOCAL_OBJECT_REFERENCE))),
        opt!("spec", "Spec", Ptr(&Struct(&super::gateway::HTTP_ROUTE_SPEC))),
    ],
    &super::methods::HTTP_ROUTE
);

structure!(
    GATEWAY_OBJECT_REFERENCE,
    "v1alpha2.GatewayObjectReference",
    [
        inlined!("UntypedObjectReference", Struct(&UNTYPED_OBJECT_REFERENCE)),
        opt!("sectionName", "SectionName", Ptr(&Str("v1.SectionName"))),
    ]
);

structure!(
    INFERENCE_POOL_SPEC,
    "v1alpha2.InferencePoolSpec",
    [
        opt!("spec", "Spec", Ptr(&Struct(&super::pool::INFERENCE_POOL_SPEC))),
        opt!("ref", "Ref", Ptr(&Struct(&super::volume::LOCAL_OBJECT_REFERENCE))),
    ],
    &super::methods::INFERENCE_POOL
);

structure!(
    SCHEDULER_CONFIG_SPEC,
    "v1alpha2.SchedulerConfigSpec",
    [
        opt!("inline", "Inline", Ptr(&Raw)),
        opt!("ref", "Ref", Ptr(&Struct(&super::volume::CONFIG_MAP_KEY_SELECTOR))),
    ]
);

structure!(
    TOKENIZER_SPEC,
    "v1alpha2.TokenizerSpec",
    [opt!("template", "Template", Ptr(&Struct(&super::pod::POD_SPEC))),]
);

structure!(
    GROUP_MEMBER_STATUS,
    "v1alpha2.GroupMemberStatus",
    [
        req!("name", "Name", Str("string")),
        req!("weight", "Weight", Int("int32")),
        opt!("stopped", "Stopped", Bool("bool")),
        opt!("backendRef", "BackendRef", Ptr(&Struct(&super::gateway::BACKEND_OBJECT_REFERENCE))),
    ]
);

structure!(
    ACTUATOR_SPEC,
    "v1alpha2.ActuatorSpec",
    [
        opt!("hpa", "HPA", Ptr(&Struct(&HPA_SCALING_SPEC))),
        opt!("keda", "KEDA", Ptr(&Struct(&KEDA_SCALING_SPEC))),
    ]
);

structure!(
    KEDA_SCALING_SPEC,
    "v1alpha2.KEDAScalingSpec",
    [
        opt!("pollingInterval", "PollingInterval", Ptr(&Int("int32"))),
        opt!("cooldownPeriod", "CooldownPeriod", Ptr(&Int("int32"))),
        opt!("initialCooldownPeriod", "InitialCooldownPeriod", Ptr(&Int("int32"))),
        opt!("idleReplicaCount", "IdleReplicaCount", Ptr(&Int("int32"))),
        opt!("fallback", "Fallback", Ptr(&Struct(&super::keda::FALLBACK))),
        opt!("advanced", "Advanced", Ptr(&Struct(&super::keda::ADVANCED_CONFIG))),
    ]
);

structure!(
    FILE_SYSTEM_TIER_SPEC,
    "v1alpha2.FileSystemTierSpec",
    [
        opt!("emptyDir", "EmptyDir", Ptr(&Struct(&EMPTY_DIR_TIER_SPEC))),
        opt!("pvc", "PVC", Ptr(&Struct(&PVC_TIER_SPEC))),
    ]
);

structure!(
    HPA_SCALING_SPEC,
    "v1alpha2.HPAScalingSpec",
    [opt!("behavior", "Behavior", Ptr(&Struct(&super::autoscaling::HORIZONTAL_POD_AUTOSCALER_BEHAVIOR))),]
);

structure!(EMPTY_DIR_TIER_SPEC, "v1alpha2.EmptyDirTierSpec", [req!("size", "Size", Quantity),]);

structure!(
    PVC_TIER_SPEC,
    "v1alpha2.PVCTierSpec",
    [
        opt!("spec", "Spec", Ptr(&Struct(&super::volume::PERSISTENT_VOLUME_CLAIM_SPEC))),
        opt!("ref", "Ref", Ptr(&Struct(&PVC_REF_TIER_SPEC))),
    ]
);

structure!(
    PVC_REF_TIER_SPEC,
    "v1alpha2.PVCRefTierSpec",
    [req!("name", "Name", Str("string")), opt!("path", "Path", Str("string")),]
);
