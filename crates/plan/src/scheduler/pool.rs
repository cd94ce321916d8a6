//! The InferencePool, in both API groups that gateways understand.

use longboat_api::{
    foreign::{
        inferencepool::{InferencePool, InferencePoolSpec},
        inferencepool_x::{self, Extension},
    },
    labels::component,
    v1alpha2::SchedulerSpec,
};

use crate::{context::Context, draft::Draft, key::Kind, labels, names};

/// Plans the pool in each group that the cluster serves. Fails if the cluster serves neither.
pub(super) fn plan(context: &Context, scheduler: &SchedulerSpec, draft: &mut Draft) -> Result<(), String> {
    let capabilities = context.snapshot.capabilities;
    let Some(spec) = scheduler.pool.as_ref().and_then(|pool| pool.spec.as_ref()) else {
        return Err(
            "spec.router.scheduler.pool.spec is empty after composition: no preset provides it".into()
        );
    };
    if !capabilities.inference_pool && !capabilities.inference_pool_x {
        context.snapshot.check_listed(&[context.namespace], &[Kind::InferencePool, Kind::InferencePoolX])?;
        return Err(format!(
            "failed to get v1.InferencePool {}/{}: the cluster serves no InferencePool API: install the Gateway API \
             inference extension, or remove spec.router.scheduler",
            context.namespace,
            names::pool(context.name)
        ));
    }
    let metadata =
        context.child_metadata(names::pool(context.name), labels::of(component::SCHEDULER, context.name));
    if capabilities.inference_pool_x {
        let older = to_older(spec)?;
        draft.add(
            context,
            inferencepool_x::InferencePool { metadata: metadata.clone(), spec: older, status: None },
        )?;
    }
    if capabilities.inference_pool {
        draft.add(context, InferencePool { metadata, spec: spec.as_ref().clone(), status: None })?;
    }
    Ok(())
}

/// Converts the pool to the older API, which has a single port.
fn to_older(spec: &InferencePoolSpec) -> Result<inferencepool_x::InferencePoolSpec, String> {
    let port = spec
        .target_ports
        .first()
        .ok_or("spec.router.scheduler.pool.spec.targetPorts is empty: a pool needs a port")?;
    let picker = &spec.endpoint_picker_ref;
    let non_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(inferencepool_x::InferencePoolSpec {
        selector: spec.selector.match_labels.clone(),
        target_port_number: port.number,
        extension_ref: Extension {
            group: picker.group.clone(),
            kind: non_empty(&picker.kind),
            name: picker.name.clone(),
            port_number: picker.port.as_ref().map(|port| port.number),
            failure_mode: non_empty(&picker.failure_mode),
        },
    })
}
