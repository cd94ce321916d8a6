//! Checks whether all presets exist and have this version.

use longboat_api::names::preset;
use longboat_compose::presets;
use longboat_key::Namespace;

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
    reinstall,
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let system = facts.snapshot.system_namespace.as_deref();
    // A test ensures that the presets of this build can be read.
    let Ok(builtin) = presets::builtin(&facts.preset_names, system) else { return };
    for suffix in preset::shipped() {
        let name = facts.preset_names.full(suffix);
        let object = format!("LLMInferenceServiceConfig {system}/{name}");
        let live = facts.configs.iter().find(|config| {
            Namespace::of(&config.metadata) == system && config.metadata.name.as_deref() == Some(&name)
        });
        let Some(live) = live else {
            // A service that needs it has a finding of its own. KServe lacks presets for engines other than vLLM.
            let cause = format!("services for which this holds cannot be composed: {}", presets::why(suffix));
            let fix = format!("{}: it applies the presets of this build", reinstall::command(facts, ""));
            findings.push(Cause::new("PresetMissing", cause, fix).warning_about(object));
            continue;
        };
        let own = builtin.iter().find(|own| own.metadata.name.as_deref() == Some(&name));
        if own.is_some_and(|own| own.spec != live.spec) {
            let version = env!("CARGO_PKG_VERSION");
            let cause = format!(
                "the preset differs from that of Longboat {version}: it comes from another release, or \
                 somebody edited it"
            );
            let fix = format!(
                "`longboat diff MANIFEST --from-presets builtin` shows what it changes for a service; to replace it, {}; put changes of \
                 your own into a config that services name in spec.baseRefs",
                reinstall::command(facts, "")
            );
            findings.push(Cause::new("PresetDiffers", cause, fix).warning_about(object));
        }
    }
}
