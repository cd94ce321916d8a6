//! Which plugins the picker's configuration lists.

use serde_json::Value;

use crate::v1alpha2::SchedulerSpec;

/// The spellings under which the picker takes its configuration as text.
const CONFIG_TEXT: [&str; 4] = ["--config-text", "-config-text", "--configText", "-configText"];

/// The picker's configuration: the inline one, or what the arguments of its container hold as text. None where it
/// cannot be read, or stands in a file or a ConfigMap.
pub(super) fn config(scheduler: &SchedulerSpec) -> Option<Value> {
    match scheduler.config.as_ref().and_then(|config| config.inline.as_ref()) {
        Some(Value::String(text)) => serde_saphyr::from_str(text).ok(),
        Some(value) => Some(value.clone()),
        None => {
            let pod = scheduler.template.as_ref()?;
            let main = pod.containers.iter().find(|container| container.name == "main")?;
            let args = main.args.as_deref()?;
            let text = args.iter().enumerate().find_map(|(at, arg)| match arg.split_once('=') {
                Some((flag, text)) => CONFIG_TEXT.contains(&flag).then_some(text),
                None if CONFIG_TEXT.contains(&arg.as_str()) => args.get(at + 1).map(String::as_str),
                None => None,
            })?;
            serde_saphyr::from_str(text).ok()
        }
    }
}

/// Types of the plugins that a configuration lists.
pub(super) fn types(config: &Value) -> impl Iterator<Item = &str> {
    let plugins = config.get("plugins").and_then(Value::as_array);
    plugins.into_iter().flatten().filter_map(|plugin| plugin.get("type").and_then(Value::as_str))
}
