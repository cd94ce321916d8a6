//! Resource quantities in the one notation that Kubernetes prints.

/// Go's complaint about a text that is no quantity.
pub(crate) const PATTERN_MISMATCH: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The three notations; each is kept where it can be.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// Digits kept behind the point: quantities are rounded up to a billionth.
const NANO: i128 = 1_000_000_000;

/// The canonical notation of a quantity: `1000m` is `1`, `1024Mi` is `1Gi`.
///
/// # Errors
///
/// Go's message.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (nano, format) = parse(text).ok_or_else(|| PATTERN_MISMATCH.to_owned())?;
    Ok(print(nano, format))
}

/// The value rounded up to a whole number, as `cpu_bytes_to_use` wants it.
pub(crate) fn whole(text: &str) -> Option<i64> {
    let (nano, _) = parse(text.trim())?;
    i64::try_from(nano.div_euclid(NANO) + i128::from(nano.rem_euclid(NANO) != 0)).ok()
}

/// The value in billionths.
fn parse(text: &str) -> Option<(i128, Format)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let (base, exponent, format) = suffix_of(suffix)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    // digits · base^exponent / 10^len(fraction), in billionths.
    let scale = |value: i128, by: i128, times: u32| by.checked_pow(times).and_then(|f| value.checked_mul(f));
    let mut numerator = digits.checked_mul(NANO)?;
    let mut denominator = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    if exponent >= 0 {
        numerator = scale(numerator, base, u32::try_from(exponent).ok()?)?;
    } else {
        denominator = scale(denominator, base, u32::try_from(-exponent).ok()?)?;
    }
    let mut nano = numerator / denominator + i128::from(numerator % denominator != 0);
    if negative {
        nano = -nano;
    }
    Some((nano, format))
}

/// Base, power and notation of a suffix.
fn suffix_of(suffix: &str) -> Option<(i128, i32, Format)> {
    const DECIMAL: [(&str, i32); 10] = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
    if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((10, *power, Format::DecimalSi));
    }
    if let Some((_, power)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Some((2, *power, Format::BinarySi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((10, exponent.parse().ok()?, Format::DecimalExponent))
}

fn print(nano: i128, format: Format) -> String {
    if nano == 0 {
        return "0".to_owned();
    }
    let sign = if nano < 0 { "-" } else { "" };
    let mut value = nano.unsigned_abs();
    let nano_unit = NANO.unsigned_abs();
    if format == Format::BinarySi && value >= 1024 * nano_unit {
        value = value.div_ceil(nano_unit);
        let mut step = 0;
        while value.is_multiple_of(1024) && step < 6 {
            value /= 1024;
            step += 1;
        }
        let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step];
        return format!("{sign}{value}{suffix}");
    }
    let mut power = -9;
    while value.is_multiple_of(1000) && power < 18 {
        value /= 1000;
        power += 3;
    }
    if format == Format::DecimalExponent {
        return if power == 0 { format!("{sign}{value}") } else { format!("{sign}{value}e{power}") };
    }
    let suffix = match power {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        0 => "",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        _ => "E",
    };
    format!("{sign}{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn quantities_print_in_canonical_notation() {
        for (given, wanted) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1000", "1k"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("12E2", "1200"),
            ("1e3", "1e3"),
            ("100000000", "100M"),
            ("0", "0"),
            ("0.5Gi", "512Mi"),
            ("0.1", "100m"),
            ("100Ki", "100Ki"),
            ("512", "512"),
            ("-1Ki", "-1Ki"),
            ("0.0000000001", "1n"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(wanted), "{given}");
        }
        assert!(canonical("lots").is_err());
        assert!(canonical("").is_err());
    }
}
