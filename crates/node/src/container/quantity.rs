//! Kubernetes quantities, as far as resource fields of the downward API need them.

/// Parses a quantity into billionths. None when it is not one.
pub(crate) fn parse_nano(text: &str) -> Option<i128> {
    let text = text.trim();
    let number_end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && matches!(c, '+' | '-'))))
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(number_end);
    let mantissa = decimal_nano(number)?;
    let decimal = |power: u32| mantissa.checked_mul(10_i128.checked_pow(power)?);
    let binary = |power: u32| mantissa.checked_mul(1024_i128.checked_pow(power)?);
    match suffix {
        "" => Some(mantissa),
        "n" => Some(mantissa / 1_000_000_000),
        "u" => Some(mantissa / 1_000_000),
        "m" => Some(mantissa / 1_000),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if exponent < 0 { Some(mantissa / power) } else { mantissa.checked_mul(power) }
        }
    }
}

/// A plain decimal number in billionths; digits past the ninth are dropped.
fn decimal_nano(number: &str) -> Option<i128> {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nine = format!("{fraction:0<9.9}");
    let fraction: i128 = nine.parse().ok()?;
    Some(sign * (whole.checked_mul(1_000_000_000)? + fraction))
}

/// `value / divisor`, rounded up, as the downward API prints it. A divisor of nothing or zero is one.
pub(crate) fn divide_rounding_up(value_nano: i128, divisor: Option<&str>) -> String {
    let divisor = divisor.and_then(parse_nano).filter(|divisor| *divisor > 0).unwrap_or(1_000_000_000);
    let quotient = value_nano / divisor + i128::from(value_nano % divisor > 0);
    quotient.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_with_every_suffix() {
        for (text, nano) in [
            ("1", 1_000_000_000),
            ("100m", 100_000_000),
            ("1.5", 1_500_000_000),
            (".5", 500_000_000),
            ("2k", 2_000_000_000_000),
            ("1Ki", 1_024_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("5E-1", 500_000_000),
            ("-1", -1_000_000_000),
            ("1n", 1),
        ] {
            assert_eq!(parse_nano(text), Some(nano), "{text}");
        }
        for text in ["", "x", "1x", "1.2.3", "Ki"] {
            assert_eq!(parse_nano(text), None, "{text}");
        }
    }

    #[test]
    fn division_rounds_up() {
        assert_eq!(divide_rounding_up(parse_nano("1500m").unwrap(), Some("1")), "2");
        assert_eq!(divide_rounding_up(parse_nano("1500m").unwrap(), Some("1m")), "1500");
        assert_eq!(divide_rounding_up(parse_nano("1Gi").unwrap(), Some("1Mi")), "1024");
        assert_eq!(divide_rounding_up(parse_nano("1Gi").unwrap(), Some("0")), "1073741824");
    }
}
