//! The page of conditions, their reasons, and the reasons of events.

use std::fmt::Write as _;

use longboat_api::conditions::ALL;

use crate::{NOTE, cell, differences, source};

/// What to do about the reasons of conditions.
const FIXES: &[(&str, &str)] = &[
    (
        "ConfigNotFound",
        "Correct the name in `baseRefs`, or create the config; a preset comes with `longboat install`.",
    ),
    ("CombineBaseError", "`longboat explain` names the layer and the template; correct it."),
    (
        "InvalidRenderedConfig",
        "Correct the field that the message names, in the layer that `longboat explain` shows.",
    ),
    ("Stopped", "Remove the annotation `serving.kserve.io/stop`."),
    (
        "ReconcileCertsError",
        "Read the message: usually rights on Secrets, or a Secret that another tool owns.",
    ),
    (
        "ReconcileWorkloadPermissionsError",
        "Create the service account that the template names; check the controller's rights with `longboat doctor`.",
    ),
    (
        "ReconcileSingleNodeWorkloadError",
        "Read the message: the API server's refusal, a missing Secret, or a model address that nothing can fetch.",
    ),
    ("ReconcileMultiNodeWorkloadError", "Read the message; is the LeaderWorkerSet API installed?"),
    ("ReconcileWorkloadServiceError", "Read the message: usually another object of that name."),
    ("ScalingCRDNotFound", "Install the API that the message names, or choose another autoscaler."),
    (
        "ReconcileScalingError",
        "Read the message; for KEDA, set `autoscaling-wva-controller-config` in the settings.",
    ),
    ("Progressing", "Wait; then look at the pods with `longboat status`."),
    ("HPAProgressing", "Wait; then `kubectl describe hpa`."),
    ("ScaledObjectProgressing", "Wait; then `kubectl describe so`, and see whether KEDA runs."),
    ("RefsInvalid", "Create the Gateway or route that the message names, or correct the reference."),
    ("GatewaysNotReady", "`kubectl describe gateway`: its controller says what is wrong."),
    ("GatewayPreconditionNotMet", "Give the Gateway what the message names."),
    ("HTTPRouteReconcileError", "Read the message: rights, or a missing Gateway API."),
    ("HTTPRouteFetchError", "Check that the API server answers and that the controller may read routes."),
    (
        "HTTPRoutesNotReady",
        "`kubectl describe httproute`: the Gateway's conditions say why it refuses the route.",
    ),
    ("InferencePoolFetchError", "Check that the API server answers and that the controller may read pools."),
    (
        "WaitingForGateway",
        "Use a Gateway controller that supports the Gateway API Inference Extension, and see that it runs.",
    ),
    ("InferencePoolNotReady", "`kubectl describe inferencepool`: the Gateway says why it refuses the pool."),
    ("SchedulerReconcileError", "Read the message: usually the picker's configuration."),
    ("ProgressDeadlineExceeded", "Look at the pods of the new ReplicaSet with `longboat doctor`."),
    ("FinalizationPending", "Wait until the gateway sends the member no more requests."),
    ("MemberDivergence", "Give all members of the group the same model name."),
    (
        "ImageVolumeUnsupported",
        "Kubernetes 1.31 or newer with image volumes, or `ociModelMode` `modelcar` or `fetch`.",
    ),
    ("ImageVolumeSubPathUnsupported", "Kubernetes 1.33 or newer, or another `ociModelMode`."),
    ("ImageVolumeAlpha", "Nothing, while the feature gate `ImageVolume` is on; else another `ociModelMode`."),
    ("Downloading", "Wait; the message says how long."),
    (
        "ProgressUnknown",
        "Let the controller reach the port that the message names: network policies. `kubectl logs POD -c storage-initializer` says it as well.",
    ),
    ("TokenReceived", "Nothing: the service answers."),
    ("ProofPending", "Wait."),
    (
        "ProofSettingInvalid",
        "Correct the annotation `longboat.dev/serving-proof`: `off`, `report` or `gate`.",
    ),
    ("OneRevision", "Nothing: any prefill pod can serve any decode pod."),
    ("WaitingForReadiness", "Look at the other conditions first."),
    ("WaitingForRollout", "Wait for the rollout; `longboat status` shows what it waits for."),
    ("NothingToAsk", "Scale up, or give the service a route."),
    ("GatewayUnreachable", "`kubectl get gateway -A`: is there an address, and may the controller reach it?"),
    ("GatewayNotTrusted", "Name the certificates in `servingProofCA` of key `longboat` in the settings."),
    ("NoRoute", "`kubectl describe httproute`: is it accepted by the Gateway of `status.url`?"),
    (
        "CredentialsRequired",
        "The proof sends no credentials: turn it off for this service, or exempt the controller.",
    ),
    ("PickerFailed", "`kubectl logs` of the picker; are pods of the pool ready?"),
    ("EngineFailed", "`kubectl logs` of the model server, and of the routing sidecar."),
    ("NoAnswer", "Look at the model server: is it stuck, or its queue full?"),
    ("ModelNotServed", "Compare `spec.model.name` with the `--served-model-name` of the engine."),
    (
        "WrongModel",
        "Compare `spec.model.name` with the `--served-model-name` of the engine; does another route take the path?",
    ),
    ("NoToken", "`kubectl logs` of the model server."),
    (
        "UnreadableAnswer",
        "See that `status.url` leads to a model server, and that nothing on the way answers in its place.",
    ),
    ("RequestRefused", "Read the message: it repeats the refusal."),
    ("KVTransferred", "Nothing: the decode pods use what the prefill pods computed."),
    ("PrefillNotUsed", "Look at the decider in the picker's configuration, and at the sidecar's log."),
    ("TransferFailed", "Look at the logs of the decode pods; is the network for KV transfers (RDMA) there?"),
    ("KVNotTransferred", "Give prefill and decode the same `--kv-transfer-config` and connector."),
    ("NoEvidence", "An engine that counts transfers; the service may be well."),
    ("MetricsUnreadable", "Let the controller reach the pods' port: network policies."),
    ("NewObservedGenFailure", "Look at the other conditions: the newest spec failed."),
    ("InUse", "Nothing: services use the config."),
    ("NotInUse", "Nothing: the config can be deleted."),
    ("DeletionBlocked", "Delete the services that use the config, or take it out of their `baseRefs`."),
];

/// Makes the page from the table of conditions and the source of reasons.
pub(crate) fn page(reasons: &str) -> String {
    let mut page = format!(
        "# Conditions and reasons\n\n{NOTE}\n\n`kubectl get llmisvc NAME -o yaml` shows conditions below `status`; `longboat status` \
         shows those that are not true; `longboat doctor` follows them to their first cause.\n\n## Conditions\n\n| condition | about |\n|---|---|\n"
    );
    for row in ALL {
        let _ = writeln!(page, "| `{}` | {} |", row.type_, cell(row.about.trim()));
    }
    page.push_str(
        "\n## Reasons of conditions\n\nReasons of workloads and autoscalers that are not in the list are those of the Deployment, the \
         HorizontalPodAutoscaler, KEDA or the Gateway, passed on.\n\n| reason | cause | what to do |\n|---|---|---|\n",
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
