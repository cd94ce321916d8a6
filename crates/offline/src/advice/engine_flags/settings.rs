//! Settings in the JSON of a flag that vLLM does not take.

use longboat_api::vllm::{
    self,
    flags::{Flag, Kind},
    schema::Problem,
};
use serde_json::{Value, json};

use super::{reading::size, uses::FlagUse};
use crate::finding::Advice;

/// More levels than any settings have. Without a limit, a key of many dots makes JSON that overflows the stack.
const MAX_LEVELS: usize = 32;

/// Judges the value of a flag with a key of its JSON, such as `--kv-transfer-config.kv_role kv_both`.
pub(super) fn check_key(used: &FlagUse<'_>, flag: &Flag, keys: &str, value: &str) -> Option<Advice> {
    if !matches!(flag.kind, Kind::Json | Kind::Object) || keys.split('.').count() > MAX_LEVELS {
        return None;
    }
    let (keys, value) = match keys.strip_suffix('+') {
        // `--flag.key+ a,b` is vLLM's form of a list.
        Some(keys) => (keys, json!(value.split(',').collect::<Vec<_>>())),
        None => (
            keys,
            serde_json::from_str(value)
                .unwrap_or_else(|_| size(value).map_or_else(|| Value::from(value), Value::from)),
        ),
    };
    check(used, flag, &keys.rsplit('.').fold(value, |value, key| json!({ key: value })))
}

/// Judges the JSON of a flag.
pub(super) fn check(used: &FlagUse<'_>, flag: &Flag, value: &Value) -> Option<Advice> {
    let Some(mismatch) = flag.schema.mismatch(value) else { return connector(used, value) };
    let (path, version) = (&mismatch.path, vllm::version());
    let name = used.name.split('.').next().unwrap_or_default();
    let given = format!("gives the field `{path}` of {name} the value {}", mismatch.value);
    let newer = "make sure that the version in the image";
    let place = used.word.path.clone();
    Some(match mismatch.problem {
        Problem::UnknownField(names) => {
            let field = path.rsplit('.').next().unwrap_or_default();
            let hint = longboat_key::nearest(names.iter().copied(), field).map_or_else(
                || format!("remove it: the fields are {}.", names.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            Advice::warning(
                place,
                "FlagValue",
                format!(
                    "gives {name} the field `{path}`, which vLLM {version} does not have: it does not start"
                ),
                format!("{hint} Otherwise {newer} has it"),
            )
        }
        Problem::UnknownValue(expected) => Advice::warning(
            place,
            "FlagValue",
            format!("{given}, which vLLM {version} does not know: it takes {expected}"),
            format!("take one of these, or {newer} knows it"),
        ),
        Problem::WrongValue(expected) => Advice::error(
            place,
            "FlagValue",
            format!("{given}, and vLLM {version} expects {expected}: it does not start"),
            "correct the value, or remove the field",
        ),
    })
}

/// A connector that this version does not have, or one without a role. vLLM checks them after it has read all settings.
fn connector(used: &FlagUse<'_>, value: &Value) -> Option<Advice> {
    // The role may be another argument if only a key is given.
    let is_whole = used.is("--kv-transfer-config") && !used.name.contains('.');
    let name = value["kv_connector"].as_str().filter(|_| is_whole)?;
    let version = vllm::version();
    let place = used.word.path.clone();
    if value["kv_role"].is_null() {
        return Some(Advice::error(
            place,
            "FlagValue",
            format!(
                "gives {} a connector without the field `kv_role`: vLLM {version} does not start",
                used.name
            ),
            "add \"kv_role\": \"kv_both\", \"kv_producer\" or \"kv_consumer\"",
        ));
    }
    let is_known =
        vllm::connectors().any(|known| known == name) || !value["kv_connector_module_path"].is_null();
    (!is_known).then(|| {
        let near = longboat_key::nearest(vllm::connectors(), name);
        let hint = near.map_or_else(
            || "set kv_connector_module_path, or ".to_owned(),
            |near| format!("did you mean `{near}`? Otherwise "),
        );
        Advice::warning(
            place,
            "FlagValue",
            format!(
                "gives the field `kv_connector` of {} the value \"{name}\", which vLLM {version} does not know: it does not start",
                used.name
            ),
            format!("{hint}make sure that the version in the image knows it"),
        )
    })
}
