//! A matrix in the interleaved layout of the kernels.

use ::half::f16;
use pulp::{cast, x86::V3};
use rayon::prelude::*;

use super::{
    BLOCK, Format, ROWS, activations, eight, four,
    kernel::{Kernel, single},
};

/// The rows of activations that are multiplied with a block of weights at once.
const ROWS_PER_TILE: usize = 4;
/// With fewer products of blocks than this, threads would wait for each other longer than they compute.
const MIN_PARALLEL_PRODUCTS: usize = 8192;

/// A matrix of weights.
pub(crate) struct PackedMatrix {
    simd: V3,
    blocks: Blocks,
    inputs: usize,
    outputs: usize,
}

/// Groups of eight rows, each stored block by block. The last group is filled up with rows of zeros.
enum Blocks {
    Four(Vec<four::Block>),
    Eight(Vec<eight::Block>),
}

// === impl Format ===

impl Format {
    /// The bytes of a block in a GGUF file: its scale, for Q4_1 also its minimum, and its numbers.
    fn block_bytes(self) -> usize {
        match self {
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q8_0 => 34,
        }
    }
}

// === impl PackedMatrix ===

impl PackedMatrix {
    /// Whether the kernels can be used, which need AVX2.
    pub(crate) fn is_available() -> bool {
        V3::is_available()
    }

    /// Converts the bytes of a GGUF tensor to the interleaved layout. The length of a row must be a multiple of the block
    /// length. Returns `None` if the processor has no AVX2.
    pub(crate) fn new(format: Format, data: &[u8], outputs: usize, inputs: usize) -> Option<Self> {
        let simd = V3::try_new()?;
        let word = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        let blocks = match format {
            Format::Q8_0 => Blocks::Eight(pack(format, data, outputs, inputs, |row, bytes, block| {
                let block: &mut eight::Block = block;
                block.scales[row] = word(bytes);
                &bytes[2..]
            })),
            Format::Q4_1 => Blocks::Four(pack(format, data, outputs, inputs, |row, bytes, block| {
                let block: &mut four::Block = block;
                (block.scales[row], block.least[row]) = (word(bytes), word(&bytes[2..]));
                &bytes[4..]
            })),
            Format::Q4_0 => Blocks::Four(pack(format, data, outputs, inputs, |row, bytes, block| {
                let block: &mut four::Block = block;
                // The numbers of Q4_0 range from -8 to 7, so the minimum is -8 times the scale.
                (block.scales[row], block.least[row]) = (word(bytes), minus_eight_times(word(bytes)));
                &bytes[2..]
            })),
        };
        Some(Self { simd, blocks, inputs, outputs })
    }

    /// The size of the matrix in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.blocks {
            Blocks::Four(blocks) => size_of_val(blocks.as_slice()),
            Blocks::Eight(blocks) => size_of_val(blocks.as_slice()),
        }
    }

    /// Multiplies rows of activations.
    pub(crate) fn apply(&self, rows: &[f32]) -> Vec<f32> {
        match &self.blocks {
            Blocks::Four(blocks) => self.multiply(blocks, rows),
            Blocks::Eight(blocks) => self.multiply(blocks, rows),
        }
    }

    /// Appends the numbers of a row of the matrix.
    pub(crate) fn row(&self, number: usize, to: &mut Vec<f32>) {
        let blocks = self.inputs / BLOCK;
        let group = number / ROWS * blocks..(number / ROWS + 1) * blocks;
        match &self.blocks {
            Blocks::Four(all) => all[group].iter().for_each(|block| to.extend(block.row(number % ROWS))),
            Blocks::Eight(all) => all[group].iter().for_each(|block| to.extend(block.row(number % ROWS))),
        }
    }

    fn multiply<K: Kernel>(&self, weights: &[K], rows: &[f32]) -> Vec<f32> {
        let count = rows.len() / self.inputs;
        let rows = activations::quantise(self.simd, rows);
        let (groups, blocks) = (self.outputs.div_ceil(ROWS), self.inputs / BLOCK);
        let mut products = vec![0.0; groups * count * ROWS];
        let multiply_rows = |(weights, products): (&[K], &mut [f32])| {
            self.simd.vectorize(Group { simd: self.simd, weights, rows: &rows, products });
        };
        let threads = rayon::current_num_threads();
        if threads == 1 || count * groups * blocks < MIN_PARALLEL_PRODUCTS {
            weights.chunks_exact(blocks).zip(products.chunks_exact_mut(count * ROWS)).for_each(multiply_rows);
        } else {
            weights
                .par_chunks_exact(blocks)
                .zip(products.par_chunks_exact_mut(count * ROWS))
                .with_min_len(groups.div_ceil(4 * threads))
                .for_each(multiply_rows);
        }
        if count == 1 {
            products.truncate(self.outputs);
            return products;
        }
        // Reorders the products from groups to rows.
        let mut ordered = vec![0.0; count * self.outputs];
        for (group, products) in products.chunks_exact(count * ROWS).enumerate() {
            let width = ROWS.min(self.outputs - group * ROWS);
            for (row, product) in products.as_chunks::<ROWS>().0.iter().enumerate() {
                let start = row * self.outputs + group * ROWS;
                ordered[start..start + width].copy_from_slice(&product[..width]);
            }
        }
        ordered
    }
}

/// Interleaves rows. `head` reads the scale and the minimum of a row's block, and returns the bytes of the numbers.
fn pack<K: Kernel>(
    format: Format,
    data: &[u8],
    outputs: usize,
    inputs: usize,
    head: impl for<'a> Fn(usize, &'a [u8], &mut K) -> &'a [u8],
) -> Vec<K> {
    let (blocks, block_bytes) = (inputs / BLOCK, format.block_bytes());
    let mut packed = vec![K::EMPTY; outputs.div_ceil(ROWS) * blocks];
    for (row, data) in data.chunks_exact(blocks * block_bytes).enumerate() {
        let group = &mut packed[row / ROWS * blocks..][..blocks];
        for (bytes, block) in data.chunks_exact(block_bytes).zip(group) {
            let row = row % ROWS;
            let numbers = head(row, bytes, block);
            for (numbers, to) in numbers.as_chunks::<4>().0.iter().zip(block.bytes_mut()) {
                to[4 * row..4 * row + 4].copy_from_slice(numbers);
            }
        }
    }
    packed
}

/// The multiplication of eight rows of weights with all rows of activations.
struct Group<'a, K> {
    simd: V3,
    weights: &'a [K],
    rows: &'a [activations::Block],
    products: &'a mut [f32],
}

impl<K: Kernel> pulp::NullaryFnOnce for Group<'_, K> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { simd, weights, rows, products } = self;
        let blocks = weights.len();
        let (many, rest) = products.as_chunks_mut::<{ ROWS_PER_TILE * ROWS }>();
        let (many_rows, rest_rows) = rows.split_at(many.len() * ROWS_PER_TILE * blocks);
        for (rows, products) in many_rows.chunks_exact(ROWS_PER_TILE * blocks).zip(many) {
            let (first, second) = rows.split_at(2 * blocks);
            let ((a, b), (c, d)) = (first.split_at(blocks), second.split_at(blocks));
            let mut sums = [simd.avx._mm256_setzero_ps(); ROWS_PER_TILE];
            for ((((weights, a), b), c), d) in weights.iter().zip(a).zip(b).zip(c).zip(d) {
                weights.multiply(simd, [a, b, c, d], &mut sums);
            }
            for (sum, product) in sums.iter().zip(products.as_chunks_mut::<ROWS>().0) {
                *product = cast(*sum);
            }
        }
        for (row, product) in rest_rows.chunks_exact(blocks).zip(rest.as_chunks_mut::<ROWS>().0) {
            let mut sums = [simd.avx._mm256_setzero_ps()];
            for (weights, row) in weights.iter().zip(row) {
                weights.multiply(simd, [row], &mut sums);
            }
            *product = cast(sums[0]);
        }
    }
}

/// Multiplies a 16-bit float by -8.
fn minus_eight_times(number: u16) -> u16 {
    f16::from_f32(-8.0 * single(number)).to_bits()
}

#[cfg(test)]
mod tests {
    use candle_core::{
        Device, Tensor,
        quantized::{GgmlDType, QTensor, ggml_file::qtensor_from_ggml},
    };
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    const INPUTS: usize = 96;
    /// One row more than a multiple of the group size.
    const OUTPUTS: usize = 25;

    fn numbers(random: &mut StdRng, count: usize) -> Vec<f32> {
        (0..count).map(|_| random.random_range(-1.0..1.0)).collect()
    }

    /// A random matrix in this format, both in the interleaved layout and as plain numbers.
    fn matrix(random: &mut StdRng, format: Format) -> Option<(PackedMatrix, Vec<f32>)> {
        let kind = match format {
            Format::Q4_0 => GgmlDType::Q4_0,
            Format::Q4_1 => GgmlDType::Q4_1,
            Format::Q8_0 => GgmlDType::Q8_0,
        };
        let plain = numbers(random, OUTPUTS * INPUTS);
        let plain = Tensor::from_vec(plain, (OUTPUTS, INPUTS), &Device::Cpu).unwrap();
        let tensor = QTensor::quantize(&plain, kind).unwrap();
        let data = tensor.data().unwrap();
        let packed = PackedMatrix::new(format, &data, OUTPUTS, INPUTS)?;
        let read = qtensor_from_ggml(kind, &data, vec![OUTPUTS * INPUTS], &Device::Cpu).unwrap();
        Some((packed, read.dequantize(&Device::Cpu).unwrap().to_vec1().unwrap()))
    }

    #[test]
    fn products_are_those_of_the_numbers_up_to_rounding_to_8_bits() {
        let mut random = StdRng::seed_from_u64(1);
        for format in [Format::Q4_0, Format::Q4_1, Format::Q8_0] {
            let Some((packed, plain)) = matrix(&mut random, format) else {
                longboat_golden::skipped("the processor has no AVX2");
                return;
            };
            let mut read = Vec::new();
            (0..OUTPUTS).for_each(|row| packed.row(row, &mut read));
            for (read, plain) in read.iter().zip(&plain) {
                assert!((read - plain).abs() < 1e-6, "{format:?}: {read} instead of {plain}");
            }
            let rows = numbers(&mut random, 7 * INPUTS);
            let products = packed.apply(&rows);
            assert_eq!(products.len(), 7 * OUTPUTS);
            for (row, products) in rows.chunks(INPUTS).zip(products.chunks(OUTPUTS)) {
                for (weights, product) in plain.chunks(INPUTS).zip(products) {
                    let exact: f32 = weights.iter().zip(row).map(|(a, b)| a * b).sum();
                    // Each number has an error of at most half a step of 1/127.
                    let most: f32 = weights.iter().map(|weight| weight.abs()).sum::<f32>() / 254.0 + 1e-4;
                    assert!((product - exact).abs() < most, "{format:?}: {product} instead of {exact}");
                }
            }
        }
    }

    #[test]
    fn a_row_is_the_same_whatever_is_beside_it() {
        let mut random = StdRng::seed_from_u64(2);
        for format in [Format::Q4_1, Format::Q8_0] {
            let Some((packed, _)) = matrix(&mut random, format) else {
                longboat_golden::skipped("the processor has no AVX2");
                return;
            };
            let rows = numbers(&mut random, 11 * INPUTS);
            let alone: Vec<f32> = rows.chunks(INPUTS).flat_map(|row| packed.apply(row)).collect();
            let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&packed.apply(&rows)), bits(&alone));
        }
    }

    #[test]
    fn extreme_weights_do_not_overflow() {
        // First scale 1, minimum 0 and all numbers 15; then scale 1 and all numbers -128.
        for (format, head, byte, number) in [
            (Format::Q4_1, &[0x00, 0x3c, 0, 0][..], 0xff, 15.0),
            (Format::Q8_0, &[0x00, 0x3c][..], 0x80, -128.0),
        ] {
            let block = [head, &vec![byte; format.block_bytes() - head.len()]].concat();
            let Some(packed) = PackedMatrix::new(format, &block, 1, BLOCK) else {
                longboat_golden::skipped("the processor has no AVX2");
                return;
            };
            for sign in [1.0, -1.0] {
                let product = packed.apply(&[sign; BLOCK])[0];
                let expected = sign * number * 32.0;
                assert!(
                    (product / expected - 1.0).abs() < 1e-5,
                    "{format:?}: {product} instead of {expected}"
                );
            }
        }
    }
}
