//! Resource quantities of Kubernetes, `500m`, `1.5Gi` or `1e3`: their value, and the one notation that an API server prints. And
//! the other notations that several crates read: durations ([`duration`]) and schedules ([`cron`]).

pub mod cron;
pub mod duration;

use std::{fmt, ops::Add};

/// Go's error for a text that is no quantity.
pub const PATTERN_MISMATCH: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Billionths in one, and in a thousandth.
const NANO: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
/// More digits than a value that fits has.
const MAX_DIGITS: usize = 40;
/// Suffixes by their power of two.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Suffixes by their power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// An amount in whole billionths, and how it was written. Two amounts are equal whatever their notation.
///
/// [`fmt::Display`] prints the canonical notation: `1000m` is `1`, `1024Mi` is `1Gi`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nano: i128,
    notation: Notation,
}

/// The three notations; each is kept where it can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Notation {
    /// `1k`.
    #[default]
    Decimal,
    /// `1Ki`.
    Binary,
    /// `1e3`.
    Exponent,
}

// === impl Quantity ===

impl Quantity {
    /// The amount as a float, which may be rounded.
    #[expect(clippy::cast_precision_loss, reason = "the nearest float is what a caller wants")]
    pub fn as_f64(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// Reads a quantity; fractions of a billionth are rounded away from zero. None if it is none, or does not fit.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = whole.len() + fraction.len();
        if digits == 0 || digits > MAX_DIGITS || fraction.contains('.') {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let (bits, power, notation) = multiplier(suffix)?;
        // In billionths, and without the point.
        let power = power.checked_add(9)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        let value = digits.checked_mul(1 << bits)?;
        let factor = 10_i128.checked_pow(power.unsigned_abs());
        let nano = match factor {
            Some(factor) if power >= 0 => value.checked_mul(factor)?,
            Some(factor) => up(value, factor),
            None if power < 0 || value == 0 => value.signum(),
            None => return None,
        };
        Some(Self { nano: if is_negative { -nano } else { nano }, notation })
    }

    /// The value in billionths.
    pub const fn nano(self) -> i128 {
        self.nano
    }

    /// The value in thousandths, rounded away from zero.
    pub const fn milli(self) -> i128 {
        up(self.nano, NANOS_PER_MILLI)
    }

    /// The value as a whole number, rounded away from zero.
    pub const fn whole(self) -> i128 {
        up(self.nano, NANO)
    }

    /// A percentage of the amount in whole units, rounded down. None if it does not fit into 64 bits.
    pub fn percent(self, percent: i64) -> Option<Self> {
        let part = self.whole().checked_mul(percent.into())? / 100;
        let part = i64::try_from(part).ok()?;
        Some(Self { nano: i128::from(part) * NANO, notation: self.notation })
    }

    /// The amount in whole thousandths, rounded away from zero: API servers round the resources of containers so.
    #[must_use]
    pub const fn rounded_to_milli(self) -> Self {
        Self { nano: self.milli() * NANOS_PER_MILLI, notation: self.notation }
    }
}

/// Powers of two and of ten that a suffix stands for, and its notation.
fn multiplier(suffix: &str) -> Option<(u32, i32, Notation)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((0, *power, Notation::Decimal));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((*bits, 0, Notation::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((0, exponent.parse().ok()?, Notation::Exponent))
}

/// Divided, rounded away from zero.
const fn up(value: i128, by: i128) -> i128 {
    value / by + (value % by).signum()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

/// The sum in the notation of the first; none where it does not fit.
impl Add for Quantity {
    type Output = Option<Self>;

    fn add(self, other: Self) -> Option<Self> {
        Some(Self { nano: self.nano.checked_add(other.nano)?, notation: self.notation })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.nano < 0 { "-" } else { "" };
        // Small amounts are printed in decimal notation.
        if self.notation == Notation::Binary && self.nano.abs() >= 1024 * NANO {
            let whole = self.whole().abs();
            let fits = |(_, bits): &&(&str, u32)| whole % (1 << bits) == 0;
            let (suffix, bits) = BINARY.iter().rev().find(fits).copied().unwrap_or(("", 0));
            return write!(f, "{sign}{}{suffix}", whole >> bits);
        }
        let mut value = self.nano.abs();
        let mut power = -9;
        while value != 0 && value % 1000 == 0 && power < 18 {
            value /= 1000;
            power += 3;
        }
        if value == 0 {
            return f.write_str("0");
        }
        if self.notation == Notation::Exponent {
            return if power == 0 { write!(f, "{sign}{value}") } else { write!(f, "{sign}{value}e{power}") };
        }
        let suffix = DECIMAL.iter().find(|(_, known)| *known == power).map_or("", |(suffix, _)| *suffix);
        write!(f, "{sign}{value}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Quantity;

    fn canonical(text: &str) -> Option<String> {
        Some(Quantity::parse(text)?.to_string())
    }

    #[test]
    fn quantities_print_in_canonical_notation() {
        for (given, wanted) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1024Gi", "1Ti"),
            ("1000", "1k"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("0.10", "100m"),
            ("1.5Gi", "1536Mi"),
            ("12E2", "1200"),
            ("1e3", "1e3"),
            ("5E-1", "500e-3"),
            ("100000000", "100M"),
            ("2048M", "2048M"),
            ("0", "0"),
            ("0Gi", "0"),
            ("0.5Gi", "512Mi"),
            ("0.1", "100m"),
            ("0.0001", "100u"),
            ("100Ki", "100Ki"),
            ("0.5Ki", "512"),
            ("512", "512"),
            ("-1Ki", "-1Ki"),
            ("+1", "1"),
            ("0.0000000001", "1n"),
            ("1e-30", "1e-9"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(wanted), "{given}");
        }
        for text in ["", "lots", "x", "1x", "1.2.3", "Ki", ".", "-", "--1", "1e", "1e99", "9e38"] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_rounded_away_from_zero() {
        for (text, nano, milli, whole) in [
            ("1.5", 1_500_000_000, 1500, 2),
            ("1u", 1_000, 1, 1),
            ("2Ki", 2_048_000_000_000, 2_048_000, 2048),
            ("-1.0005", -1_000_500_000, -1001, -2),
            ("0", 0, 0, 0),
        ] {
            let quantity = Quantity::parse(text).expect(text);
            assert_eq!((quantity.nano(), quantity.milli(), quantity.whole()), (nano, milli, whole), "{text}");
        }
        assert_eq!(Quantity::parse("0.0001").unwrap().rounded_to_milli().to_string(), "1m");
    }

    #[test]
    fn a_percentage_is_a_whole_number_that_fits_into_64_bits() {
        let percent = |text: &str, percent| Some(Quantity::parse(text)?.percent(percent)?.to_string());
        assert_eq!(percent("10Gi", 120).as_deref(), Some("12Gi"));
        assert_eq!(percent("10G", 120).as_deref(), Some("12G"));
        assert_eq!(percent("999", 33).as_deref(), Some("329"));
        assert_eq!(percent("7Ei", 200), None);
    }

    #[test]
    fn an_amount_is_a_float() {
        let floats = ["1500m", "2", "1Ki"].map(|text| Quantity::parse(text).unwrap().as_f64());
        assert!(floats.iter().zip([1.5, 2.0, 1024.0]).all(|(found, wanted)| (found - wanted).abs() < 1e-9));
    }

    #[test]
    fn amounts_add_up_in_the_notation_of_the_first() {
        let sum = |a: &str, b: &str| {
            (Quantity::parse(a).unwrap() + Quantity::parse(b).unwrap()).unwrap().to_string()
        };
        assert_eq!(sum("2Gi", "1Gi"), "3Gi");
        assert_eq!(sum("1Gi", "512Mi"), "1536Mi");
        assert_eq!(sum("1G", "1Ki"), "1000001024");
        assert_eq!(sum("0", "0"), "0");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_the_same_amount_and_prints_itself(
            text in "[+-]?[0-9]{0,12}(\\.[0-9]{0,6})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]{1,2}|e-[0-9]{1,2})?",
        ) {
            if let Some(quantity) = Quantity::parse(&text) {
                let printed = quantity.to_string();
                let again = Quantity::parse(&printed).expect("what is printed is a quantity");
                // Of large binary amounts fractions are not printed.
                if quantity.nano().abs() < 1024 * super::NANO {
                    prop_assert_eq!(quantity, again);
                }
                prop_assert_eq!(printed, again.to_string());
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = canonical(&text);
        }
    }
}
