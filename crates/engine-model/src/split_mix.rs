//! SplitMix64: numbers without a visible pattern, the same on every machine.

/// The difference between the seeds of a sequence: the golden ratio in 64 bits, as in Java's SplittableRandom.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The endless sequence of numbers that begins with the mixed seed.
pub fn sequence(mut seed: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        let number = mix(seed);
        seed = seed.wrapping_add(STEP);
        number
    })
}
