//! Which configuration the picker gets (contract/03 §9.4, §9.5).

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::SchedulerSpec;
use serde_json::{Value, json};

use crate::flags;
use crate::yaml;

/// Gives the picker's container its configuration, from the first of these that there is: the service's inline
/// configuration, a configuration flag of the template, the one that the live picker runs with, the default.
///
/// The live one comes before the default so that an upgrade of the controller does not change how a running service
/// picks; only an inline configuration, or a stop, does.
pub(super) fn attach(container: &mut Container, inline: Option<String>, live: Option<&[String]>) {
    let args = container.args.get_or_insert_default();
    let pair = match inline {
        Some(text) => ["--config-text".to_owned(), text],
        None if flags::config_pair(args).is_some() => return,
        None => live
            .and_then(flags::config_pair)
            .unwrap_or_else(|| ["--config-text".to_owned(), yaml::to_yaml(&default())]),
    };
    args.extend(pair);
}

/// The configuration of a service that does not bring one and does not split prefill from decode.
fn default() -> Value {
    let weighted = |plugin: &str, weight: u8| json!({"pluginRef": plugin, "weight": weight});
    json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [
            {"type": "single-profile-handler"},
            {"type": "queue-scorer"},
            {"type": "kv-cache-utilization-scorer"},
            {"type": "prefix-cache-scorer"},
            {"type": "no-hit-lru-scorer"},
            {"type": "max-score-picker"},
        ],
        "schedulingProfiles": [{
            "name": "default",
            "plugins": [
                weighted("queue-scorer", 2),
                weighted("kv-cache-utilization-scorer", 2),
                weighted("prefix-cache-scorer", 3),
                weighted("no-hit-lru-scorer", 2),
                {"pluginRef": "max-score-picker"},
            ],
        }],
    })
}

/// The service's inline configuration as the text that the picker gets: what a ConfigMap held, or JSON.
pub(crate) fn inline_text(scheduler: &SchedulerSpec) -> Option<String> {
    match scheduler.config.as_ref()?.inline.as_ref()? {
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}
