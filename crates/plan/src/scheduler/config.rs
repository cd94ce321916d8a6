//! Decides which configuration the picker gets.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{
    picker_config::{self, FORMER_VERSION, VERSION},
    picker_plugins::{LORA_SCORER, PREFIX_PRODUCER, PREFIX_SCORER},
    v1alpha2::SchedulerSpec,
};
use serde_json::{Value, json};

use super::{config_text, plugin_list::plugins};
use crate::{context::Context, flags, workload::pod_spec::main_args, yaml};

/// Where a picker's configuration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The service: its inline configuration, a reference, or its template.
    Service,
    /// The live picker, whose configuration is not a default of this build.
    LivePicker,
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
    let images = &context.snapshot.platform.images;
    let is_ours = container.image.as_ref().is_some_and(|image| images.are_ours(image));
    let args = container.args.get_or_insert_default();
    flags::split_config(args);
    let (pair, origin) = match inline {
        Some(text) => {
            // A picker does not start with both. The field of the service counts, as it does for a text in the template.
            for flag in ["config-file", "configFile"] {
                flags::take(args, flag);
            }
            (["--config-text".to_owned(), text], Origin::Service)
        }
        None if flags::config_pair(args).is_some() => return Origin::Service,
        None => {
            let live = live.and_then(flags::config_pair);
            match live.map(|pair| (default_in(&pair[1]), pair)) {
                Some((None, pair)) => (pair, Origin::LivePicker),
                found => {
                    // A live picker keeps the way in which its default spreads conversations.
                    let live =
                        found.and_then(|(live, _)| live).map_or(Spread::FewestRequests, |live| live.spread);
                    // Another picker would not start with parameters and plugins that it does not know.
                    let spread = if is_ours { live } else { Spread::AsReference };
                    let text = yaml::to_yaml(&default(Shape::of(context, spread)));
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
    spread: Spread,
}

/// How a default spreads conversations with one system prompt over the endpoints. Each later way was the default of a later
/// release of Longboat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// As the reference: not at all.
    AsReference,
    /// The system prompt is no affinity.
    SharedPrefixes,
    /// Also, new conversations go where the fewest requests went.
    FewestRequests,
}

impl Shape {
    fn all() -> impl Iterator<Item = Self> {
        let spreads = [Spread::AsReference, Spread::SharedPrefixes, Spread::FewestRequests];
        spreads.into_iter().flat_map(|spread| {
            (0..4_u8).map(move |bits| Self { disaggregated: bits & 1 != 0, adapters: bits & 2 != 0, spread })
        })
    }

    fn of(context: &Context, spread: Spread) -> Self {
        let adapters = !context.spec.adapters().is_empty();
        Self { disaggregated: context.spec.prefill.is_some(), adapters, spread }
    }
}

/// Returns the shape whose default equals the text. The text may have additional plugins, which were added for the picker's
/// version.
fn default_in(text: &str) -> Option<Shape> {
    let live = config_text::parse(text);
    Shape::all().find(|shape| {
        let Value::Object(default) = default(*shape) else { return false };
        let is_same = |field: &str| Some(&default[field]) == live.get(field);
        is_same("apiVersion")
            && is_same("schedulingProfiles")
            && plugins(&live).starts_with(plugins(&default))
    })
}

/// The default configuration for a shape.
fn default(shape: Shape) -> Value {
    let (mut plugins, mut profiles) =
        if shape.disaggregated { disaggregated() } else { single_profile(shape.spread) };
    if shape.spread != Spread::AsReference {
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
    // Earlier defaults keep the version that they were written in, because another text would roll their pickers.
    let version = if shape.spread == Spread::FewestRequests { VERSION } else { FORMER_VERSION };
    json!({
        "apiVersion": version,
        "kind": "EndpointPickerConfig",
        "plugins": plugins,
        "schedulingProfiles": profiles,
    })
}

/// The plugins that a profile refers to, with their weights.
type References = Vec<(&'static str, Option<u8>)>;
/// A list of plugins, and profiles by name.
type Parts = (Vec<Value>, Vec<(&'static str, References)>);

fn single_profile(spread: Spread) -> Parts {
    let no_hit = match spread {
        Spread::AsReference | Spread::SharedPrefixes => "no-hit-lru-scorer",
        Spread::FewestRequests => "no-hit-least-requests-scorer",
    };
    let references = vec![
        ("queue-scorer", Some(2)),
        ("kv-cache-utilization-scorer", Some(2)),
        (PREFIX_SCORER, Some(3)),
        (no_hit, Some(2)),
        ("max-score-picker", None),
    ];
    let used = references.iter().map(|(plugin, _)| *plugin);
    let plugins = std::iter::once("single-profile-handler").chain(used);
    (plugins.map(|plugin| json!({"type": plugin})).collect(), vec![("default", references)])
}

fn disaggregated() -> Parts {
    let plain = [
        "disagg-headers-handler",
        "prefill-filter",
        "decode-filter",
        "queue-scorer",
        "kv-cache-utilization-scorer",
        "active-request-scorer",
        PREFIX_SCORER,
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
        (PREFIX_SCORER, Some(3)),
        ("queue-scorer", Some(2)),
        ("kv-cache-utilization-scorer", Some(2)),
        ("max-score-picker", None),
    ];
    let decode = vec![
        ("decode-filter", None),
        ("active-request-scorer", Some(2)),
        (PREFIX_SCORER, Some(3)),
        ("max-score-picker", None),
    ];
    (plugins, vec![("prefill", prefill), ("decode", decode)])
}

/// Whether the configuration, inline or in the arguments of the template, lists a plugin of that type.
pub(super) fn lists(scheduler: &SchedulerSpec, plugin: &str) -> bool {
    let in_args = || {
        let args = main_args(scheduler.template.as_deref()?)?;
        // The template is as the user wrote it: `attach` has not split `--config-text=…` yet.
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        picker_config::config_text(&args).map(ToOwned::to_owned)
    };
    let Some(text) = inline_text(scheduler).or_else(in_args) else { return false };
    plugins(&config_text::parse(&text)).iter().any(|found| found["type"] == plugin)
}

/// The service's inline configuration as text for the picker: the text of a ConfigMap, or JSON.
pub(super) fn inline_text(scheduler: &SchedulerSpec) -> Option<String> {
    match scheduler.config.as_ref()?.inline.as_ref()? {
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}
