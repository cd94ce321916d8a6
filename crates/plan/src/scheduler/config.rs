//! Decides which configuration the picker gets.

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::SchedulerSpec;
use serde_json::{Map, Value, json};

use super::{config_text, loading::is_ours};
use crate::{context::Context, flags, yaml};

/// Where a picker's configuration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The service: its inline configuration, a reference, or its template.
    Asked,
    /// The live picker, whose configuration is not a default of this build.
    Kept,
    /// The default for a service of this shape.
    Default,
}

/// Gives the picker's container its configuration: the first that exists of the service's inline configuration, a
/// configuration flag in the template, the configuration of the live picker, and the default.
///
/// The live configuration comes before the default, so that an upgrade of the controller does not change how a running
/// service picks. But a live configuration that is a default of this build is replaced by the default for the service's
/// current shape: otherwise a picker that started without prefill would never use prefill pods that are added later.
pub(super) fn attach(
    context: &Context,
    container: &mut Container,
    inline: Option<String>,
    live: Option<&[String]>,
) -> Origin {
    let spreads = knows_sharing(context, container);
    let args = container.args.get_or_insert_default();
    flags::split_config(args);
    let (pair, origin) = match inline {
        Some(text) => (["--config-text".to_owned(), text], Origin::Asked),
        None if flags::config_pair(args).is_some() => return Origin::Asked,
        None => {
            let live = live.and_then(flags::config_pair);
            match live.map(|pair| (default_in(&pair[1]), pair)) {
                Some((None, pair)) => (pair, Origin::Kept),
                found => {
                    // A live picker whose default does not spread conversations keeps it that way.
                    let spreads =
                        spreads && found.is_none_or(|(live, _)| live.is_some_and(|live| live.spreads));
                    let text = yaml::to_yaml(&default(Shape::of(context, spreads)));
                    (["--config-text".to_owned(), text], Origin::Default)
                }
            }
        }
    };
    args.extend(pair);
    origin
}

/// The properties of a service that determine its default configuration.
#[derive(Clone, Copy)]
struct Shape {
    /// Whether prefill and decode run in separate pods.
    disaggregated: bool,
    /// Whether there are adapters.
    adapters: bool,
    /// Whether conversations with one system prompt are spread over the endpoints.
    spreads: bool,
}

/// Whether the picker is Longboat's. Another picker would not start with a parameter that it does not know.
fn knows_sharing(context: &Context, container: &Container) -> bool {
    container.image.as_ref().is_some_and(|image| is_ours(image, &context.snapshot.platform.images))
}

impl Shape {
    fn all() -> impl Iterator<Item = Self> {
        (0..8_u8).map(|bits| Self {
            disaggregated: bits & 1 != 0,
            adapters: bits & 2 != 0,
            spreads: bits & 4 != 0,
        })
    }

    fn of(context: &Context, spreads: bool) -> Self {
        let adapters = context.spec.model.lora.as_ref().is_some_and(|lora| !lora.adapters.is_empty());
        Self { disaggregated: context.spec.prefill.is_some(), adapters, spreads }
    }
}

/// Returns the shape whose default equals the text. The text may have additional plugins, which were added for the picker's
/// version.
fn default_in(text: &str) -> Option<Shape> {
    let live = config_text::parse(text);
    let plugins = |config: &Map<String, Value>| config.get("plugins").and_then(Value::as_array).cloned();
    let present = plugins(&live)?;
    Shape::all().find(|shape| {
        let Value::Object(default) = default(*shape) else { return false };
        default["schedulingProfiles"] == live.get("schedulingProfiles").cloned().unwrap_or_default()
            && plugins(&default).is_some_and(|plugins| present.starts_with(&plugins))
    })
}

/// The scorer that needs exact tokens.
pub(super) const PRECISE_SCORER: &str = "precise-prefix-cache-scorer";
const PREFIX_PRODUCER: &str = "approx-prefix-cache-producer";
const LORA_SCORER: &str = "lora-affinity-scorer";

/// The default configuration for a shape.
fn default(shape: Shape) -> Value {
    let (mut plugins, mut profiles) = if shape.disaggregated { disaggregated() } else { single_profile() };
    if shape.spreads {
        // A prefix that more than five conversations share counts as a system prompt; up to five may be questions about one
        // document, which stay together. This plugin comes first, so that the default without it is not a prefix of the
        // default with it.
        let producer = json!({"type": PREFIX_PRODUCER, "parameters": {"sharedPrefixAfter": 5}});
        plugins.insert(0, producer);
    }
    if shape.adapters {
        plugins.push(json!({"type": LORA_SCORER}));
        for (_, references) in &mut profiles {
            // After the filters, which come first if there are any.
            let at = references.iter().take_while(|(plugin, _)| plugin.ends_with("-filter")).count();
            references.insert(at, (LORA_SCORER, Some(4)));
        }
    }
    let profiles: Vec<Value> = profiles
        .into_iter()
        .map(|(name, references)| {
            let references = references.into_iter().map(|(plugin, weight)| match weight {
                Some(weight) => json!({"pluginRef": plugin, "weight": weight}),
                None => json!({"pluginRef": plugin}),
            });
            json!({"name": name, "plugins": references.collect::<Vec<_>>()})
        })
        .collect();
    json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": profiles,
    })
}

/// The plugins that a profile refers to, with their weights.
type References = Vec<(&'static str, Option<u8>)>;
/// A list of plugins, and profiles by name.
type Parts = (Vec<Value>, Vec<(&'static str, References)>);

fn single_profile() -> Parts {
    let plugins = [
        "single-profile-handler",
        "queue-scorer",
        "kv-cache-utilization-scorer",
        "prefix-cache-scorer",
        "no-hit-lru-scorer",
        "max-score-picker",
    ];
    let references = vec![
        ("queue-scorer", Some(2)),
        ("kv-cache-utilization-scorer", Some(2)),
        ("prefix-cache-scorer", Some(3)),
        ("no-hit-lru-scorer", Some(2)),
        ("max-score-picker", None),
    ];
    (plugins.map(|plugin| json!({"type": plugin})).to_vec(), vec![("default", references)])
}

fn disaggregated() -> Parts {
    let plain = [
        "disagg-headers-handler",
        "prefill-filter",
        "decode-filter",
        "queue-scorer",
        "kv-cache-utilization-scorer",
        "active-request-scorer",
        "prefix-cache-scorer",
        "max-score-picker",
        "always-disagg-pd-decider",
    ];
    let mut plugins = plain.map(|plugin| json!({"type": plugin})).to_vec();
    plugins.push(json!({
        "type": "disagg-profile-handler",
        "parameters": {"deciders": {"prefill": "always-disagg-pd-decider"}},
    }));
    let prefill = vec![
        ("prefill-filter", None),
        ("prefix-cache-scorer", Some(3)),
        ("queue-scorer", Some(2)),
        ("kv-cache-utilization-scorer", Some(2)),
        ("max-score-picker", None),
    ];
    let decode = vec![
        ("decode-filter", None),
        ("active-request-scorer", Some(2)),
        ("prefix-cache-scorer", Some(3)),
        ("max-score-picker", None),
    ];
    (plugins, vec![("prefill", prefill), ("decode", decode)])
}

/// Whether the configuration, inline or in the arguments of the template, lists a plugin of that type.
pub(super) fn lists(scheduler: &SchedulerSpec, plugin: &str) -> bool {
    let in_args = || {
        let pod = scheduler.template.as_ref()?;
        let args = pod.containers.iter().find(|container| container.name == "main")?.args.as_deref()?;
        flags::config_text_position(args).map(|at| args[at].clone())
    };
    let Some(text) = inline_text(scheduler).or_else(in_args) else { return false };
    let config = config_text::parse(&text);
    let listed = config.get("plugins").and_then(Value::as_array).into_iter().flatten();
    listed.into_iter().any(|found| found.get("type").and_then(Value::as_str) == Some(plugin))
}

/// The service's inline configuration as text for the picker: the text of a ConfigMap, or JSON.
pub(super) fn inline_text(scheduler: &SchedulerSpec) -> Option<String> {
    match scheduler.config.as_ref()?.inline.as_ref()? {
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}
