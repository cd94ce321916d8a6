//! Multiplies matrices of 4-bit and 8-bit weights with the vector instructions of the processor.
//!
//! Eight rows of a matrix are interleaved (`four`, `eight`), so that a register holds a number of each row and no sum
//! crosses its lanes. Rows of activations are first quantized to 8 bits (`activations`). Four of them are multiplied with
//! each block of weights while it is in registers (`packed`). The result of a row does not depend on the other rows.
//!
//! The instructions are AVX2, called through `pulp`, whose tokens prove that the processor has them. Without AVX2, and for
//! other formats, candle multiplies.

#![expect(
    clippy::inline_always,
    reason = "instructions must become part of the function that says the processor has them"
)]

#[cfg(target_arch = "x86_64")]
mod activations;
#[cfg(target_arch = "x86_64")]
mod eight;
#[cfg(target_arch = "x86_64")]
mod four;
#[cfg(target_arch = "x86_64")]
mod kernel;
#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod packed;
#[cfg(target_arch = "x86_64")]
mod packed;

pub(crate) use self::packed::PackedMatrix;

/// The GGUF formats that the kernels support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Q4_0,
    Q4_1,
    Q8_0,
}

/// The numbers per block, which share a scale.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 32;
/// The rows of a matrix that are interleaved.
#[cfg(target_arch = "x86_64")]
const ROWS: usize = 8;
