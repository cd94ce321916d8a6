//! Quantities in different notations: `1000m` is `1`, `1024Mi` is `1Gi`.

/// Keys whose value is a quantity, wherever they stand; those of resource lists are names of resources.
const KEYS: [&str; 7] = ["cpu", "memory", "ephemeral-storage", "storage", "sizeLimit", "divisor", "pods"];

/// Whether two texts under `key` are the same amount.
pub(crate) fn same(a: &str, b: &str, key: &str) -> bool {
    let may_be_quantity = KEYS.contains(&key) || key.contains('/') || key.starts_with("hugepages-");
    may_be_quantity && parse(a).is_some_and(|amount| parse(b) == Some(amount))
}

/// Two amounts as one, in the notation of the first where that prints it exactly.
pub(crate) fn sum(a: &str, b: &str) -> Option<String> {
    const UNITS: [(&str, i128); 7] = [
        ("Ei", 1 << 60),
        ("Pi", 1 << 50),
        ("Ti", 1 << 40),
        ("Gi", 1 << 30),
        ("Mi", 1 << 20),
        ("Ki", 1 << 10),
        ("", 1),
    ];
    const DECIMAL: [(&str, i128); 7] = [
        ("E", 1_000_000_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("T", 1_000_000_000_000),
        ("G", 1_000_000_000),
        ("M", 1_000_000),
        ("k", 1_000),
        ("", 1),
    ];
    const BILLIONTHS: i128 = 1_000_000_000;
    let total = parse(a)?.checked_add(parse(b)?)?;
    let whole = (total + BILLIONTHS - 1).div_euclid(BILLIONTHS);
    if whole == 0 {
        return Some("0".to_owned());
    }
    let units = if a.ends_with('i') { UNITS } else { DECIMAL };
    let (unit, size) = units.into_iter().find(|(_, size)| whole % size == 0)?;
    Some(format!("{}{unit}", whole / size))
}

/// The amount in billionths.
fn parse(text: &str) -> Option<i128> {
    const SUFFIXES: [(&str, i128, i128); 16] = [
        ("Ki", 1 << 10, 1),
        ("Mi", 1 << 20, 1),
        ("Gi", 1 << 30, 1),
        ("Ti", 1 << 40, 1),
        ("Pi", 1 << 50, 1),
        ("Ei", 1 << 60, 1),
        ("n", 1, 1_000_000_000),
        ("u", 1, 1_000_000),
        ("m", 1, 1_000),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("T", 1_000_000_000_000, 1),
        ("P", 1_000_000_000_000_000, 1),
        ("E", 1_000_000_000_000_000_000, 1),
        ("", 1, 1),
    ];
    let (number, times, over) = SUFFIXES.iter().find_map(|(suffix, times, over)| {
        let number = text.strip_suffix(suffix)?;
        Some((number, times, over))
    })?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = whole.strip_prefix(['+', '-']).unwrap_or(whole);
    if !digits(unsigned)
        || !digits(fraction)
        || (unsigned.is_empty() && fraction.is_empty())
        || fraction.len() > 9
    {
        return None;
    }
    let scaled: i128 = format!("{unsigned}{fraction:0<9}").parse().ok()?;
    let amount = scaled.checked_mul(*times)? / over;
    Some(if whole.starts_with('-') { -amount } else { amount })
}

#[cfg(test)]
mod tests {
    use super::{same, sum};

    #[test]
    fn amounts_add_up_in_the_notation_of_the_first() {
        assert_eq!(sum("2Gi", "1Gi").as_deref(), Some("3Gi"));
        assert_eq!(sum("1Gi", "512Mi").as_deref(), Some("1536Mi"));
        assert_eq!(sum("1G", "1Ki").as_deref(), Some("1000001024"));
        assert_eq!(sum("0", "0").as_deref(), Some("0"));
        assert_eq!(sum("x", "1"), None);
    }

    #[test]
    fn notations_of_one_amount_are_the_same() {
        assert!(same("1000m", "1", "cpu"));
        assert!(same("1024Mi", "1Gi", "memory"));
        assert!(same("0.5", "500m", "nvidia.com/gpu"));
        assert!(!same("1", "2", "cpu"));
        assert!(!same("1000m", "1", "image"));
        assert!(!same("x", "y", "cpu"));
    }
}
