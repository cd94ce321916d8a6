//! Quantizes rows of activations to 8-bit numbers.

use pulp::x86::V3;

use super::BLOCK;

/// Adding this number rounds a float to a whole number and moves it into the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// Numbers of one row that share a scale.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// Four numbers per word. A word is broadcast to all lanes of a register.
    pub(super) words: [i32; BLOCK / 4],
    pub(super) scale: f32,
    /// The scaled sum of all numbers.
    pub(super) sum: f32,
}

struct Quantise<'a>(&'a [f32]);

/// Quantizes rows whose length is a multiple of the block length.
pub(super) fn quantise(simd: V3, rows: &[f32]) -> Vec<Block> {
    simd.vectorize(Quantise(rows))
}

impl pulp::NullaryFnOnce for Quantise<'_> {
    type Output = Vec<Block>;

    #[inline(always)]
    fn call(self) -> Vec<Block> {
        self.0.as_chunks::<BLOCK>().0.iter().map(block).collect()
    }
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "scaled numbers are between -127 and 127"
)]
fn block(numbers: &[f32; BLOCK]) -> Block {
    let mut greatest = [0.0_f32; 8];
    for numbers in numbers.as_chunks::<8>().0 {
        for (greatest, number) in greatest.iter_mut().zip(numbers) {
            *greatest = greatest.max(number.abs());
        }
    }
    let greatest = greatest.into_iter().fold(0.0, f32::max);
    let scale = greatest / 127.0;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let whole = numbers
        .map(|number| (number * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()).cast_signed());
    let sum: i32 = whole.iter().sum();
    let bytes = whole.map(|number| number as u8);
    let mut words = [0; BLOCK / 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = i32::from_le_bytes(*bytes);
    }
    Block { words, scale, sum: sum as f32 * scale }
}
