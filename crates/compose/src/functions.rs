//! The functions of templates besides Go's own: those that KServe adds, and `shellWord`.

use longboat_api::{child_name, shell};
use longboat_template::{
    Function, Param,
    reflect::{Ty, Value},
};
use serde_json::Value as Json;

use crate::{codec, kv_cache};

/// The grace period of a pod that sets none, in seconds.
const DEFAULT_GRACE: i64 = 60;
/// Seconds for the process to exit after it has drained.
const EXIT_MARGIN: i64 = 5;

/// `ChildName`, `kvTransferConfig`, `shellWord` and `shutdownTimeout`.
pub(crate) static FUNCTIONS: &[Function] = &[
    Function::new("ChildName", &[Param::String, Param::String], |v| {
        Ok(Value::Str(child_name(v[0].as_str(), v[1].as_str()).into()))
    }),
    Function::new("kvTransferConfig", &[Param::Any], |v| Ok(Value::Str(kv_transfer_config(&v[0]).into()))),
    Function::new("shellWord", &[Param::Any], |v| Ok(Value::Str(shell_word(&v[0]).into()))),
    Function::new("shutdownTimeout", &[Param::Any, Param::Int], |v| {
        Ok(Value::Int(shutdown_timeout(&v[0], &v[1])))
    }),
];

/// The data behind a non-nil pointer to the struct `name`.
fn pointee<'a>(value: &Value<'a>, name: &str) -> Option<&'a Json> {
    match value {
        Value::Typed(Ty::Ptr(Ty::Struct(s)), json) if s.name == name => *json,
        _ => None,
    }
}

/// How many seconds a server may drain: the grace period minus the pre-stop hook and a margin.
fn shutdown_timeout(pod: &Value<'_>, pre_stop: &Value<'_>) -> i64 {
    let grace = pointee(pod, "v1.PodSpec")
        .and_then(|pod| pod.get("terminationGracePeriodSeconds"))
        .and_then(Json::as_i64)
        .unwrap_or(DEFAULT_GRACE);
    let pre_stop = match pre_stop {
        Value::Int(seconds) => *seconds,
        _ => 0,
    };
    grace.saturating_sub(pre_stop).saturating_sub(grace.min(EXIT_MARGIN)).max(0)
}

/// A name as one word for `eval "…"`, escaped for the JSON text that templates are in. A name that is not set is printed as
/// templates print it.
fn shell_word(name: &Value<'_>) -> String {
    if let Value::Typed(Ty::Ptr(_), None) = name {
        return "<nil>".to_owned();
    }
    let mut word = String::new();
    codec::escape(&mut word, &shell::quoted_for_eval(name.as_str()));
    word
}

/// The vLLM flag for KV cache offloading. Its quotes are escaped to survive `VAR="…"` and an `eval`. Services with older presets
/// run with this text, so it stays as it is; newer presets have a slot ([`kv_cache::SLOT`]).
fn kv_transfer_config(spec: &Value<'_>) -> String {
    let Some(spec) = pointee(spec, "v1alpha2.KVCacheOffloadingSpec") else { return String::new() };
    let config = kv_cache::connector(spec, kv_cache::TIERS).to_string();
    format!("--kv-transfer-config '{}'", config.replace('"', r#"\\\""#))
}
