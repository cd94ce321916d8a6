//! Go's form of floating-point numbers.

/// Formats a float like `%v`: the shortest form, with an exponent where Go uses one.
pub fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = value.abs();
    // `%g` alone would have an exponent from the seventh digit on. `%v` keeps large numbers plain up to here.
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        return exponent(&format!("{value:e}"));
    }
    format!("{value}")
}

/// Rewrites an exponent in Go's form, with a sign and two digits.
pub fn exponent(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}
