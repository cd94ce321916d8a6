//! Weights of 8 bits with a scale per block: GGUF's Q8_0.

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
    /// Four signed numbers of each row per entry.
    pub(super) bytes: [[u8; 4 * ROWS]; BLOCK / 4],
}

impl Kernel for Block {
    const EMPTY: Self = Self { scales: [0; ROWS], bytes: [[0; 4 * ROWS]; BLOCK / 4] };

    fn bytes_mut(&mut self) -> &mut [[u8; 4 * ROWS]] {
        &mut self.bytes
    }

    #[inline(always)]
    fn multiply<const N: usize>(&self, simd: V3, rows: [&activations::Block; N], sums: &mut [__m256; N]) {
        let ones = simd.avx._mm256_set1_epi16(1);
        let mut all = [simd.avx._mm256_setzero_si256(); N];
        for (part, bytes) in self.bytes.iter().enumerate() {
            let weights: __m256i = cast(*bytes);
            let magnitudes = simd.avx2._mm256_abs_epi8(weights);
            for (row, all) in rows.iter().zip(&mut all) {
                // The instruction needs one unsigned operand, so the signs of the weights move to the activations.
                let numbers =
                    simd.avx2._mm256_sign_epi8(simd.avx._mm256_set1_epi32(row.words[part]), weights);
                let pairs = simd.avx2._mm256_maddubs_epi16(magnitudes, numbers);
                *all = simd.avx2._mm256_add_epi32(*all, simd.avx2._mm256_madd_epi16(pairs, ones));
            }
        }
        let scales = half(simd, self.scales);
        for ((row, all), sum) in rows.iter().zip(all).zip(sums) {
            let scale = simd.avx._mm256_mul_ps(scales, simd.avx._mm256_set1_ps(row.scale));
            *sum = simd.fma._mm256_fmadd_ps(simd.avx._mm256_cvtepi32_ps(all), scale, *sum);
        }
    }

    fn row(&self, row: usize) -> [f32; BLOCK] {
        let scale = single(self.scales[row]);
        let mut numbers = [0.0; BLOCK];
        for (part, bytes) in self.bytes.iter().enumerate() {
            for (place, byte) in bytes[4 * row..4 * row + 4].iter().enumerate() {
                numbers[4 * part + place] = f32::from(byte.cast_signed()) * scale;
            }
        }
        numbers
    }
}
