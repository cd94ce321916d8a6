//! Scales a half of the workload by a HorizontalPodAutoscaler, or by a ScaledObject of KEDA.

use k8s_openapi::{
    api::autoscaling::v2::{
        CrossVersionObjectReference, ExternalMetricSource, HorizontalPodAutoscaler,
        HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec, MetricTarget,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};
use longboat_api::{
    foreign::scaledobject::{ScaleTarget, ScaledObject, ScaledObjectSpec},
    labels::component,
    names::WVA_DESIRED_REPLICAS,
    reasons::{
        condition::{RECONCILE_SCALING_ERROR, SCALING_CRD_NOT_FOUND},
        event,
    },
    v1alpha2::{KedaAuthenticationRef, KedaSettings, KedaTrigger, ScalingSpec, WvaSpec},
};
use longboat_compose::{Platform, Warning};

use super::half::Half;
use crate::{context::Context, draft::Draft, key::Kind, labels, names};

/// A label with the name of a variant's accelerator, on workloads and their autoscalers.
const ACCELERATOR: &str = "inference.optimization/acceleratorName";
const MANAGED: &str = "llm-d.ai/managed";
const MODEL_ID: &str = "llm-d.ai/model-id";
const VARIANT_COST: &str = "llm-d.ai/variant-cost";

/// Why a half cannot be scaled as requested. Everything else of the half can be created.
pub(crate) struct Obstacle {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Returns what prevents a half from being scaled, if something does.
pub(crate) fn scaling_obstacle(context: &Context, half: &Half) -> Option<Obstacle> {
    let scaling = half.spec.scaling.as_ref()?;
    let by_wva = scaling.wva.as_ref().is_some_and(|wva| wva.keda.is_some());
    if !by_wva && scaling.keda.is_none() {
        return None;
    }
    let field = half.field();
    if !context.snapshot.capabilities.scaled_object {
        if let Err(message) = context.snapshot.check_listed(&[context.namespace], &[Kind::ScaledObject]) {
            return Some(Obstacle { reason: RECONCILE_SCALING_ERROR, message });
        }
        let message = format!(
            "the cluster does not serve keda.sh/v1alpha1 (ScaledObject), which {field}.scaling needs: \
             install KEDA (https://keda.sh), or use {field}.scaling.wva.hpa; the controller notices when \
             the API is installed"
        );
        return Some(Obstacle { reason: SCALING_CRD_NOT_FOUND, message });
    }
    if !by_wva {
        return None;
    }
    let message = missing_prometheus(&context.snapshot.platform)?;
    Some(Obstacle { reason: RECONCILE_SCALING_ERROR, message })
}

/// Returns what the settings of the platform lack for KEDA to read the metrics of the Workload Variant Autoscaler.
pub fn missing_prometheus(platform: &Platform) -> Option<String> {
    let section = "autoscaling-wva-controller-config";
    match platform.autoscaling.as_ref().map(|settings| &settings.prometheus) {
        Some(prometheus) if !prometheus.url.is_empty() => {
            let is_complete = prometheus.auth_modes.is_empty() == prometheus.trigger_auth_name.is_empty();
            (!is_complete).then(|| {
                format!(
                    "{section}.prometheus of inferenceservice-config needs both authModes and triggerAuthName, or neither"
                )
            })
        }
        _ => Some(format!("{section}.prometheus.url is required in inferenceservice-config when using KEDA")),
    }
}

/// Adds the autoscaler of the half, unless an obstacle prevents it. The condition reports the obstacle.
pub(super) fn plan(context: &Context, half: &Half, draft: &mut Draft) -> Result<(), String> {
    let Some(scaling) = &half.spec.scaling else { return Ok(()) };
    if let Some(obstacle) = scaling_obstacle(context, half) {
        if obstacle.reason == SCALING_CRD_NOT_FOUND {
            draft.events.push(Warning { reason: event::SCALING_CRD_NOT_FOUND, message: obstacle.message });
        }
        return Ok(());
    }
    let name = names::scaled_object(context.name, half.prefill);
    let (settings, metadata, triggers) = match (&scaling.wva, &scaling.keda) {
        (Some(wva), _) if wva.hpa.is_some() => {
            return draft.add(context, autoscaler(context, half, scaling, wva));
        }
        (Some(wva), _) => {
            let Some(settings) = &wva.keda else { return Ok(()) };
            let triggers = vec![desired_replicas(context, &name)];
            (settings, variant(context, half, wva, name), triggers)
        }
        (None, Some(direct)) => {
            let metadata = context.child_metadata(name, labels::of(component::WORKLOAD, context.name));
            (&direct.settings, metadata, direct.triggers.clone().unwrap_or_default())
        }
        (None, None) => return Ok(()),
    };
    draft.add(context, scaled_object(context, half, scaling, settings, metadata, triggers))
}

/// The object to scale: API version, kind and name.
fn target(context: &Context, half: &Half) -> [String; 3] {
    if half.is_group() {
        ["leaderworkerset.x-k8s.io/v1".into(), "LeaderWorkerSet".into(), half.group_name(context.name)]
    } else {
        ["apps/v1".into(), "Deployment".into(), half.deployment_name(context.name)]
    }
}

/// The labels and annotations by which the Workload Variant Autoscaler finds its objects.
pub(crate) fn variant_keys() -> impl Iterator<Item = &'static str> {
    [ACCELERATOR, MANAGED, MODEL_ID, VARIANT_COST].into_iter()
}

/// Metadata for an object of the Workload Variant Autoscaler.
fn variant(context: &Context, half: &Half, wva: &WvaSpec, name: String) -> ObjectMeta {
    let accelerator = half.spec.labels.get(ACCELERATOR).filter(|name| !name.is_empty());
    let mut own_labels = labels::of(component::WORKLOAD, context.name);
    own_labels.insert(ACCELERATOR.into(), accelerator.map_or("unknown", String::as_str).into());
    let mut annotations = labels::map([(MANAGED, "true"), (MODEL_ID, context.model_name())]);
    if !wva.variant_cost.is_empty() {
        annotations.insert(VARIANT_COST.into(), wva.variant_cost.clone());
    }
    ObjectMeta { annotations: Some(annotations), ..context.child_metadata(name, own_labels) }
}

fn autoscaler(
    context: &Context,
    half: &Half,
    scaling: &ScalingSpec,
    wva: &WvaSpec,
) -> HorizontalPodAutoscaler {
    let name = names::autoscaler(context.name, half.prefill);
    let [api_version, kind, target] = target(context, half);
    let selector = LabelSelector {
        match_labels: Some(labels::map([("variant_name", name.as_str())])),
        ..LabelSelector::default()
    };
    let metric = ExternalMetricSource {
        metric: MetricIdentifier { name: WVA_DESIRED_REPLICAS.into(), selector: Some(selector) },
        target: MetricTarget {
            type_: "Value".into(),
            value: Some(Quantity("1".into())),
            ..MetricTarget::default()
        },
    };
    HorizontalPodAutoscaler {
        metadata: variant(context, half, wva, name),
        spec: Some(HorizontalPodAutoscalerSpec {
            min_replicas: Some(scaling.min_replicas.unwrap_or(1)),
            max_replicas: scaling.max_replicas,
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some(api_version),
                kind,
                name: target,
            },
            metrics: Some(vec![MetricSpec {
                type_: "External".into(),
                external: Some(metric),
                ..MetricSpec::default()
            }]),
            behavior: wva.hpa.as_ref().and_then(|hpa| hpa.behavior.clone()),
        }),
        status: None,
    }
}

fn scaled_object(
    context: &Context,
    half: &Half,
    scaling: &ScalingSpec,
    settings: &KedaSettings,
    metadata: ObjectMeta,
    triggers: Vec<KedaTrigger>,
) -> ScaledObject {
    let [api_version, kind, name] = target(context, half);
    ScaledObject {
        metadata,
        spec: ScaledObjectSpec {
            scale_target_ref: ScaleTarget { api_version, kind, name },
            polling_interval: settings.polling_interval,
            initial_cooldown_period: settings.initial_cooldown_period,
            cooldown_period: settings.cooldown_period,
            idle_replica_count: settings.idle_replica_count,
            min_replica_count: scaling.min_replicas,
            max_replica_count: Some(scaling.max_replicas),
            advanced: settings.advanced.clone(),
            triggers,
            fallback: settings.fallback.clone(),
        },
        status: None,
    }
}

/// The trigger that reads from Prometheus how many replicas the Workload Variant Autoscaler wants.
fn desired_replicas(context: &Context, name: &str) -> KedaTrigger {
    let settings = context.snapshot.platform.autoscaling.clone().unwrap_or_default().prometheus;
    let query = format!(
        "{WVA_DESIRED_REPLICAS}{{variant_name=\"{name}\",exported_namespace=\"{}\"}}",
        context.namespace
    );
    let mut metadata = labels::map([
        ("serverAddress", settings.url.as_str()),
        ("query", query.as_str()),
        ("threshold", "1"),
        ("unsafeSsl", if settings.tls_insecure_skip_verify { "true" } else { "false" }),
    ]);
    if !settings.auth_modes.is_empty() {
        metadata.insert("authModes".into(), settings.auth_modes.clone());
    }
    let authentication = KedaAuthenticationRef {
        name: settings.trigger_auth_name.clone(),
        kind: settings.trigger_auth_kind.clone(),
    };
    KedaTrigger {
        type_: "prometheus".into(),
        name: "wva-desired-replicas".into(),
        metadata: Some(metadata),
        authentication_ref: Some(authentication).filter(|reference| !reference.name.is_empty()),
        ..KedaTrigger::default()
    }
}
