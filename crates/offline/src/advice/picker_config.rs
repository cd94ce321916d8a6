//! The configuration of the picker as the layers write it, wherever it is.

use longboat_api::{
    picker_config::{config_flag, is_text_flag},
    v1alpha2::LLMInferenceService,
};
use longboat_compose::Effective;
use longboat_key::Name;
use longboat_plan::{ConfigOrigin, PickerConfig, Plan, Snapshot, names};
use serde_json::Value;

use crate::pods::{MAIN, placed_words};

const SCHEDULER: &str = "spec.router.scheduler";

/// The configuration before the controller adapts it to the picker's release.
pub(super) struct WrittenConfig {
    pub value: Value,
    /// The field of the service that has the configuration, or refers to it.
    path: String,
    /// Whether the fields of the configuration are fields of the service.
    pub is_inline: bool,
    /// The ConfigMap that has it.
    map: Option<String>,
}

// === impl WrittenConfig ===

impl WrittenConfig {
    /// Returns `None` if there is none, or if it is a file that is not known.
    pub(super) fn of(
        snapshot: &Snapshot,
        service: &LLMInferenceService,
        effective: &Effective,
        plan: Option<&Plan>,
    ) -> Option<Self> {
        let scheduler = effective.spec.scheduler()?;
        if let Some(value) = scheduler.config.as_ref().and_then(|config| config.inline.clone()) {
            let map = effective.scheduler_config_map.as_ref().map(ToString::to_string);
            let field = if map.is_some() { "ref" } else { "inline" };
            let path = format!("{SCHEDULER}.config.{field}");
            return Some(match value {
                Value::String(text) => Self { value: parse(&text)?, path, is_inline: false, map },
                value => Self { value, path, is_inline: map.is_none(), map },
            });
        }
        let pod = scheduler.template.as_deref()?;
        let main = pod.containers.iter().find(|container| container.name == MAIN)?;
        let words: Vec<_> =
            placed_words(&format!("{SCHEDULER}.template.containers[name={MAIN}]"), main).collect();
        let (flag, value) = config_flag(&words.iter().map(|(_, word)| *word).collect::<Vec<_>>())?;
        let value = value?;
        // The value is a word, or the end of one.
        let (path, _) = words.iter().rev().find(|(_, word)| word.ends_with(value))?;
        let (text, map) = if is_text_flag(flag) {
            (value.to_owned(), None)
        } else {
            let config = planned(snapshot, service, plan?)?;
            let ConfigOrigin::ConfigMap { map, .. } = config.origin else { return None };
            (config.text, Some(map.to_string()))
        };
        Some(Self { value: parse(&text)?, path: path.clone(), is_inline: false, map })
    }

    /// The plugins of these types, with their places.
    pub(super) fn plugins<'a>(&'a self, types: &'a [&str]) -> impl Iterator<Item = (usize, &'a Value)> {
        let all = self.value["plugins"].as_array().into_iter().flatten().enumerate();
        all.filter(|(_, plugin)| types.iter().any(|name| plugin["type"] == *name))
    }

    /// The path of a part of the configuration, or of the field of the service that has all of it.
    pub(super) fn path(&self, part: &str) -> String {
        if self.is_inline { format!("{}.{part}", self.path) } else { self.path.clone() }
    }

    /// Says which plugin is meant, and in which ConfigMap it is.
    pub(super) fn name_of(&self, plugin: &Value) -> String {
        let name = plugin["type"].as_str().unwrap_or_default();
        match &self.map {
            Some(map) => format!("{name} in ConfigMap {map}"),
            None => name.to_owned(),
        }
    }
}

/// The configuration with which the picker starts.
pub(super) fn planned(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    plan: &Plan,
) -> Option<PickerConfig> {
    let picker = plan.children.deployment(&names::scheduler(Name::of(&service.metadata)))?;
    PickerConfig::of(picker, &snapshot.config_maps)
}

pub(super) fn parse(text: &str) -> Option<Value> {
    serde_saphyr::from_str(text).ok()
}
