//! Where a picker's command line has its configuration, and which plugins a configuration lists.

use serde_json::Value;

/// The newest version of a picker's configuration.
pub const VERSION: &str = "llm-d.ai/v1";

/// The version before [`VERSION`].
pub const FORMER_VERSION: &str = "llm-d.ai/v1alpha1";

/// The version of the time before llm-d had its own group.
pub const OLDEST_VERSION: &str = "inference.networking.x-k8s.io/v1alpha1";

/// Whether the value of a flag is the text of a configuration.
pub fn is_text_flag(flag: &str) -> bool {
    matches!(name_of(flag), Some("config-text" | "configText"))
}

/// Whether a flag gives the picker its configuration, as text or as a file.
pub fn is_config_flag(flag: &str) -> bool {
    is_text_flag(flag) || matches!(name_of(flag), Some("config-file" | "configFile"))
}

/// The name of a flag. The picker takes one dash for two, as programs in Go do.
fn name_of(flag: &str) -> Option<&str> {
    flag.strip_prefix("--").or_else(|| flag.strip_prefix('-'))
}

/// Returns the last flag with a configuration, which counts for the picker, and its value, which follows `=` or is the next argument.
pub fn config_flag<'a>(args: &[&'a str]) -> Option<(&'a str, Option<&'a str>)> {
    args.iter().enumerate().rev().find_map(|(at, arg)| {
        let (flag, value) = match arg.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (*arg, args.get(at + 1).copied()),
        };
        is_config_flag(flag).then_some((flag, value))
    })
}

/// Returns the configuration in the arguments, unless the last flag names a file.
pub fn config_text<'a>(args: &[&'a str]) -> Option<&'a str> {
    config_flag(args).filter(|(flag, _)| is_text_flag(flag))?.1
}

/// The types of the plugins that a configuration lists.
pub fn plugin_types(config: &Value) -> impl Iterator<Item = &str> {
    let plugins = config.get("plugins").and_then(Value::as_array);
    plugins.into_iter().flatten().filter_map(|plugin| plugin.get("type").and_then(Value::as_str))
}
