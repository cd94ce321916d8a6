//! Matrices of 4-bit and 8-bit weights, multiplied with the instructions that the processor has.
//!
//! Eight rows of a matrix lie side by side (`four`, `eight`), so that a register holds a number of each of them and no sum
//! crosses its lanes. Rows of activations become 8-bit numbers first (`activations`), and four of them meet each block of
//! weights while it is in registers (`packed`). What becomes of a row does not depend on the rows beside it.
//!
//! The instructions are AVX2's, called through `pulp`, whose tokens prove that the processor has them. Where it lacks them,
//! and for other formats, candle multiplies.

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
#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod packed;
#[cfg(target_arch = "x86_64")]
mod packed;

pub(crate) use self::packed::Packed;

/// Formats of GGUF files that can be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Q4_0,
    Q4_1,
    Q8_0,
}

/// Numbers that share a scale.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 32;
/// Rows of a matrix that lie side by side.
#[cfg(target_arch = "x86_64")]
const ROWS: usize = 8;
