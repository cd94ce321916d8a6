//! Compares complete compositions with `cases/`.

use std::collections::BTreeMap;

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_golden::{Entry, compatibility, folders, golden};
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use super::{
    recordings::{
        config_set, differences, inputs, platform, recorded_presets, remark, text, with_configs, yaml,
    },
    replay,
};
use crate::{ComposeError, Composer, ConfigSet, Inputs, Platform, codec, schema};

/// What newer versions of the reference do otherwise than the recorded one: the case, the start of each difference, and the
/// entry of `compatibility.yaml` that says why.
const REVERSED: [(&str, &str, &str); 8] = [
    ("config-explicit-empties", ".spec.template.containers[0].command[2]: ", "merged-spec-templates"),
    ("config-kv-from-config", ".spec.template.containers[0].command[2]: ", "merged-spec-templates"),
    ("config-parallelism-from-config", "no error, theirs failed to merge config: ", "merged-spec-templates"),
    ("config-shadow-preset", ".appliedConfigs[2].source: ", "preset-copies"),
    ("config-tgps-from-config", ".spec.template.containers[0].command[2]: ", "merged-spec-templates"),
    ("sched-inline-latency", ".appliedConfigs: ", "latency-predictor-retired"),
    ("sched-inline-latency", ".spec.router.scheduler.template.", "latency-predictor-retired"),
    ("topo-multi-pipeline-user-preset", ".appliedConfigs[2].source: ", "preset-copies"),
];

/// The input of composition in a case.
pub(super) struct World {
    pub(super) services: Vec<LLMInferenceService>,
    pub(super) configs: Vec<LLMInferenceServiceConfig>,
    pub(super) config_maps: BTreeMap<Key, BTreeMap<String, String>>,
    pub(super) platform: Option<Platform>,
}

impl World {
    /// Reads a case.
    pub(super) fn read(golden: &Entry, folder: &Entry) -> Self {
        let case = folder.name();
        let about = text(&folder.join("about.txt")).unwrap_or_default();
        let variant =
            about.lines().find_map(|l| l.strip_prefix("variant of the global ConfigMap: ")).map(str::trim);
        let platform = match variant {
            Some("missing") => None,
            variant => platform(golden, variant).ok(),
        };
        let mut world =
            Self { services: Vec::new(), configs: Vec::new(), config_maps: BTreeMap::new(), platform };
        for file in folder.join("input").entries() {
            let mut object = yaml(&file);
            if !object.is_object() {
                continue;
            }
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let object_name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = json!(case);
            }
            match kind.as_str() {
                "LLMInferenceService" => {
                    // An object that was denied may have values of the wrong type.
                    world.services.extend(serde_json::from_value::<LLMInferenceService>(object));
                }
                "ConfigMap" => {
                    let namespace = Namespace(object["metadata"]["namespace"].as_str().unwrap());
                    let data = serde_json::from_value(object["data"].clone()).unwrap_or_default();
                    world.config_maps.insert(Key::new(namespace, Name(&object_name)), data);
                }
                _ => {}
            }
        }
        world.read_stored(&folder.join("expected"));
        world
    }

    /// Reads objects in their stored form, with defaults. Denied objects are not among them.
    fn read_stored(&mut self, folder: &Entry) {
        for file in folder.entries() {
            let file_name = file.name();
            if file_name == "service.yaml" || file_name.starts_with("service-") {
                let mut stored = yaml(&file);
                stored.as_object_mut().unwrap().remove("status");
                // Some were read in version v1alpha1.
                let Ok(stored) = serde_json::from_value::<LLMInferenceService>(stored) else { continue };
                self.services.retain(|s| s.metadata.name != stored.metadata.name);
                self.services.push(stored);
            } else if file_name.starts_with("config-") {
                let mut stored = yaml(&file);
                stored.as_object_mut().unwrap().remove("status");
                self.configs.extend(serde_json::from_value::<LLMInferenceServiceConfig>(stored));
            }
        }
    }
}

fn compared(world: &World, presets: &ConfigSet, composer: &Composer, file: &Entry) -> Vec<String> {
    let file_name = file.name();
    let (stem, error) = match file_name.strip_suffix(".error.txt") {
        Some(stem) => (stem, text(file)),
        None => (file_name.trim_end_matches(".yaml"), None),
    };
    let wanted = stem.trim_start_matches("composed-");
    let Some(service) = world.services.iter().find(|s| s.metadata.name.as_deref() == Some(wanted)) else {
        return vec![format!("no service {wanted}")];
    };
    let Some(platform) = &world.platform else { return vec!["no platform settings".to_owned()] };
    let configs = with_configs(presets, &world.configs);
    let result =
        composer.compose(&Inputs { config_maps: &world.config_maps, ..inputs(service, &configs, platform) });
    match (result, error) {
        (Err(ours), Some(theirs)) if ours.to_string() == theirs => Vec::new(),
        // The reference's message lacks the name of a ConfigMap that does not exist.
        (Err(ComposeError::SchedulerConfigMissing { .. }), Some(theirs))
            if theirs.starts_with("ConfigMap / doesn't have key") =>
        {
            Vec::new()
        }
        (Err(ours), theirs) => vec![format!("our error {ours}, theirs {theirs:?}")],
        (Ok(_), Some(theirs)) => vec![format!("no error, theirs {theirs}")],
        (Ok(ours), None) => {
            let faults = replay::faults(&ours);
            if !faults.is_empty() {
                return faults;
            }
            let theirs = yaml(file);
            let ours = json!({
                "appliedConfigs": ours.applied,
                "spec": normalised(serde_json::to_value(&ours.spec).unwrap()),
            });
            let theirs = json!({
                "appliedConfigs": theirs.get("appliedConfigs").filter(|v| !v.is_null()).cloned().unwrap_or(json!([])),
                "spec": normalised(theirs["spec"].clone()),
            });
            differences(&ours, &theirs)
        }
    }
}

fn normalised(spec: Value) -> Value {
    codec::normalise(schema::TYPES.spec, spec).unwrap()
}

#[test]
fn compositions_equal_the_recordings() {
    let golden = golden();
    let presets = config_set(&recorded_presets(&golden));
    let mut different = Vec::new();
    let mut equal = 0;
    let mut occurs = REVERSED.map(|(.., id)| {
        compatibility::deviation(id);
        false
    });
    let composer = Composer::default();
    for folder in folders(&golden) {
        let mut files = folder.join("expected").entries();
        files.retain(|file| file.name().starts_with("composed-"));
        if files.is_empty() {
            continue;
        }
        let world = World::read(&golden, &folder);
        for file in files {
            let mut found = compared(&world, &presets, &composer, &file);
            for (at, &(case, start, _)) in REVERSED.iter().enumerate() {
                let before = found.len();
                found.retain(|difference| folder.name() != case || !difference.starts_with(start));
                occurs[at] |= found.len() < before;
            }
            if found.is_empty() {
                equal += 1;
            } else {
                different.push(format!("{}/{}:\n    {}", folder.name(), file.name(), found.join("\n    ")));
            }
        }
    }
    remark(&format!("compositions: {equal} equal, {} different", different.len()));
    assert!(different.is_empty(), "{}", different.join("\n"));
    let unused: Vec<_> = REVERSED.iter().zip(occurs).filter(|(_, occurs)| !occurs).collect();
    assert!(unused.is_empty(), "these do not differ: {unused:?}");
}
