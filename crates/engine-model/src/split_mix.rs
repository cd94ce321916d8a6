//! SplitMix64: numbers without a visible pattern, the same on every machine.

/// The difference between the seeds of a sequence.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
