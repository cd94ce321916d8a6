//! The page of the picker's plugins. The picker's own parser determines the types and parameters.

use std::fmt::Write as _;

use longboat_scheduler::{
    Options, Scheduler,
    config::{DataLayer, EndpointPickerConfig},
    flow,
};
use serde_json::{Value, json};

use crate::{
    NOTE, cell, differences,
    sentences::{Description, SENTENCES},
};

/// The suffix of the names in a group, the group's title, and its purpose.
const GROUPS: [(&str, &str, &str); 7] = [
    ("-filter", "Filters", "Filters remove pods from the candidates."),
    (
        "-scorer",
        "Scorers",
        "Scorers give each candidate a score from 0 to 1. A profile multiplies the score by the scorer's `weight`.",
    ),
    ("-picker", "Pickers", "Pickers choose among the candidates by the sum of their scores."),
    ("-handler", "Profile handlers", "Profile handlers decide which scheduling profiles run for a request."),
    ("-decider", "Deciders", "Deciders decide whether a request goes through a further stage."),
    ("-producer", "Producers", "Producers compute data for other plugins."),
    ("other", "Others", "Parsers, sources of metrics, and the policies of flow control."),
];

/// A parameter that no plugin has.
const UNKNOWN: &str = "?";

/// Makes the page.
pub(crate) fn page() -> String {
    let mut page = format!(
        "# Picker plugins\n\n{NOTE}\n\nPlugins that an `EndpointPickerConfig` can declare in `plugins`. Write the configuration into \
         `spec.router.scheduler.config.inline` of a service. [Routing](../concepts/routing.md) explains how plugins work together. \
         Parameters that are not listed are refused. Types marked *alpha* need `--allow-experimental-plugins` in the picker's \
         arguments.\n"
    );
    for (suffix, title, about) in GROUPS {
        let _ = write!(page, "\n## {title}\n\n{about}\n");
        for name in longboat_scheduler::known_types().into_iter().filter(|name| group_of(name) == suffix) {
            plugin(&mut page, name);
        }
    }
    page
}

fn plugin(page: &mut String, name: &str) {
    let alpha = if is_alpha(name) { " *alpha*" } else { "" };
    let description = described(name);
    let _ =
        write!(page, "\n### {name}\n\n{}{alpha}\n", description.map_or("", |description| &description.does));
    let parameters = parameters(name);
    if parameters.is_empty() {
        return;
    }
    page.push_str("\n| parameter | effect |\n|---|---|\n");
    for parameter in parameters {
        let own = description.and_then(|description| description.parameters.get(&parameter));
        let effect = own.and_then(|own| own.as_ref().or_else(|| SENTENCES.shared.get(&parameter)));
        let _ = writeln!(page, "| `{parameter}` | {} |", cell(effect.map_or("", String::as_str)));
    }
}

fn described(name: &str) -> Option<&'static Description> {
    SENTENCES.plugins.get(name)
}

/// The group of a type: what its name ends with, or that of its sentence.
fn group_of(name: &str) -> &'static str {
    let group = described(name).map_or("", |description| description.group.as_str());
    let by_name = GROUPS.iter().map(|(suffix, ..)| *suffix).find(|suffix| name.ends_with(suffix));
    if group.is_empty() { by_name.unwrap_or("other") } else { group }
}

/// Types and parameters without a sentence, and sentences about what does not exist.
pub(crate) fn gaps() -> Vec<String> {
    let mut gaps = differences(
        "plugin",
        longboat_scheduler::known_types(),
        SENTENCES.plugins.keys().map(String::as_str),
    );
    for (name, description) in &SENTENCES.plugins {
        let known = parameters(name);
        let told =
            |name: &&String, own: &Option<String>| own.is_some() || SENTENCES.shared.contains_key(*name);
        let listed = description.parameters.iter().filter(|(name, own)| told(name, own));
        let listed = listed.map(|(name, _)| name.as_str());
        gaps.extend(differences(&format!("parameter of {name}:"), known.iter().map(String::as_str), listed));
    }
    gaps
}

/// Returns configurations with one plugin of this type, in each place where a part of the picker reads its parameters.
fn configurations(name: &str, parameters: &Value) -> Vec<EndpointPickerConfig> {
    // Flow control reads the parameters of whatever is named at a place: name only what belongs there.
    let used = [
        ("", json!({})),
        ("-detector", json!({"flowControl": {"saturationDetector": {"pluginRef": "it"}}})),
        ("limit-policy", json!({"flowControl": {"usageLimitPolicyPluginRef": "it"}})),
        ("holdback-policy", json!({"flowControl": {"usageLimitPolicyPluginRef": "it"}})),
        ("ceiling-policy", json!({"flowControl": {"usageLimitPolicyPluginRef": "it"}})),
        ("-fairness-policy", json!({"flowControl": {"defaultPriorityBand": {"fairnessPolicyRef": "it"}}})),
        ("-ordering-policy", json!({"flowControl": {"defaultPriorityBand": {"orderingPolicyRef": "it"}}})),
        ("-discovery", json!({"dataLayer": {"discovery": {"pluginRef": "it"}}})),
    ];
    let used = used.into_iter().filter(|(ending, _)| name.ends_with(ending)).map(|(_, config)| config);
    let parse = |mut config: Value| {
        config["apiVersion"] = json!("llm-d.ai/v1alpha1");
        config["kind"] = json!("EndpointPickerConfig");
        config["plugins"] = json!([{"name": "it", "type": name, "parameters": parameters}]);
        EndpointPickerConfig::parse(&config.to_string()).ok()
    };
    used.filter_map(parse).collect()
}

/// Returns the errors of the picker's parts about a configuration.
fn config_errors(config: &EndpointPickerConfig, allow_experimental: bool) -> Vec<String> {
    let options = Options { allow_experimental, ..Options::default() };
    let scheduler = Scheduler::new(config, options).err();
    let flow = flow::Settings::from_config(config).err();
    let data = DataLayer::from_config(config).err();
    [scheduler, flow, data].into_iter().flatten().map(|error| error.to_string()).collect()
}

fn is_alpha(name: &str) -> bool {
    let declared = configurations(name, &Value::Null);
    let says_so = |text: &String| text.contains("allow-experimental-plugins");
    declared.first().is_some_and(|config| {
        config_errors(config, false).iter().any(says_so) && !config_errors(config, true).iter().any(says_so)
    })
}

/// Returns the parameters of a type: the parser lists them in the error about an unknown parameter.
fn parameters(name: &str) -> Vec<String> {
    let probes = configurations(name, &json!({UNKNOWN: 0}));
    let mut texts = probes.iter().flat_map(|config| config_errors(config, true));
    let expected = texts.find_map(|text| {
        let (_, rest) = text.split_once(&format!("there is no field \"{UNKNOWN}\" here, only "))?;
        let known = rest.split(';').next().unwrap_or_default();
        Some(known.split(", ").map(str::to_owned).collect::<Vec<_>>())
    });
    expected.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_that_the_parser_takes() {
        assert_eq!(parameters("load-aware-scorer"), ["threshold"]);
        assert_eq!(parameters("queue-scorer"), Vec::<String>::new());
        assert!(parameters("utilization-detector").contains(&"queueDepthThreshold".to_owned()));
        assert!(parameters("priority-holdback-policy").contains(&"minCeiling".to_owned()));
        assert!(parameters("metrics-data-source").contains(&"scheme".to_owned()));
        assert!(parameters("file-discovery").contains(&"path".to_owned()));
    }

    #[test]
    fn what_needs_a_flag_is_marked() {
        assert!(is_alpha("session-affinity-scorer"));
        assert!(!is_alpha("queue-scorer"));
    }
}
