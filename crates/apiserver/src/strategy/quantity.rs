//! Resource quantities in their canonical form, where built-in kinds have them.

use serde_json::Value;

/// A decimal number with an exponent of ten, and how it wants to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// The value in thousandths (the smallest unit that is kept).
    pub(crate) milli: i128,
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

// === impl Quantity ===

impl Quantity {
    /// Reads a quantity; fractions below a thousandth are rounded up.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+'))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let negative = number.starts_with('-');
        let digits = number.trim_start_matches(['-', '+']);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || whole.len() + fraction.len() > 24 {
            return None;
        }
        let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scale = i32::try_from(fraction.len()).ok()?;
        let (format, binary, exponent) = if let Some((_, bits)) = BINARY.iter().find(|(s, _)| *s == suffix) {
            (Format::Binary, *bits, 0)
        } else if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
            (Format::Decimal, 0, *exponent)
        } else {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            (Format::Exponent, 0, exponent)
        };
        let mut value = mantissa.checked_mul(1_i128.checked_shl(binary)?)?;
        let power = exponent.checked_sub(scale)?.checked_add(3)?;
        if power.unsigned_abs() > 30 {
            return None;
        }
        let factor = 10_i128.checked_pow(power.unsigned_abs())?;
        value = if power >= 0 { value.checked_mul(factor)? } else { value.checked_add(factor - 1)? / factor };
        Some(Self { milli: if negative { -value } else { value }, format })
    }

    /// The canonical text.
    pub(crate) fn text(self) -> String {
        let sign = if self.milli < 0 { "-" } else { "" };
        let magnitude = self.milli.unsigned_abs();
        if magnitude == 0 {
            return "0".to_owned();
        }
        if self.format == Format::Binary && magnitude.is_multiple_of(1000) {
            let whole = magnitude / 1000;
            let suffix = BINARY
                .iter()
                .rev()
                .find(|(_, bits)| whole.is_multiple_of(1_u128 << bits))
                .map_or((whole, ""), |(suffix, bits)| (whole >> bits, *suffix));
            // small values are not worth a binary suffix
            return format!("{sign}{}{}", suffix.0, suffix.1);
        }
        let mut value = magnitude;
        let mut exponent = -3;
        while value.is_multiple_of(1000) && exponent < 18 {
            value /= 1000;
            exponent += 3;
        }
        if self.format == Format::Exponent {
            return match exponent {
                0 => format!("{sign}{value}"),
                exponent => format!("{sign}{value}e{exponent}"),
            };
        }
        let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| *s);
        format!("{sign}{value}{suffix}")
    }
}

/// Rewrites the quantities of an object in their canonical form, wherever a built-in kind has one.
pub(super) fn canonicalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match key.as_str() {
                    "limits"
                    | "requests"
                    | "capacity"
                    | "allocatable"
                    | "hard"
                    | "used"
                    | "overhead"
                    | "defaultRequest"
                    | "maxLimitRequestRatio" => each(child),
                    "data" | "stringData" | "binaryData" | "labels" | "annotations" | "matchLabels"
                    | "nodeSelector" | "managedFields" => {}
                    "sizeLimit" | "divisor" | "averageValue" => one(child),
                    _ => canonicalise(child),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(canonicalise),
        _ => {}
    }
}

fn each(map: &mut Value) {
    match map {
        Value::Object(map) => map.values_mut().for_each(one),
        other => canonicalise(other),
    }
}

fn one(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return canonicalise(value),
    };
    if let Some(quantity) = Quantity::parse(&text) {
        *value = Value::String(quantity.text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_canonical_text() {
        for (given, expected) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1e3", "1e3"),
            ("1.5", "1500m"),
            ("2048M", "2048M"),
            ("0.5Gi", "512Mi"),
            ("0.0001", "1m"),
            ("1024Gi", "1Ti"),
            ("0.10", "100m"),
            ("0", "0"),
            ("1Ki", "1Ki"),
            ("100000", "100k"),
        ] {
            assert_eq!(Quantity::parse(given).unwrap().text(), expected, "{given}");
        }
        assert_eq!(Quantity::parse("lots"), None);
    }
}
