//! Reads the values of vLLM's flags as its parser does.

use longboat_api::vllm::flags::Kind;
use serde_json::Value;

/// The units of sizes: those in lower case are decimal, the others binary.
const UNITS: [(char, f64); 8] = [
    ('k', 1e3),
    ('m', 1e6),
    ('g', 1e9),
    ('t', 1e12),
    ('K', 1024.0),
    ('M', 1_048_576.0),
    ('G', 1_073_741_824.0),
    ('T', 1_099_511_627_776.0),
];

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
            let unit = UNITS.iter().find_map(|unit| Some((value.strip_suffix(unit.0)?, unit)));
            let number = match unit {
                // Fractions are allowed before decimal units only: 1.5k, and not 1.5K.
                Some((digits, (unit, factor))) => {
                    let number = if unit.is_lowercase() { number(digits) } else { integer(digits) };
                    number.filter(|number| *number >= 0.0).map(|number| number * factor)
                }
                None => integer(value),
            };
            number.map(Reading::Number)
        }
        Kind::Json => json(value).ok().map(|_| Reading::Other),
        Kind::Object => json(value).is_ok_and(|value| value.is_object()).then_some(Reading::Other),
    }
}

/// Reads JSON. Numbers in it may have units.
pub(super) fn json(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&plain_numbers(text)).map_err(|_| error))
}

/// Writes numbers without their units, such as 4000 for `4k` in `{"size": 4k}`.
fn plain_numbers(json: &str) -> String {
    let (mut plain, mut is_text, mut is_escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        let is_unit = !is_text && UNITS.iter().any(|(unit, _)| *unit == c);
        plain.push(c);
        if is_unit {
            let begin =
                plain[..plain.len() - 1].trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').len();
            if let Some(number) = size(&plain[begin..]) {
                plain.replace_range(begin.., &number.to_string());
            }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn units_are_factors_also_in_json() {
        for (text, number) in
            [("2k", Some(2e3)), ("1.5k", Some(1500.0)), ("4K", Some(4096.0)), ("1.5K", None), ("-1k", None)]
        {
            assert_eq!(super::size(text), number, "{text}");
        }
        let read = super::json(r#"{"size": 4k, "other": [2M, 1.5k], "text": "4k", "plain": 4}"#).unwrap();
        assert_eq!(read, json!({"size": 4000, "other": [2_097_152, 1500], "text": "4k", "plain": 4}));
        assert!(super::json(r#"{"size": k}"#).is_err());
    }
}
