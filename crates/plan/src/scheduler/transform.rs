//! Migrates an older picker configuration to what the picker's version understands.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::{
    labels,
    picker_config::{FORMER_VERSION, OLDEST_VERSION},
    picker_plugins::{self, PRECISE_SCORER, PREFIX_SCORER},
};
use longboat_compose::version::{Version, VersionError};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{
    config_text,
    plugin_list::{drop_parameter, has_plugin, is_type, plugins_mut, push_plugin, rename_plugin},
    precise_prefix, tokenizer,
};
use crate::{flags, yaml};

/// Why a picker's pod cannot be migrated to its version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransformError {
    /// The version annotation does not parse.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// Flags that have to move into the configuration, on a picker whose configuration is not inline text.
    #[error(
        "the scheduler version no longer supports flags {flags}, and there is no inline --config-text into which the \
         controller could move them: set them in the configuration file"
    )]
    FlagsWithoutConfig {
        /// The flags, sorted and comma-separated.
        flags: String,
    },
    /// A boolean flag with another value than true or false.
    #[error("invalid boolean value \"{value}\" for --{flag}")]
    NotABoolean {
        /// The flag's name.
        flag: &'static str,
        /// The given value.
        value: String,
    },
}

/// Metric flags that 0.7 removed, with the key of the engine configuration that replaces each.
const METRIC_FLAGS: [(&str, &str); 5] = [
    ("total-queued-requests-metric", "queuedRequestsSpec"),
    ("total-running-requests-metric", "runningRequestsSpec"),
    ("kv-cache-usage-percentage-metric", "kvUsageSpec"),
    ("lora-info-metric", "loraSpec"),
    ("cache-info-metric", "cacheInfoSpec"),
];

const SKIP_VERIFY: &str = "model-server-metrics-https-insecure-skip-verify";
/// A scraping flag that 0.10 removed without replacement: since then, metrics are scraped at the port of the pool.
const PORT: &str = "model-server-metrics-port";

/// Scraping flags that 0.10 replaced by parameters of a plugin.
const SCRAPE_FLAGS: [&str; 3] = [SKIP_VERIFY, "model-server-metrics-path", "model-server-metrics-scheme"];

/// A parameter that no plugin has since 0.7.
const HASH_BLOCK_SIZE: &str = "hashBlockSize";

/// Whether a parameter of a plugin is left out for the picker's release, without another one in its place. Since 0.9, another plugin has
/// the parameters of the prefix scorer's index.
pub(super) fn is_dropped(plugin: &str, parameter: &str) -> bool {
    parameter == HASH_BLOCK_SIZE || plugin == PREFIX_SCORER && parameter != "prefixMatchInfoProducerName"
}

/// Rewrites flags and configuration text of a picker's pod for the version that its template declares.
///
/// `tokenizer` is the URL of the service's tokenizer, if it has one.
///
/// A text that is not a mapping with a `kind` stays as it is, because it is not a known configuration.
///
/// # Errors
/// If the version does not parse, or if flags have to move into a configuration that is not inline text.
pub(super) fn apply(pod: &mut PodSpec, version: &str, tokenizer: Option<&str>) -> Result<(), TransformError> {
    let version = Version::parse(version)?;
    if version < Version::new(0, 7, 0) {
        return Ok(());
    }
    let Some((container, mut config)) = find_config(pod) else {
        if version >= Version::new(0, 10, 0) {
            take(pod, PORT);
        }
        return refuse_flags_without_config(pod, version);
    };
    if !config.contains_key("kind") {
        return Ok(());
    }

    rename_plugin(
        &mut config,
        picker_plugins::PREFILL_HEADER_HANDLER,
        picker_plugins::DISAGG_HEADERS_HANDLER,
    );
    rename_plugin(&mut config, picker_plugins::PD_HANDLER, picker_plugins::DISAGG_HANDLER);
    restructure_disagg_handlers(&mut config);
    for plugin in plugins_mut(&mut config) {
        drop_parameter(plugin, HASH_BLOCK_SIZE);
    }
    move_metric_flags(pod, &mut config);
    if version >= Version::new(0, 8, 0) {
        rename_plugin(&mut config, picker_plugins::OLD_METRICS_EXTRACTOR, picker_plugins::METRICS_EXTRACTOR);
    }
    if version >= Version::new(0, 9, 0) {
        to_0_9(pod, &mut config);
        if let Some(url) = tokenizer {
            precise_prefix::decompose(&mut config);
            precise_prefix::point_to_tokenizer(&mut config, url);
        }
    }
    if version >= Version::new(0, 10, 0) {
        move_scrape_flags(pod, &mut config)?;
    }

    put_config(pod, &container, config);
    Ok(())
}

/// If the picker's own pod has a tokenizer, configures the picker to use it.
pub(super) fn use_sidecar(pod: &mut PodSpec) {
    let Some((container, mut config)) = find_config(pod) else { return };
    if !plugins_mut(&mut config).any(|plugin| is_type(plugin, PRECISE_SCORER)) {
        return;
    }
    precise_prefix::use_socket(&mut config);
    put_config(pod, &container, config);
}

/// Returns the container with the configuration text, and the parsed text.
fn find_config(pod: &PodSpec) -> Option<(String, Map<String, Value>)> {
    pod.containers.iter().find_map(|container| {
        let args = container.args.as_deref()?;
        let text = &args[flags::config_text_position(args)?];
        Some((container.name.clone(), Map::clone(&config_text::parse(text))))
    })
}

/// Writes the configuration back to where [`find_config`] found it. Flags before the text may have been removed, and the tokenizer
/// container too, so the text may be at another position.
fn put_config(pod: &mut PodSpec, container: &str, config: Map<String, Value>) {
    let container = pod.containers.iter_mut().find(|candidate| candidate.name == container);
    if let Some(args) = container.and_then(|container| container.args.as_mut())
        && let Some(at) = flags::config_text_position(args)
    {
        args[at] = yaml::to_yaml(&Value::Object(config));
    }
}

fn refuse_flags_without_config(pod: &PodSpec, version: Version) -> Result<(), TransformError> {
    let mut names: Vec<&str> = METRIC_FLAGS.iter().map(|(name, _)| *name).collect();
    if version >= Version::new(0, 10, 0) {
        names.extend(SCRAPE_FLAGS);
    }
    names.retain(|name| {
        pod.containers.iter().any(|container| {
            [&container.command, &container.args].into_iter().flatten().any(|words| flags::has(words, name))
        })
    });
    if names.is_empty() {
        return Ok(());
    }
    names.sort_unstable();
    Err(TransformError::FlagsWithoutConfig {
        flags: names.iter().map(|name| format!("--{name}")).collect::<Vec<_>>().join(", "),
    })
}

/// Moves the prefill decision from a threshold of the handler into a decider plugin.
fn restructure_disagg_handlers(config: &mut Map<String, Value>) {
    let mut missing: Vec<Value> = Vec::new();
    for plugin in plugins_mut(config) {
        if !is_type(plugin, picker_plugins::DISAGG_HANDLER) {
            continue;
        }
        let Some(parameters) = plugin.get_mut("parameters").and_then(Value::as_object_mut) else { continue };
        let threshold = parameters.remove("threshold").and_then(|value| value.as_f64());
        let decider = match parameters.remove("deciderPluginName").as_ref().and_then(Value::as_str) {
            Some(name) => name.to_owned(),
            None => {
                match threshold {
                    None => continue,
                    Some(threshold) if threshold <= 0.0 => {
                        missing.push(json!({"type": "always-disagg-pd-decider"}));
                        "always-disagg-pd-decider".to_owned()
                    }
                    Some(threshold) => {
                        // The threshold was in characters, and four characters are about one token.
                        let tokens = whole_number((threshold / 4.0).ceil().max(1.0));
                        missing.push(json!({"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": tokens}}));
                        "prefix-based-pd-decider".to_owned()
                    }
                }
            }
        };
        parameters.insert("deciders".into(), json!({"prefill": decider}));
    }
    missing.retain(|plugin| !plugin["type"].as_str().is_some_and(|name| has_plugin(config, &[name])));
    if missing.is_empty() {
        return;
    }
    if let Some(list) = config.get_mut("plugins").and_then(Value::as_array_mut) {
        let first_handler = list
            .iter()
            .position(|plugin| {
                plugin.get("type").and_then(Value::as_str) == Some(picker_plugins::DISAGG_HANDLER)
            })
            .unwrap_or(list.len());
        list.splice(first_handler..first_handler, missing);
    }
}

/// A whole number without a fraction. A float would be printed with one.
fn whole_number(value: f64) -> Value {
    format!("{value:.0}").parse::<i64>().map_or(json!(value), Value::from)
}

fn move_metric_flags(pod: &mut PodSpec, config: &mut Map<String, Value>) {
    // The flags go even if their values do not move: a picker does not start with a flag that it does not know.
    let mut engine = Map::new();
    for (flag, key) in METRIC_FLAGS {
        if let Some(value) = take(pod, flag) {
            engine.insert(key.into(), value.into());
        }
    }
    let names = [picker_plugins::OLD_METRICS_EXTRACTOR, picker_plugins::METRICS_EXTRACTOR];
    if engine.is_empty() || has_plugin(config, &names) {
        return;
    }
    engine.insert("name".into(), "vllm".into());
    push_plugin(
        config,
        json!({
            "name": names[0],
            "type": names[0],
            "parameters": {
                "engineLabelKey": labels::ENGINE_TYPE,
                "defaultEngine": "vllm",
                "engineConfigs": [engine],
            },
        }),
    );
}

fn to_0_9(pod: &mut PodSpec, config: &mut Map<String, Value>) {
    for plugin in plugins_mut(config) {
        if !is_type(plugin, PREFIX_SCORER) {
            continue;
        }
        if let Some(parameters) = plugin.get_mut("parameters").and_then(Value::as_object_mut) {
            parameters.retain(|key, _| !is_dropped(PREFIX_SCORER, key));
            if parameters.is_empty() {
                plugin.remove("parameters");
            }
        }
    }
    if !has_plugin(config, &[PRECISE_SCORER]) {
        pod.containers.retain(|container| container.name != tokenizer::SIDECAR);
    }
    if config.get("apiVersion").and_then(Value::as_str) == Some(OLDEST_VERSION) {
        config.insert("apiVersion".into(), FORMER_VERSION.into());
    }
}

fn move_scrape_flags(pod: &mut PodSpec, config: &mut Map<String, Value>) -> Result<(), TransformError> {
    take(pod, PORT);
    let mut parameters = Map::new();
    for flag in SCRAPE_FLAGS {
        let Some(value) = take(pod, flag) else { continue };
        let (name, value) = match flag {
            "model-server-metrics-scheme" => ("scheme", Value::from(value)),
            "model-server-metrics-path" => ("path", Value::from(value)),
            SKIP_VERIFY => ("insecureSkipVerify", Value::from(boolean(SKIP_VERIFY, value)?)),
            _ => continue,
        };
        parameters.insert(name.into(), value);
    }
    if !parameters.is_empty() && !has_plugin(config, &["metrics-data-source"]) {
        push_plugin(config, json!({"type": "metrics-data-source", "parameters": parameters}));
    }
    Ok(())
}

/// Removes a flag from the commands and arguments of all containers. Returns its last value.
fn take(pod: &mut PodSpec, flag: &str) -> Option<String> {
    let mut value = None;
    for Container { command, args, .. } in &mut pod.containers {
        for words in [command, args].into_iter().flatten() {
            value = flags::take(words, flag).or(value);
        }
    }
    value
}

fn boolean(flag: &'static str, value: String) -> Result<bool, TransformError> {
    match value.as_str() {
        // The words of Go's `strconv.ParseBool`. A flag without a value is on.
        "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(TransformError::NotABoolean { flag, value }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::{TransformError, apply};

    fn pod(args: &[&str]) -> PodSpec {
        PodSpec {
            containers: vec![Container {
                name: "main".into(),
                args: Some(args.iter().map(|arg| (*arg).to_owned()).collect()),
                ..Container::default()
            }],
            ..PodSpec::default()
        }
    }

    fn text_after(args: &[&str], version: &str) -> String {
        let mut pod = pod(args);
        apply(&mut pod, version, None).unwrap();
        pod.containers[0].args.clone().unwrap().pop().unwrap()
    }

    #[test]
    fn a_threshold_becomes_a_decider_in_front_of_its_handler() {
        let config = "kind: EndpointPickerConfig\nplugins:\n- type: pd-profile-handler\n  parameters:\n    threshold: 10\n    \
                      hashBlockSize: 5\n";
        assert_eq!(
            text_after(&["--config-text", config], "0.7.0"),
            "kind: EndpointPickerConfig\nplugins:\n- parameters:\n    nonCachedTokens: 3\n  type: \
             prefix-based-pd-decider\n- parameters:\n    deciders:\n      prefill: prefix-based-pd-decider\n  type: \
             disagg-profile-handler\n"
        );
    }

    #[test]
    fn text_without_a_kind_and_old_versions_are_left_alone() {
        assert_eq!(text_after(&["--config-text", "{a: 1}"], "0.10.0"), "{a: 1}");
        assert_eq!(text_after(&["--config-text", "{kind: x}"], "0.6.0"), "{kind: x}");
        assert_eq!(text_after(&["--config-text", "{kind: x}"], "0.7.0"), "kind: x\n");
    }

    #[test]
    fn scraping_flags_become_a_plugin_or_an_error_where_there_is_no_text() {
        assert_eq!(
            text_after(&["--model-server-metrics-scheme=https", "--config-text", "{kind: x}"], "0.10.0"),
            "kind: x\nplugins:\n- parameters:\n    scheme: https\n  type: metrics-data-source\n"
        );
        let mut without = pod(&["--model-server-metrics-scheme=https", "--config-file", "/c"]);
        let error = apply(&mut without, "0.10.0", None).unwrap_err();
        assert!(matches!(error, TransformError::FlagsWithoutConfig { .. }));
        assert!(
            error.to_string().contains("--model-server-metrics-scheme, and there is no inline --config-text")
        );
    }

    #[test]
    fn metric_flags_of_the_command_move_into_the_text_too() {
        let mut pod = pod(&["--config-text", "{kind: x}"]);
        pod.containers[0].command = Some(vec!["/app/epp".into(), "--lora-info-metric=lora".into()]);
        apply(&mut pod, "0.7.0", None).unwrap();
        assert_eq!(pod.containers[0].command.as_deref(), Some(&["/app/epp".to_owned()][..]));
        assert!(pod.containers[0].args.as_ref().unwrap()[1].contains("loraSpec: lora\n"));
    }

    #[test]
    fn the_port_of_metrics_is_dropped_also_beside_a_file() {
        let mut beside = pod(&["--model-server-metrics-port=8000", "--config-file", "/c"]);
        beside.containers[0].command =
            Some(vec!["/app/epp".into(), "--model-server-metrics-port".into(), "1".into()]);
        let mut older = beside.clone();
        apply(&mut beside, "0.10.0", None).unwrap();
        assert_eq!(beside.containers[0].command.as_deref(), Some(&["/app/epp".to_owned()][..]));
        assert_eq!(beside.containers[0].args, pod(&["--config-file", "/c"]).containers[0].args);
        let before = older.clone();
        apply(&mut older, "0.9.0", None).unwrap();
        assert_eq!(older, before, "earlier pickers have the flag");
        let mut both =
            pod(&["--model-server-metrics-port=1", "--model-server-metrics-path=/m", "--config-file", "/c"]);
        let error = apply(&mut both, "0.10.0", None).unwrap_err().to_string();
        assert!(
            error.contains("flags --model-server-metrics-path,") && !error.contains("metrics-port"),
            "{error}"
        );
    }
}
