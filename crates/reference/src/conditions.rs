//! The page of conditions, their reasons, and the reasons of events.

use std::fmt::Write as _;

use longboat_api::conditions::ALL;

use crate::{NOTE, cell, differences, source};

/// What to do about the reasons of conditions.
const FIXES: &[(&str, &str)] = &[
    (
        "ConfigNotFound",
        "Correct the name in `baseRefs`, or create the config. `longboat install` creates the presets.",
    ),
    (
        "RuntimeNotFound",
        "Create the ServingRuntime or ClusterServingRuntime that the message names, or correct `spec.runtime`.",
    ),
    (
        "RuntimeUnsupported",
        "Change the field or the runtime as the message says. Without `spec.runtime`, vLLM serves.",
    ),
    (
        "KVTransferSlotConflict",
        "Remove the variable `KSERVE_KV_TRANSFER_ARGS` from the container, and pass `--kv-transfer-config` in its `args`.",
    ),
    (
        "CombineBaseError",
        "Run `longboat explain`: it names the layer and the template. Correct the template.",
    ),
    ("LoRAMountPathCollision", "Rename one of the adapters that the message names."),
    (
        "InvalidRenderedConfig",
        "Correct the field that the message names, in the layer that `longboat explain` shows.",
    ),
    ("Stopped", "Remove the annotation `serving.kserve.io/stop`."),
    (
        "ReconcileCertsError",
        "Read the message. Usual causes: the controller lacks rights on Secrets, or another tool owns the Secret.",
    ),
    (
        "ReconcileSingleNodeWorkloadError",
        "Read the message. Usual causes: the API server refuses the object, a Secret is missing, or the scheme of the model address is not supported.",
    ),
    ("ReconcileMultiNodeWorkloadError", "Read the message. Check that the LeaderWorkerSet API is installed."),
    ("ReconcileWorkloadServiceError", "Read the message. Usual cause: another object has that name."),
    ("ScalingCRDNotFound", "Install the API that the message names, or choose another autoscaler."),
    (
        "ReconcileScalingError",
        "Read the message. For KEDA, set `autoscaling-wva-controller-config` in the settings.",
    ),
    ("Progressing", "Wait. If it lasts, look at the pods with `longboat status`."),
    ("HPAProgressing", "Wait. If it lasts, run `kubectl describe hpa`."),
    ("ScaledObjectProgressing", "Wait. If it lasts, run `kubectl describe so`, and check that KEDA runs."),
    ("RefsInvalid", "Create the Gateway or route that the message names, or correct the reference."),
    ("GatewaysNotReady", "Run `kubectl describe gateway`: its conditions state the problem."),
    ("GatewayPreconditionNotMet", "Change the Gateway as the message says."),
    (
        "HTTPRouteReconcileError",
        "Read the message. Usual causes: missing rights, or the Gateway API is not installed.",
    ),
    (
        "RoutingPreconditionNotMet",
        "Correct the match or the value that the message names, or set `spec.annotations[serving.kserve.io/lora-model-routing-strategy]` to `exact`.",
    ),
    ("HTTPRouteFetchError", "Check that the API server answers and that the controller may read routes."),
    (
        "HTTPRoutesNotReady",
        "Run `kubectl describe httproute`: the conditions state why the Gateway refuses the route.",
    ),
    ("InferencePoolFetchError", "Check that the API server answers and that the controller may read pools."),
    (
        "WaitingForGateway",
        "Use a Gateway controller that supports the Gateway API Inference Extension, and check that it runs.",
    ),
    (
        "InferencePoolNotReady",
        "Run `kubectl describe inferencepool`: the conditions state why the Gateway refuses the pool.",
    ),
    ("SchedulerReconcileError", "Read the message. Usual cause: an error in the picker's configuration."),
    (
        "ProgressDeadlineExceeded",
        "Run `longboat doctor` to see the problems of the pods of the new ReplicaSet.",
    ),
    ("FinalizationPending", "Wait until the other members no longer send traffic to the service."),
    ("MemberDivergence", "Give all members of the group the same model name."),
    (
        "ImageVolumeUnsupported",
        "Use Kubernetes 1.31 or newer with image volumes, or set `ociModelMode` to `modelcar` or `fetch`.",
    ),
    ("ImageVolumeSubPathUnsupported", "Use Kubernetes 1.33 or newer, or set another `ociModelMode`."),
    (
        "ImageVolumeAlpha",
        "Nothing if the feature gate `ImageVolume` is on. Otherwise set another `ociModelMode`.",
    ),
    (
        "PickerNeedsPod",
        "Nothing, if the service may keep its own picker. Otherwise remove what the message names from the picker's template or configuration.",
    ),
    (
        "SharedPickerMissing",
        "Check that Deployment `longboat-picker` in the namespace of the platform is available. `longboat install --set sharedPicker.enabled=true` writes it.",
    ),
    ("SharedPickerFailed", "Correct what the message names. The shared picker tries again by itself."),
    (
        "SharedPickerLimited",
        "Raise the flag that the message names, or give the service a picker of its own with the annotation `longboat.dev/picker: own`. The condition changes five minutes after the last refusal.",
    ),
    ("PodsDrain", "Wait. Nothing is wrong: the pods finish their running requests."),
    ("Downloading", "Wait. The message shows the progress."),
    (
        "ProgressUnknown",
        "Allow the controller to reach the port that the message names (network policies). `kubectl logs POD -c storage-initializer` shows the progress as well.",
    ),
    ("AllAdaptersLoaded", "Nothing. Clients can use every adapter."),
    ("LoadingAdapters", "Wait. The message says which pods lack which adapter."),
    (
        "AdapterFailed",
        "Read the message: it has the words of the engine or of the download. The loader tries again. `kubectl logs POD -c adapter-loader` shows each attempt.",
    ),
    (
        "AdaptersNeedRollout",
        "Nothing, or remove the annotation `longboat.dev/runtime-adapters`: the message says why a change of the adapters replaces the pods.",
    ),
    ("TokenReceived", "Nothing. The service answers."),
    ("ProofPending", "Wait."),
    ("ProofSettingInvalid", "Set the annotation `longboat.dev/serving-proof` to `off`, `report` or `gate`."),
    ("OneRevision", "Nothing. Every prefill pod can serve every decode pod."),
    ("WaitingForReadiness", "Fix the other conditions first."),
    ("WaitingForRollout", "Wait for the rollout. `longboat status` shows its progress."),
    ("NothingToAsk", "Read the message. Scale up, give the service a route, or create the ConfigMap."),
    (
        "GatewayUnreachable",
        "Check with `kubectl get gateway -A` that the Gateway has an address, and that the controller can reach it.",
    ),
    (
        "GatewayNotTrusted",
        "Put the CA certificates into a ConfigMap, and name it in the setting `servingProofCA` of key `longboat`.",
    ),
    (
        "NoRoute",
        "Check with `kubectl describe httproute` that the Gateway of `status.url` accepts the route.",
    ),
    (
        "CredentialsRequired",
        "Exempt the controller from authentication, or turn the proof off for this service. The proof sends no credentials.",
    ),
    ("PickerFailed", "Read the picker's log, and check that pods of the pool are ready."),
    ("EngineFailed", "Read the logs of the model server and of the routing sidecar."),
    ("NoAnswer", "Check whether the model server hangs or its queue is full."),
    ("ModelNotServed", "Compare `spec.model.name` with the `--served-model-name` of the engine."),
    (
        "WrongModel",
        "Compare `spec.model.name` with the `--served-model-name` of the engine, and check whether another route matches the path.",
    ),
    ("NoToken", "Read the log of the model server."),
    (
        "UnreadableAnswer",
        "Check that `status.url` leads to a model server, and that no proxy on the path answers instead.",
    ),
    ("RequestRefused", "Read the message: it quotes the response."),
    ("KVTransferred", "Nothing. The decode pods use the KV cache of the prefill pods."),
    ("PrefillNotUsed", "Check the decider in the picker's configuration, and read the sidecar's log."),
    ("TransferFailed", "Read the logs of the decode pods, and check the network for KV transfers (RDMA)."),
    ("KVNotTransferred", "Give prefill and decode the same `--kv-transfer-config` and connector."),
    ("NoEvidence", "Use an engine that counts transfers. The service may work nevertheless."),
    ("MetricsUnreadable", "Allow the controller to reach the port of the pods (network policies)."),
    ("NewObservedGenFailure", "Look at the other conditions: they state why the newest spec failed."),
    ("InUse", "Nothing. Services use the config."),
    ("NotInUse", "Nothing. The config can be deleted."),
    ("DeletionBlocked", "Delete the services that use the config, or remove it from their `baseRefs`."),
];

/// Makes the page from the table of conditions and the source of reasons.
pub(crate) fn page(reasons: &str) -> String {
    let mut page = format!(
        "# Conditions and reasons\n\n{NOTE}\n\n`kubectl get llmisvc NAME -o yaml` shows conditions below `status`; `longboat status` \
         shows the conditions that are not true; `longboat doctor` finds their root cause.\n\n## Conditions\n\n| condition | about |\n|---|---|\n"
    );
    for row in ALL {
        let _ = writeln!(page, "| `{}` | {} |", row.type_, cell(row.about.trim()));
    }
    page.push_str(
        "\n## Reasons of conditions\n\nConditions of workloads and autoscalers can have other reasons, which come from the Deployment, the \
         HorizontalPodAutoscaler, KEDA or the Gateway.\n\n| reason | cause | what to do |\n|---|---|---|\n",
    );
    for item in source::constants(source::block(reasons, "pub mod condition {")) {
        let fix = FIXES.iter().find(|(name, _)| *name == item.name).map_or("", |(_, fix)| fix);
        let _ = writeln!(page, "| `{}` | {} | {} |", item.name, cell(&item.doc), cell(fix));
    }
    page.push_str("\n## Reasons of events\n\n| reason | meaning |\n|---|---|\n");
    for item in source::constants(source::block(reasons, "pub mod event {")) {
        let _ = writeln!(page, "| `{}` | {} |", item.name, cell(&item.doc));
    }
    page
}

/// Reasons without advice, and advice about what does not exist.
pub(crate) fn gaps(reasons: &str) -> Vec<String> {
    let known = source::constants(source::block(reasons, "pub mod condition {"));
    differences("reason", known.iter().map(|item| item.name.as_str()), FIXES.iter().map(|(name, _)| *name))
}
