//! Composition for tests.

use std::{collections::BTreeMap, sync::LazyLock};

use longboat_admission::MergedSpecs;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_compose::{
    ConfigSet, Inputs, Layer, PresetNames, compose as compose_layers, outcome::Outcome, platform::Platform,
};
use longboat_key::Key;
use serde_json::Value;

use super::{SYSTEM_NAMESPACE, cluster_model::ClusterModel};

static MERGED: LazyLock<MergedSpecs> = LazyLock::new(MergedSpecs::default);

/// The outcome of composition, and the spec to plan, if any.
pub(super) struct CompositionResult {
    pub(super) outcome: Outcome,
    pub(super) spec: Option<LLMInferenceServiceSpec>,
}

pub(super) fn platform(config_map: &Value) -> Option<Platform> {
    let data: BTreeMap<String, String> = serde_json::from_value(config_map["data"].clone()).unwrap();
    Platform::parse(&data, SYSTEM_NAMESPACE).ok()
}

pub(super) fn pins(service: &LLMInferenceService) -> BTreeMap<String, String> {
    PresetNames::default().pin(service.status.as_ref().map(|status| &status.annotations))
}

/// The presets of the reference with which the recordings were made.
pub(super) fn presets(golden: &longboat_golden::Entry) -> ConfigSet {
    let presets = longboat_golden::documents(&golden.join("base/presets-stored.yaml"));
    presets.into_iter().map(|preset| Layer::new(&serde_json::from_value(preset).unwrap()).unwrap()).collect()
}

pub(super) fn compose(world: &ClusterModel, service: &LLMInferenceService) -> CompositionResult {
    let config_maps: BTreeMap<Key, BTreeMap<String, String>> = world
        .snapshot
        .config_maps
        .iter()
        .map(|map| (Key::of(map), map.data.clone().unwrap_or_default()))
        .collect();
    let inputs = Inputs {
        service,
        configs: &world.configs,
        config_maps: &config_maps,
        platform: &world.snapshot.platform,
        system_namespace: SYSTEM_NAMESPACE,
        preset_names: &PresetNames::default(),
    };
    let stopped = longboat_api::annotations::is_stopped(service.metadata.annotations.as_ref());
    match compose_layers(&inputs) {
        Ok(effective) => {
            let rejection = MERGED.rejection(&effective.spec);
            let outcome = Outcome::of_merged(&effective.applied, rejection.as_ref(), stopped);
            let spec = match (outcome.stop, outcome.use_own_spec) {
                (Some(_), _) => None,
                (None, true) => Some(service.spec.clone()),
                (None, false) => Some(*effective.spec),
            };
            CompositionResult { outcome, spec }
        }
        Err(error) => {
            let outcome = Outcome::of_error(&error, stopped);
            let spec = outcome.use_own_spec.then(|| service.spec.clone());
            CompositionResult { outcome, spec }
        }
    }
}
