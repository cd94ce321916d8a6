//! Values that vLLM's flags do not take.

use longboat_api::vllm::{
    self,
    flags::{Count, Flag, Kind},
};

use super::{
    reading::{Reading, json, read},
    settings,
    uses::FlagUse,
};
use crate::finding::Advice;

/// Values with more choices than this are not listed.
const LISTED: usize = 24;

/// A number of which the attention backends for GPUs take multiples only. No parser knows it: vLLM finds no backend, and ends. Those
/// for one model of attention on AMD's also take blocks of one token.
const MULTIPLES: [(&str, u32); 1] = [("--block-size", 16)];

pub(super) fn check(used: &FlagUse<'_>) -> Option<Advice> {
    let (name, flag) = used.flag?;
    let path = || used.word.path.clone();
    let version = vllm::version();
    if let Some((_, keys)) = used.name.split_once('.') {
        let value = used.inline.or_else(|| used.values.first().map(|word| word.text.as_str()));
        return settings::check_key(used, flag, keys, value.filter(|_| is_exact(used))?);
    }
    if flag.values == Count::None {
        let value = used.inline?;
        return Some(Advice::error(
            path(),
            "FlagValue",
            format!(
                "gives {} the value {value}, and vLLM {version} takes none: it does not start",
                used.name
            ),
            switch_hint(name, value),
        ));
    }
    if used.inline.is_none() && used.values.is_empty() {
        return (flag.values != Count::Optional).then(|| {
            Advice::error(
                path(),
                "FlagValue",
                format!("has {} without a value, and vLLM {version} expects {}", used.name, expected(flag)),
                "add the value, or remove the flag",
            )
        });
    }
    let written = used.values.iter().filter(|word| word.is_exact).map(|word| word.text.as_str());
    let inline = used.inline.filter(|_| used.word.is_exact);
    inline.into_iter().chain(written).find_map(|value| one(used, flag, value))
}

/// What to write for a switch that is on or off.
pub(super) fn switch_hint(name: &str, value: &str) -> String {
    let positive = name.strip_prefix("--no-").map_or_else(|| name.to_owned(), |rest| format!("--{rest}"));
    let no = format!("--no-{}", positive.trim_start_matches("--"));
    match value.to_ascii_lowercase().as_str() {
        "false" | "0" | "no" | "off" if vllm::flags::find(&no).is_some() => format!("write {no} alone"),
        "false" | "0" | "no" | "off" => format!("remove {name}"),
        _ => format!("write {name} alone"),
    }
}

fn one(used: &FlagUse<'_>, flag: &Flag, value: &str) -> Option<Advice> {
    // vLLM's `optional_type` takes these two for no value.
    if flag.optional && ["", "None"].contains(&value) {
        return None;
    }
    let version = vllm::version();
    let refused = |expected: String, hint: String| {
        Advice::error(
            used.word.path.clone(),
            "FlagValue",
            format!(
                "gives {} the value {value}, and vLLM {version} expects {expected}: it does not start",
                used.name
            ),
            hint,
        )
    };
    let Some(reading) = read(flag.kind, value) else {
        return Some(refused(expected(flag), hint(flag, value)));
    };
    let broken = match reading {
        Reading::Number(number) => flag.schema.bounds.broken(number),
        Reading::Other => None,
    };
    if let Some(bounds) = broken {
        return Some(refused(format!("a number {bounds}"), hint_number(value)));
    }
    let name = used.flag.map_or("", |(name, _)| name);
    if let Some((_, step)) = MULTIPLES.iter().find(|(of, _)| *of == name)
        && let Reading::Number(number) = reading
        && number > 1.0
        && number % f64::from(*step) != 0.0
    {
        return Some(Advice::warning(
            used.word.path.clone(),
            "FlagValue",
            format!(
                "gives {} the value {value}, with which vLLM {version} finds no attention backend for GPUs: all need multiples of {step}",
                used.name
            ),
            format!("write a multiple of {step}, or remove the flag: vLLM chooses a size that fits"),
        ));
    }
    if matches!(flag.kind, Kind::Json | Kind::Object)
        && let Ok(value) = json(value)
    {
        return settings::check(used, flag, &value);
    }
    // A name with a dot is that of a class.
    let is_known = flag.choices.is_empty()
        || flag.choices.iter().any(|choice| choice == value)
        || flag.kind == Kind::Text && value.contains('.');
    (!is_known).then(|| {
        let choices = flag.choices.iter().map(String::as_str).filter(|_| flag.kind == Kind::Text);
        let near = longboat_key::nearest(choices, value);
        let hint = near.map_or_else(
            || "take one of these, or ".to_owned(),
            |near| format!("did you mean `{near}`? Otherwise "),
        );
        Advice::warning(
            used.word.path.clone(),
            "FlagValue",
            format!(
                "gives {} the value {value}, which vLLM {version} does not know: it takes {}",
                used.name,
                expected(flag)
            ),
            format!("{hint}make sure that the version in the image knows it"),
        )
    })
}

fn expected(flag: &Flag) -> String {
    let choices = &flag.choices;
    if !choices.is_empty() && choices.len() <= LISTED {
        return format!("one of {}", choices.join(", "));
    }
    if !choices.is_empty() {
        return format!("one of {} values", choices.len());
    }
    let kind = match flag.kind {
        Kind::Text => "a text",
        Kind::Integer => "a whole number",
        Kind::Number => "a number",
        Kind::Size => "a whole number, or one with a unit (4k, 4K)",
        Kind::SizeOrAuto => "a whole number, one with a unit (4k, 4K), or auto",
        Kind::Json => "JSON",
        Kind::Object => "a JSON object",
    };
    kind.to_owned()
}

fn hint(flag: &Flag, value: &str) -> String {
    if value.contains(",-") || value.ends_with(',') {
        "write a space between arguments, and no comma".to_owned()
    } else if flag.kind == Kind::Number && value.contains(',') {
        format!("write a point: `{}`", value.replace(',', "."))
    } else if matches!(flag.kind, Kind::Json | Kind::Object) {
        match json(value).err().filter(|_| value.starts_with(['{', '[']) && value.contains('"')) {
            Some(error) => format!("correct the JSON: {error}"),
            None => "write JSON in single quotes: `'{\"key\": \"value\"}'`".to_owned(),
        }
    } else {
        "correct the value, or remove the flag".to_owned()
    }
}

/// Whether neither a flag nor its values have variables of a shell in them.
fn is_exact(used: &FlagUse<'_>) -> bool {
    used.word.is_exact && used.values.iter().all(|word| word.is_exact)
}

fn hint_number(value: &str) -> String {
    match value.trim().parse::<f64>() {
        Ok(percent) if percent > 1.0 && percent <= 100.0 => {
            format!("if it is a share in percent, write `{}`", percent / 100.0)
        }
        _ => "correct the value, or remove the flag".to_owned(),
    }
}
