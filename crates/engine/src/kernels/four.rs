//! Weights of 4 bits with a scale and a minimum per block: GGUF's Q4_1. Q4_0 is a special case of it.

use std::arch::x86_64::{__m256, __m256i};

use pulp::{cast, x86::V3};

use super::{
    BLOCK, ROWS, activations,
    kernel::{Kernel, half, single},
};

/// One block of each of eight rows.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// 16-bit floating-point numbers.
    pub(super) scales: [u16; ROWS],
    pub(super) least: [u16; ROWS],
    /// Four bytes of each row per entry. The lower bits hold the numbers of the first half, and the upper bits those of the
    /// second half.
    pub(super) bytes: [[u8; 4 * ROWS]; 4],
}

impl Kernel for Block {
    const EMPTY: Self = Self { scales: [0; ROWS], least: [0; ROWS], bytes: [[0; 4 * ROWS]; 4] };

    fn bytes_mut(&mut self) -> &mut [[u8; 4 * ROWS]] {
        &mut self.bytes
    }

    #[inline(always)]
    fn multiply<const N: usize>(&self, simd: V3, rows: [&activations::Block; N], sums: &mut [__m256; N]) {
        let low = simd.avx._mm256_set1_epi8(15);
        let ones = simd.avx._mm256_set1_epi16(1);
        let mut first = [low; 4];
        let mut second = [low; 4];
        // There are no closures around instructions, because the instructions must be inlined into this function in every
        // build.
        for part in 0..4 {
            let bytes: __m256i = cast(self.bytes[part]);
            first[part] = simd.avx2._mm256_and_si256(bytes, low);
            second[part] = simd.avx2._mm256_and_si256(simd.avx2._mm256_srli_epi16::<4>(bytes), low);
        }
        let (scales, least) = (half(simd, self.scales), half(simd, self.least));
        for (row, sum) in rows.iter().zip(sums) {
            // The sums of eight products of two numbers each stay below 2^15: 8 · 2 · 15 · 127.
            let mut all = simd.avx._mm256_setzero_si256();
            for part in 0..4 {
                for (weights, word) in [(first[part], row.words[part]), (second[part], row.words[part + 4])] {
                    let word = simd.avx._mm256_set1_epi32(word);
                    all = simd.avx2._mm256_add_epi16(all, simd.avx2._mm256_maddubs_epi16(weights, word));
                }
            }
            let all = simd.avx._mm256_cvtepi32_ps(simd.avx2._mm256_madd_epi16(all, ones));
            let scale = simd.avx._mm256_mul_ps(scales, simd.avx._mm256_set1_ps(row.scale));
            *sum = simd.fma._mm256_fmadd_ps(all, scale, *sum);
            *sum = simd.fma._mm256_fmadd_ps(least, simd.avx._mm256_set1_ps(row.sum), *sum);
        }
    }

    fn row(&self, row: usize) -> [f32; BLOCK] {
        let (scale, least) = (single(self.scales[row]), single(self.least[row]));
        let mut numbers = [0.0; BLOCK];
        for (part, bytes) in self.bytes.iter().enumerate() {
            for (place, byte) in bytes[4 * row..4 * row + 4].iter().enumerate() {
                numbers[4 * part + place] = f32::from(byte & 15) * scale + least;
                numbers[4 * part + place + BLOCK / 2] = f32::from(byte >> 4) * scale + least;
            }
        }
        numbers
    }
}
