//! The configuration of a picker.

use serde_json::Value;

use crate::{names::MAIN_CONTAINER, picker_config::config_text, v1alpha2::SchedulerSpec};

/// The picker's configuration: the inline one, or what the arguments of its container hold as text. None where it
/// cannot be read, or stands in a file or a ConfigMap.
pub(super) fn config(scheduler: &SchedulerSpec) -> Option<Value> {
    match scheduler.config.as_ref().and_then(|config| config.inline.as_ref()) {
        Some(Value::String(text)) => serde_saphyr::from_str(text).ok(),
        Some(value) => Some(value.clone()),
        None => {
            let pod = scheduler.template.as_ref()?;
            let main = pod.containers.iter().find(|container| container.name == MAIN_CONTAINER)?;
            let args: Vec<&str> = main.args.iter().flatten().map(String::as_str).collect();
            let text = config_text(&args)?;
            serde_saphyr::from_str(text).ok()
        }
    }
}
