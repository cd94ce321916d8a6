//! The exponential function, for vector code.

use std::f32::consts::LOG2_E;

/// ln 2 in two parts, so that its multiples are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// 1/n! for n from 6 down to 0.
const SERIES: [f32; 7] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
/// Adding this number rounds a float to a whole number and moves it into the lowest bits.
const ROUND: f32 = 12_582_912.0;
/// Outside of this range, the result is almost 0 or almost the greatest number.
const RANGE: [f32; 2] = [-87.0, 88.0];

/// Computes e^x to within a few units in the last place. It has no branches, so that loops over it become vector code.
#[inline(always)]
#[expect(clippy::inline_always, reason = "its caller says which instructions there are")]
pub(super) fn exp(number: f32) -> f32 {
    let number = number.clamp(RANGE[0], RANGE[1]);
    let shifted = number * LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = number - whole * LN_2[0] - whole * LN_2[1];
    let series = SERIES.into_iter().fold(0.0, |sum, factor| sum * rest + factor);
    // The lowest bits of `shifted` are the exponent.
    let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    series * f32::from_bits(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_as_exact_as_the_numbers() {
        for step in -8700_i16..8800 {
            let number = f32::from(step) / 100.0;
            let expected = f64::from(number).exp();
            let error = (f64::from(exp(number)) - expected).abs() / expected;
            assert!(error < 1e-6, "e^{number} is {}, expected {expected}", exp(number));
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
    }
}
