//! Compares our presets with the reference's.

use std::collections::BTreeSet;

use longboat_golden::{folders, golden};
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::{
    cases::World,
    recordings::{config_set, differences, inputs, recorded_presets, with_configs},
};
use crate::{Composer, ConfigSet, Inputs, Platform, PresetNames, codec, platform::Images, presets, schema};

/// Whether a difference is intended: every script is our own, it finds the argument for KV cache offloading in a variable, the
/// offloaded cache counts in `/dev/shm`, and every container has a seccomp profile. Nothing else may differ.
fn meant(difference: &str) -> bool {
    difference.contains(".command[2]: ours \"")
        || difference.contains(".env: ours ") && difference.contains(r#"{"name":"KSERVE_KV_TRANSFER_ARGS","value":"--kv-transfer-config "#)
        || difference.contains(".emptyDir.sizeLimit: ours ")
        || difference.ends_with(
            ".template.initContainers[0].securityContext.seccompProfile: ours {\"type\":\"RuntimeDefault\"}, theirs null",
        )
}

fn composed(world: &World, configs: &ConfigSet, composer: &Composer) -> Vec<Result<Value, String>> {
    let Some(platform) = &world.platform else { return Vec::new() };
    let platform = &Platform { images: Images::Reference, ..platform.clone() };
    world
        .services
        .iter()
        .map(|service| {
            composer
                .compose(&Inputs { config_maps: &world.config_maps, ..inputs(service, configs, platform) })
                .map(|e| {
                    let spec = serde_json::to_value(&e.spec).unwrap();
                    json!({ "applied": e.applied, "spec": codec::normalise(schema::TYPES.spec, spec).unwrap() })
                })
                // Positions in error texts count the characters of the scripts, so only the reasons are compared.
                .map_err(|e| e.reason().to_owned())
        })
        .collect()
}

#[test]
fn our_presets_compose_to_what_the_recorded_ones_do_but_for_the_scripts() {
    let golden = golden();
    let theirs = config_set(&recorded_presets(&golden));
    let ours = config_set(&presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap());
    let composer = Composer::default();
    let mut unmeant = BTreeSet::new();
    for folder in folders(&golden) {
        let world = World::read(&golden, &folder);
        let with = |presets: &ConfigSet| composed(&world, &with_configs(presets, &world.configs), &composer);
        for (ours, theirs) in with(&ours).into_iter().zip(with(&theirs)) {
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => {
                    for difference in differences(&ours, &theirs).into_iter().filter(|d| !meant(d)) {
                        unmeant.insert(format!("{}: {difference}", folder.name()));
                    }
                }
                (ours, theirs) => {
                    if ours != theirs {
                        unmeant.insert(format!("{}: {ours:?} {theirs:?}", folder.name()));
                    }
                }
            }
        }
    }
    let list: Vec<_> = unmeant.into_iter().collect();
    assert!(list.is_empty(), "{} unmeant differences:\n{}", list.len(), list.join("\n"));
}

#[test]
fn every_embedded_preset_parses_and_is_in_the_canonical_form_of_its_type() {
    let presets = presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap();
    // `deploy/presets` installs the files in this list.
    let kustomization = include_str!("../../../../presets/kustomization.yaml");
    let mut listed: Vec<_> =
        kustomization.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    let mut embedded: Vec<_> = presets
        .iter()
        .map(|preset| format!("{}.yaml", &preset.metadata.name.as_ref().unwrap()["kserve-".len()..]))
        .collect();
    listed.sort_unstable();
    embedded.sort_unstable();
    assert_eq!(listed, embedded);
    for preset in presets {
        let layer = crate::Layer::new(&preset).unwrap();
        assert!(layer.name().starts_with("kserve-config-"));
        assert_eq!(layer.namespace(), Namespace("kserve"));
    }
}
