//! What the kernels of all formats have in common.

use std::arch::x86_64::{__m128i, __m256};

use pulp::{cast, x86::V3};

use super::{BLOCK, ROWS, activations};

/// One block of each of eight rows.
pub(super) trait Kernel: Copy + Sync {
    const EMPTY: Self;

    /// Four bytes of each row per entry.
    fn bytes_mut(&mut self) -> &mut [[u8; 4 * ROWS]];

    /// Adds the products of the block with `N` rows of activations to `sums`.
    fn multiply<const N: usize>(&self, simd: V3, rows: [&activations::Block; N], sums: &mut [__m256; N]);

    /// Returns the numbers of one row.
    fn row(&self, row: usize) -> [f32; BLOCK];
}

/// Converts eight 16-bit floats to 32-bit floats. Infinities become large numbers, which does not matter because scales are
/// finite.
#[inline(always)]
pub(super) fn half(simd: V3, numbers: [u16; ROWS]) -> __m256 {
    let numbers: __m128i = cast(numbers);
    // The shift moves sign, exponent and fraction to their places. Then only the bias of the exponent is wrong.
    let wide = simd.avx2._mm256_slli_epi32::<13>(simd.avx2._mm256_cvtepi16_epi32(numbers));
    let wide = simd.avx2._mm256_and_si256(wide, simd.avx._mm256_set1_epi32(0x8fff_e000_u32.cast_signed()));
    simd.avx._mm256_mul_ps(simd.avx._mm256_castsi256_ps(wide), simd.avx._mm256_set1_ps(OFFSET))
}

/// Converts one number like [`half()`].
pub(super) fn single(number: u16) -> f32 {
    let sign = u32::from(number & 0x8000) << 16;
    f32::from_bits(sign | u32::from(number & 0x7fff) << 13) * OFFSET
}

/// 2^112: the difference between the exponent biases of 32-bit and 16-bit floats.
const OFFSET: f32 = f32::from_bits((127 + 112) << 23);
