//! Reads the values of vLLM's flags as its parser does.

use longboat_api::vllm::flags::Kind;
use serde_json::Value;

/// The decimal units of sizes.
const DECIMAL: [(char, f64); 4] = [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)];

/// A value of the right kind.
pub(super) enum Reading {
    Number(f64),
    Other,
}

/// Reads a value: `None` if it is not of this kind.
pub(super) fn read(kind: Kind, value: &str) -> Option<Reading> {
    let value = value.trim();
    let number = |text: &str| text.replace('_', "").parse::<f64>().ok();
    let integer = |text: &str| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
        number(text).filter(|_| is_integer)
    };
    match kind {
        Kind::Text => Some(Reading::Other),
        Kind::Integer => integer(value).map(Reading::Number),
        Kind::Number => number(value).map(Reading::Number),
        Kind::SizeOrAuto if value.eq_ignore_ascii_case("auto") => Some(Reading::Other),
        Kind::Size | Kind::SizeOrAuto => {
            let unit = |(unit, factor): &(char, f64)| Some((value.strip_suffix(*unit)?, *factor));
            let number = match DECIMAL.iter().find_map(unit) {
                // Fractions are allowed before decimal units only: 1.5k, and not 1.5K.
                Some((digits, factor)) => number(digits).filter(|n| *n >= 0.0).map(|n| n * factor),
                None => integer(value.strip_suffix(['K', 'M', 'G', 'T']).unwrap_or(value)),
            };
            number.map(Reading::Number)
        }
        Kind::Json => json(value).ok().map(|_| Reading::Other),
        Kind::Object => json(value).is_ok_and(|value| value.is_object()).then_some(Reading::Other),
    }
}

/// Reads JSON. Numbers in it may have units.
pub(super) fn json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&without_units(text)).map_err(|_| error))
}

/// Removes the units of numbers, such as `k` in `{"size": 4k}`.
fn without_units(json: &str) -> String {
    let (mut plain, mut is_text, mut is_escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        let follows_digit = plain.ends_with(|c: char| c.is_ascii_digit());
        if is_text || !follows_digit || !"kKmMgGtT".contains(c) {
            plain.push(c);
        }
        is_text ^= c == '"' && !is_escaped;
        is_escaped = is_text && c == '\\' && !is_escaped;
    }
    plain
}

/// Returns the number of a text such as 4k.
pub(super) fn size(text: &str) -> Option<f64> {
    match read(Kind::Size, text)? {
        Reading::Number(number) => Some(number),
        Reading::Other => None,
    }
}
