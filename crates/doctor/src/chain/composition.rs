//! The cause if a service cannot be composed.

use longboat_api::{
    conditions::Condition, names::preset, reasons::condition as reason, v1alpha2::LLMInferenceService,
};
use longboat_key::{Name, Namespace, nearest};

use crate::{check::platform, facts::Facts, finding::Cause, reinstall};

pub(crate) fn follow(facts: &Facts, service: &LLMInferenceService, condition: &Condition) -> Cause {
    let namespace = Namespace::of(&service.metadata);
    let name = Name::of(&service.metadata);
    let message = condition.message.clone();
    match condition.reason.as_str() {
        reason::CONFIG_NOT_FOUND => {
            // The controller's message has the name in quotes.
            let missing = message.split('"').nth(1).unwrap_or_default();
            let visible = facts.configs.iter().filter(|config| {
                let home = Namespace::of(&config.metadata);
                home == namespace || home == facts.snapshot.system_namespace.as_deref()
            });
            let known: Vec<&str> = visible.filter_map(|config| config.metadata.name.as_deref()).collect();
            let is_preset = missing.starts_with(&facts.preset_names.prefix);
            let is_shipped = preset::shipped().any(|suffix| facts.preset_names.full(suffix) == missing);
            let fix = match nearest(known.iter().copied(), missing) {
                _ if known.contains(&missing) => format!(
                    "wait a moment: it exists now; if this does not change, check that the controller of namespace {} runs",
                    facts.snapshot.system_namespace
                ),
                Some(meant) => format!("spec.baseRefs: did you mean `{meant}`?"),
                None if is_shipped => format!("{}: it applies the presets", reinstall::command(facts, "")),
                None if is_preset => format!(
                    "no preset of this build has that name: apply an LLMInferenceServiceConfig of that name in {namespace}, or use \
                     another kind of parallelism, such as spec.parallelism.data with spec.parallelism.dataLocal"
                ),
                None => format!(
                    "apply that LLMInferenceServiceConfig in {namespace}, or remove it from spec.baseRefs"
                ),
            };
            Cause::new("ConfigNotFound", message, fix)
        }
        reason::RUNTIME_NOT_FOUND => {
            let fix = format!(
                "apply that ServingRuntime in {namespace} or a ClusterServingRuntime, correct spec.runtime, or remove it \
                 to serve with vLLM"
            );
            Cause::new("RuntimeNotFound", message, fix)
        }
        reason::RUNTIME_UNSUPPORTED => {
            let fix = "change what the message names, or remove spec.runtime to serve with vLLM";
            Cause::new("RuntimeUnsupported", message, fix)
        }
        reason::INVALID_RENDERED_CONFIG => {
            let fix = format!(
                "run `longboat explain {name} -n {namespace} PATH`: it shows which layer set a field"
            );
            Cause::new("ComposedSpecInvalid", message, fix)
        }
        // Without settings, no service is composed, and no command shows layers.
        _ if facts.platform_error.is_some() => Cause::new("PlatformSettings", message, platform::fix(facts)),
        _ => {
            let fix = format!(
                "run `longboat explain {name} -n {namespace}` to see the layers and what each one sets, or \
                 `longboat render --effective` to see the merged spec"
            );
            Cause::new("LayersDoNotCombine", message, fix)
        }
    }
}
