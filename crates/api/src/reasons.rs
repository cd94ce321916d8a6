//! Reasons of conditions and of events.

/// Reasons of conditions.
pub mod condition {
    /// A config that the service names, or a preset it needs, does not exist.
    pub const CONFIG_NOT_FOUND: &str = "ConfigNotFound";
    /// The runtime that the service names does not exist. KServe's controller serves with vLLM instead.
    pub const RUNTIME_NOT_FOUND: &str = "RuntimeNotFound";
    /// The runtime cannot serve this service: it is disabled, its engine is unknown or has no preset, or the service has fields
    /// that the engine cannot have.
    pub const RUNTIME_UNSUPPORTED: &str = "RuntimeUnsupported";
    /// A layer sets the variable in which the controller puts the argument for KV cache offloading. Also the reason of an
    /// event.
    pub const KV_TRANSFER_SLOT_CONFLICT: &str = "KVTransferSlotConflict";
    /// The configs could not be merged or rendered.
    pub const COMBINE_BASE_ERROR: &str = "CombineBaseError";
    /// LoRA adapters would share a folder. Also the reason of an event.
    pub const LORA_MOUNT_PATH_COLLISION: &str = "LoRAMountPathCollision";
    /// The merged spec was refused.
    pub const INVALID_RENDERED_CONFIG: &str = "InvalidRenderedConfig";
    /// The service is stopped by its annotation.
    pub const STOPPED: &str = "Stopped";
    /// The certificate could not be made or written.
    pub const RECONCILE_CERTS_ERROR: &str = "ReconcileCertsError";
    /// A single-node workload could not be made or written.
    pub const RECONCILE_SINGLE_NODE_WORKLOAD_ERROR: &str = "ReconcileSingleNodeWorkloadError";
    /// A multi-node workload could not be made or written.
    pub const RECONCILE_MULTI_NODE_WORKLOAD_ERROR: &str = "ReconcileMultiNodeWorkloadError";
    /// The workload Service could not be written.
    pub const RECONCILE_WORKLOAD_SERVICE_ERROR: &str = "ReconcileWorkloadServiceError";
    /// The cluster has no API for the wanted autoscaler.
    pub const SCALING_CRD_NOT_FOUND: &str = "ScalingCRDNotFound";
    /// The annotation of an autoscaler that gives a metric a value, under `longboat up`, has no number.
    pub const METRIC_ANNOTATION_ERROR: &str = "MetricAnnotationError";
    /// Autoscaling could not be written.
    pub const RECONCILE_SCALING_ERROR: &str = "ReconcileScalingError";
    /// The object is not ready yet.
    pub const PROGRESSING: &str = "Progressing";
    /// The HorizontalPodAutoscaler has not reported yet.
    pub const HPA_PROGRESSING: &str = "HPAProgressing";
    /// The ScaledObject has not reported yet.
    pub const SCALED_OBJECT_PROGRESSING: &str = "ScaledObjectProgressing";
    /// A referenced Gateway or route does not exist.
    pub const REFS_INVALID: &str = "RefsInvalid";
    /// A Gateway is not programmed.
    pub const GATEWAYS_NOT_READY: &str = "GatewaysNotReady";
    /// A Gateway lacks something that the route needs. KServe's API lists this reason for extensions of its controller;
    /// Longboat never sets it.
    pub const GATEWAY_PRECONDITION_NOT_MET: &str = "GatewayPreconditionNotMet";
    /// The route could not be made or written.
    pub const HTTP_ROUTE_RECONCILE_ERROR: &str = "HTTPRouteReconcileError";
    /// The names of LoRA adapters cannot be matched as the service or the platform asks. The previous route stays.
    pub const ROUTING_PRECONDITION_NOT_MET: &str = "RoutingPreconditionNotMet";
    /// The route could not be read.
    pub const HTTP_ROUTE_FETCH_ERROR: &str = "HTTPRouteFetchError";
    /// A Gateway does not accept a route.
    pub const HTTP_ROUTES_NOT_READY: &str = "HTTPRoutesNotReady";
    /// The pool could not be read.
    pub const INFERENCE_POOL_FETCH_ERROR: &str = "InferencePoolFetchError";
    /// No Gateway has reported on the pool yet.
    pub const WAITING_FOR_GATEWAY: &str = "WaitingForGateway";
    /// A Gateway does not accept the pool.
    pub const INFERENCE_POOL_NOT_READY: &str = "InferencePoolNotReady";
    /// The picker could not be made or written.
    pub const SCHEDULER_RECONCILE_ERROR: &str = "SchedulerReconcileError";
    /// A rollout took too long.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// The service is being deleted, and other members of its routing group still send traffic to it.
    pub const FINALIZATION_PENDING: &str = "FinalizationPending";
    /// Members of a routing group serve different models.
    pub const MEMBER_DIVERGENCE: &str = "MemberDivergence";
    /// The cluster cannot mount images as volumes.
    pub const IMAGE_VOLUME_UNSUPPORTED: &str = "ImageVolumeUnsupported";
    /// The cluster cannot mount a folder of an image as a volume.
    pub const IMAGE_VOLUME_SUB_PATH_UNSUPPORTED: &str = "ImageVolumeSubPathUnsupported";
    /// Image volumes are an alpha feature in the Kubernetes version of the cluster.
    pub const IMAGE_VOLUME_ALPHA: &str = "ImageVolumeAlpha";
    /// The newest spec was not reconciled successfully.
    pub const NEW_OBSERVED_GENERATION_FAILURE: &str = "NewObservedGenFailure";
    /// The workload serves, and pods that are being terminated finish their requests.
    pub const PODS_DRAIN: &str = "PodsDrain";
    /// The platform's shared picker cannot pick for this service, whose own pods do.
    pub const PICKER_NEEDS_POD: &str = "PickerNeedsPod";
    /// The shared picker does not pick for this service.
    pub const SHARED_PICKER_MISSING: &str = "SharedPickerMissing";
    /// The shared picker picks with a former configuration, because it has failed with the newest one.
    pub const SHARED_PICKER_FAILED: &str = "SharedPickerFailed";
    /// The shared picker has refused requests of this service in the last minutes, because the service has met a limit.
    pub const SHARED_PICKER_LIMITED: &str = "SharedPickerLimited";
    /// An init container downloads the model.
    pub const DOWNLOADING: &str = "Downloading";
    /// An init container downloads the model and does not report its progress.
    pub const PROGRESS_UNKNOWN: &str = "ProgressUnknown";
    /// Every ready pod has every LoRA adapter.
    pub const ALL_ADAPTERS_LOADED: &str = "AllAdaptersLoaded";
    /// LoRA adapters are being loaded, or unloaded.
    pub const LOADING_ADAPTERS: &str = "LoadingAdapters";
    /// A LoRA adapter cannot be downloaded or loaded.
    pub const ADAPTER_FAILED: &str = "AdapterFailed";
    /// This service cannot load LoRA adapters while its pods run. Its pods have them from the start.
    pub const ADAPTERS_NEED_ROLLOUT: &str = "AdaptersNeedRollout";
    /// A response with a token of the model arrived.
    pub const TOKEN_RECEIVED: &str = "TokenReceived";
    /// The test request is in progress.
    pub const PROOF_PENDING: &str = "ProofPending";
    /// The annotation for the proof of serving has an unknown value.
    pub const PROOF_SETTING_INVALID: &str = "ProofSettingInvalid";
    /// The proof waits until the other conditions of the service are true.
    pub const WAITING_FOR_READINESS: &str = "WaitingForReadiness";
    /// All pods have the same revision.
    pub const ONE_REVISION: &str = "OneRevision";
    /// Not all pods have the newest revision yet.
    pub const WAITING_FOR_ROLLOUT: &str = "WaitingForRollout";
    /// No test request is possible: a pod, an address or a ConfigMap is missing.
    pub const NOTHING_TO_ASK: &str = "NothingToAsk";
    /// The gateway accepts no connections.
    pub const GATEWAY_UNREACHABLE: &str = "GatewayUnreachable";
    /// The certificate of the gateway is not trusted.
    pub const GATEWAY_NOT_TRUSTED: &str = "GatewayNotTrusted";
    /// The gateway has no route for the request.
    pub const NO_ROUTE: &str = "NoRoute";
    /// The gateway, the engine, or a proxy before or behind the gateway, requires credentials.
    pub const CREDENTIALS_REQUIRED: &str = "CredentialsRequired";
    /// The picker chose no pod that the gateway can use.
    pub const PICKER_FAILED: &str = "PickerFailed";
    /// The engine, or the sidecar in front of it, failed.
    pub const ENGINE_FAILED: &str = "EngineFailed";
    /// The gateway accepted the request, and no complete response arrived.
    pub const NO_ANSWER: &str = "NoAnswer";
    /// The engine serves no model with the name that the service gives it.
    pub const MODEL_NOT_SERVED: &str = "ModelNotServed";
    /// The response is from another model.
    pub const WRONG_MODEL: &str = "WrongModel";
    /// The response contains no token.
    pub const NO_TOKEN: &str = "NoToken";
    /// The response is not a completion of the OpenAI API.
    pub const UNREADABLE_ANSWER: &str = "UnreadableAnswer";
    /// The request was refused.
    pub const REQUEST_REFUSED: &str = "RequestRefused";
    /// The decode pods used KV cache that they did not compute.
    pub const KV_TRANSFERRED: &str = "KVTransferred";
    /// No prefill pod processed the request.
    pub const PREFILL_NOT_USED: &str = "PrefillNotUsed";
    /// The metrics of the decode pods count failed transfers.
    pub const TRANSFER_FAILED: &str = "TransferFailed";
    /// The prefill pods computed the prompt, and the decode pods computed it again.
    pub const KV_NOT_TRANSFERRED: &str = "KVNotTransferred";
    /// Neither the response nor the metrics show whether KV cache was transferred.
    pub const NO_EVIDENCE: &str = "NoEvidence";
    /// The metrics of the pods cannot be read.
    pub const METRICS_UNREADABLE: &str = "MetricsUnreadable";
    /// Services use the config.
    pub const IN_USE: &str = "InUse";
    /// No service uses the config.
    pub const NOT_IN_USE: &str = "NotInUse";
    /// The config cannot be deleted while services use it. Also the reason of an event.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
}

/// Reasons of events.
pub mod event {
    /// A layer sets the variable in which the controller puts the argument for KV cache offloading.
    pub const KV_TRANSFER_SLOT_CONFLICT: &str = "KVTransferSlotConflict";
    /// A child was created.
    pub const CREATED: &str = "Created";
    /// A child was changed.
    pub const UPDATED: &str = "Updated";
    /// A child was deleted.
    pub const DELETED: &str = "Deleted";
    /// The reconciliation failed.
    pub const ERROR: &str = "Error";
    /// The status could not be written.
    pub const UPDATE_FAILED: &str = "UpdateFailed";
    /// The service became ready.
    pub const READY: &str = "LLMInferenceServiceReady";
    /// The service is no longer ready.
    pub const NOT_READY: &str = "LLMInferenceServiceNotReady";
    /// A config cannot be deleted while services use it.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// The cluster has no API for the wanted autoscaler.
    pub const SCALING_CRD_NOT_FOUND: &str = "ScalingCRDNotFound";
    /// A picker configuration in a ConfigMap uses the plugin for a latency predictor, which the controller does not add.
    pub const LATENCY_PREDICTOR_CONFIG_REF: &str = "LatencyPredictorConfigRef";
    /// The user's storage-initializer container sets fields that the controller owns.
    pub const STORAGE_INITIALIZER_OVERRIDE: &str = "StorageInitializerOverride";
    /// A picker keeps its current configuration, which the service does not set and which is not the default.
    pub const SCHEDULER_CONFIG_KEPT: &str = "SchedulerConfigKept";
    /// The picker configuration uses the former name of a plugin.
    pub const DEPRECATED_PLUGIN: &str = "DeprecatedPlugin";
    /// The picker's template has a tokenizer container, which the controller removes.
    pub const TOKENIZER_REMOVED: &str = "TokenizerRemoved";
    /// Two services of a namespace serve the same model name.
    pub const MODEL_NAME_COLLISION: &str = "ModelNameCollision";
    /// Members of a routing group serve different models.
    pub const MEMBER_DIVERGENCE: &str = "MemberDivergence";
}
