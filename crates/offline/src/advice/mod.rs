//! Advice about a composed service: what a cluster accepts and what will not do what its writer means.

mod command;
mod device_names;
mod empty_dir;
mod engine_flags;
mod engine_key;
mod engine_variables;
mod grace;
mod image_devices;
mod images;
pub(crate) mod keys;
mod kv_events;
mod lora_rank;
mod memory;
mod model;
mod names;
mod picker_config;
mod placement;
mod pod_user;
mod pool;
mod probe_path;
mod probe_port;
mod probe_scheme;
mod routing;
pub(crate) mod scaling;
mod sglang;
#[cfg(test)]
mod tests;
mod tokenizer;
mod tracing;
mod transfer;
mod variables;

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::Effective;
use longboat_plan::Plan;

use crate::{finding::Advice, scene::Scene};

/// Where the model server finds the model.
const MODEL_PATH: &str = "/mnt/models";

/// Returns all advice about a service that composed to `effective`, with its plan if it has one.
pub(crate) fn of(
    scene: &Scene,
    service: &LLMInferenceService,
    effective: &Effective,
    plan: Option<&Plan>,
) -> Vec<Advice> {
    let mut all = model::check(scene.snapshot(), service, &effective.spec);
    all.extend(engine_flags::check(service, &effective.spec));
    all.extend(engine_key::check(service, &effective.spec));
    all.extend(command::check(&effective.spec));
    all.extend(engine_variables::check(&effective.spec));
    all.extend(sglang::check(&effective.spec));
    all.extend(lora_rank::check(&effective.spec));
    all.extend(memory::check(&effective.spec));
    all.extend(memory::over_limit(&effective.spec));
    all.extend(memory::without_unit(&effective.spec));
    all.extend(images::check(&effective.spec));
    all.extend(empty_dir::check(&effective.spec));
    all.extend(device_names::check(&effective.spec));
    all.extend(image_devices::check(&service.spec, &effective.spec));
    all.extend(placement::check(&effective.spec));
    all.extend(grace::check(&effective.spec));
    all.extend(scaling::check(&effective.spec));
    all.extend(scaling::never_wakes(scene.snapshot(), service, &effective.spec));
    all.extend(scaling::without_prometheus(&scene.snapshot().platform, &effective.spec));
    all.extend(pod_user::check(&effective.spec));
    all.extend(tracing::check(&effective.spec));
    all.extend(transfer::check(&effective.spec));
    all.extend(kv_events::check(scene.snapshot(), service, effective, plan));
    all.extend(plan.and_then(|plan| tokenizer::check(scene.snapshot(), service, effective, plan)));
    all.extend(keys::check(scene.snapshot(), service, &effective.spec));
    all.extend(routing::check(scene.snapshot(), service, &effective.spec));
    all.extend(probe_path::check(&effective.spec));
    all.extend(probe_port::check(&effective.spec));
    all.extend(probe_scheme::check(&effective.spec));
    all.extend(plan.and_then(|plan| pool::check(service, plan)));
    all.extend(names::check(scene.snapshot(), service, effective));
    all.extend(variables::check(scene.snapshot(), service, &effective.spec));
    all
}
