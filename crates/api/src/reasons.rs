//! Reasons of conditions and of events.

/// Reasons of conditions.
pub mod condition {
    /// A config that the service names, or a preset it needs, does not exist.
    pub const CONFIG_NOT_FOUND: &str = "ConfigNotFound";
    /// The configs could not be merged or rendered.
    pub const COMBINE_BASE_ERROR: &str = "CombineBaseError";
    /// The merged spec was refused.
    pub const INVALID_RENDERED_CONFIG: &str = "InvalidRenderedConfig";
    /// The service is stopped by its annotation.
    pub const STOPPED: &str = "Stopped";
    /// The certificate could not be made or written.
    pub const RECONCILE_CERTS_ERROR: &str = "ReconcileCertsError";
    /// Permissions of the workload could not be written.
    pub const RECONCILE_WORKLOAD_PERMISSIONS_ERROR: &str = "ReconcileWorkloadPermissionsError";
    /// A single-node workload could not be made or written.
    pub const RECONCILE_SINGLE_NODE_WORKLOAD_ERROR: &str = "ReconcileSingleNodeWorkloadError";
    /// A multi-node workload could not be made or written.
    pub const RECONCILE_MULTI_NODE_WORKLOAD_ERROR: &str = "ReconcileMultiNodeWorkloadError";
    /// The workload Service could not be written.
    pub const RECONCILE_WORKLOAD_SERVICE_ERROR: &str = "ReconcileWorkloadServiceError";
    /// The cluster has no API for the wanted autoscaler.
    pub const SCALING_CRD_NOT_FOUND: &str = "ScalingCRDNotFound";
    /// Autoscaling could not be written.
    pub const RECONCILE_SCALING_ERROR: &str = "ReconcileScalingError";
    /// Not there yet.
    pub const PROGRESSING: &str = "Progressing";
    /// The HorizontalPodAutoscaler has not reported yet.
    pub const HPA_PROGRESSING: &str = "HPAProgressing";
    /// The ScaledObject has not reported yet.
    pub const SCALED_OBJECT_PROGRESSING: &str = "ScaledObjectProgressing";
    /// A referenced Gateway or route does not exist.
    pub const REFS_INVALID: &str = "RefsInvalid";
    /// A Gateway is not programmed.
    pub const GATEWAYS_NOT_READY: &str = "GatewaysNotReady";
    /// What the route needs of a Gateway is missing.
    pub const GATEWAY_PRECONDITION_NOT_MET: &str = "GatewayPreconditionNotMet";
    /// The route could not be made or written.
    pub const HTTP_ROUTE_RECONCILE_ERROR: &str = "HTTPRouteReconcileError";
    /// The route could not be read.
    pub const HTTP_ROUTE_FETCH_ERROR: &str = "HTTPRouteFetchError";
    /// A route is not accepted by a Gateway.
    pub const HTTP_ROUTES_NOT_READY: &str = "HTTPRoutesNotReady";
    /// The pool could not be read.
    pub const INFERENCE_POOL_FETCH_ERROR: &str = "InferencePoolFetchError";
    /// No Gateway has said anything about the pool.
    pub const WAITING_FOR_GATEWAY: &str = "WaitingForGateway";
    /// A Gateway does not accept the pool.
    pub const INFERENCE_POOL_NOT_READY: &str = "InferencePoolNotReady";
    /// The picker could not be made or written.
    pub const SCHEDULER_RECONCILE_ERROR: &str = "SchedulerReconcileError";
    /// A rollout took too long.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// A member of a routing group is being removed.
    pub const FINALIZATION_PENDING: &str = "FinalizationPending";
    /// Members of a routing group serve different models.
    pub const MEMBER_DIVERGENCE: &str = "MemberDivergence";
    /// The cluster cannot mount images as volumes.
    pub const IMAGE_VOLUME_UNSUPPORTED: &str = "ImageVolumeUnsupported";
    /// The cluster cannot mount a folder of an image as a volume.
    pub const IMAGE_VOLUME_SUB_PATH_UNSUPPORTED: &str = "ImageVolumeSubPathUnsupported";
    /// Image volumes are an early feature of the cluster.
    pub const IMAGE_VOLUME_ALPHA: &str = "ImageVolumeAlpha";
    /// The newest spec was not reconciled successfully.
    pub const NEW_OBSERVED_GENERATION_FAILURE: &str = "NewObservedGenFailure";
    /// An init container downloads the model.
    pub const DOWNLOADING: &str = "Downloading";
    /// An init container downloads the model, and does not tell how far it is.
    pub const PROGRESS_UNKNOWN: &str = "ProgressUnknown";
    /// A token of the model came back.
    pub const TOKEN_RECEIVED: &str = "TokenReceived";
    /// The request that proves serving is on its way.
    pub const PROOF_PENDING: &str = "ProofPending";
    /// The annotation that asks for a proof has a value that is not known.
    pub const PROOF_SETTING_INVALID: &str = "ProofSettingInvalid";
    /// The proof waits until the service's own conditions hold.
    pub const WAITING_FOR_READINESS: &str = "WaitingForReadiness";
    /// All pods are of one revision.
    pub const ONE_REVISION: &str = "OneRevision";
    /// Something waits until all pods are of the newest revision.
    pub const WAITING_FOR_ROLLOUT: &str = "WaitingForRollout";
    /// There is no pod, or no address, to send a request to.
    pub const NOTHING_TO_ASK: &str = "NothingToAsk";
    /// The gateway does not take connections.
    pub const GATEWAY_UNREACHABLE: &str = "GatewayUnreachable";
    /// The certificate of the gateway is not trusted.
    pub const GATEWAY_NOT_TRUSTED: &str = "GatewayNotTrusted";
    /// The gateway has no route for the request.
    pub const NO_ROUTE: &str = "NoRoute";
    /// Something on the way asks for credentials.
    pub const CREDENTIALS_REQUIRED: &str = "CredentialsRequired";
    /// The picker chose no pod.
    pub const PICKER_FAILED: &str = "PickerFailed";
    /// The engine, or the sidecar before it, failed.
    pub const ENGINE_FAILED: &str = "EngineFailed";
    /// The request was taken and not answered.
    pub const NO_ANSWER: &str = "NoAnswer";
    /// The engine does not know the model by the service's name for it.
    pub const MODEL_NOT_SERVED: &str = "ModelNotServed";
    /// Another model answered.
    pub const WRONG_MODEL: &str = "WrongModel";
    /// The answer has no token.
    pub const NO_TOKEN: &str = "NoToken";
    /// The answer is none of this API.
    pub const UNREADABLE_ANSWER: &str = "UnreadableAnswer";
    /// The request was refused.
    pub const REQUEST_REFUSED: &str = "RequestRefused";
    /// The decode pods took KV cache from elsewhere.
    pub const KV_TRANSFERRED: &str = "KVTransferred";
    /// No prefill pod worked on the request.
    pub const PREFILL_NOT_USED: &str = "PrefillNotUsed";
    /// The decode pods counted failed transfers.
    pub const TRANSFER_FAILED: &str = "TransferFailed";
    /// The prefill pods worked, and the decode pods took nothing of it.
    pub const KV_NOT_TRANSFERRED: &str = "KVNotTransferred";
    /// Nothing says whether KV cache was transferred.
    pub const NO_EVIDENCE: &str = "NoEvidence";
    /// The metrics of the pods cannot be read.
    pub const METRICS_UNREADABLE: &str = "MetricsUnreadable";
    /// Services use the config.
    pub const IN_USE: &str = "InUse";
    /// No service uses the config.
    pub const NOT_IN_USE: &str = "NotInUse";
    /// The config cannot go while services use it; also the reason of an event.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
}

/// Reasons of events.
pub mod event {
    /// A child was created.
    pub const CREATED: &str = "Created";
    /// A child was changed.
    pub const UPDATED: &str = "Updated";
    /// A child was deleted.
    pub const DELETED: &str = "Deleted";
    /// Reconciling failed.
    pub const ERROR: &str = "Error";
    /// The status could not be written.
    pub const UPDATE_FAILED: &str = "UpdateFailed";
    /// The service became ready.
    pub const READY: &str = "LLMInferenceServiceReady";
    /// The service was ready and is not any more.
    pub const NOT_READY: &str = "LLMInferenceServiceNotReady";
    /// A config cannot go while services use it.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// The cluster has no API for the wanted autoscaler.
    pub const SCALING_CRD_NOT_FOUND: &str = "ScalingCRDNotFound";
    /// A picker configuration from a ConfigMap needs a latency predictor, which is not added for it.
    pub const LATENCY_PREDICTOR_CONFIG_REF: &str = "LatencyPredictorConfigRef";
    /// A user's storage-initializer sets fields that the controller owns.
    pub const STORAGE_INITIALIZER_OVERRIDE: &str = "StorageInitializerOverride";
    /// A picker keeps a configuration that nobody asks for and that is not the default of its service.
    pub const SCHEDULER_CONFIG_KEPT: &str = "SchedulerConfigKept";
    /// A picker plugin has a newer name.
    pub const DEPRECATED_PLUGIN: &str = "DeprecatedPlugin";
    /// Two services of a namespace serve the same model name.
    pub const MODEL_NAME_COLLISION: &str = "ModelNameCollision";
    /// Members of a routing group serve different models.
    pub const MEMBER_DIVERGENCE: &str = "MemberDivergence";
}
