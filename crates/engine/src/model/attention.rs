//! Attention of one token over all tokens before it.
#![expect(
    clippy::inline_always,
    reason = "what is inlined uses the instructions that its caller says there are"
)]

use pulp::Arch;

use super::exponential::exp;
use crate::cache::{Kv, Table};

/// The number of partial sums, so that the compiler can use wide registers.
const LANES: usize = 16;
/// The numbers of a head whose sums are held in registers at once.
const COLUMNS: usize = 32;

/// Computes the attention of one token's queries, for all heads, over the keys and values of `length` tokens.
pub(super) fn compute_attention(
    queries: &[f32],
    kv: &Kv,
    layer: usize,
    table: &Table<'_>,
    length: usize,
    kv_heads: usize,
    output: &mut [f32],
) {
    let head_width = kv.head_width();
    let shared = queries.len() / head_width / kv_heads;
    #[expect(clippy::cast_precision_loss, reason = "heads are small")]
    let scale = 1.0 / (head_width as f32).sqrt();
    let mut weights = vec![0.0; length];
    for (head, (query, output)) in
        queries.chunks_exact(head_width).zip(output.chunks_exact_mut(head_width)).enumerate()
    {
        let kv_head = head / shared;
        Arch::new().dispatch(|| {
            for (weight, keys) in weights.iter_mut().zip(kv.keys(layer, kv_head, table, length)) {
                *weight = dot(query, keys) * scale;
            }
            softmax(&mut weights);
            gather(&weights, output, || kv.values(layer, kv_head, table, length));
        });
    }
}

/// Softmax: makes weights positive, with the sum 1.
#[inline(always)]
fn softmax(weights: &mut [f32]) {
    let most = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for weight in &mut *weights {
        *weight = exp(*weight - most);
    }
    let sum: f32 = weights.iter().sum();
    for weight in weights {
        *weight /= sum;
    }
}

/// Adds up the values with their weights, several columns at a time.
#[inline(always)]
fn gather<'a, I: Iterator<Item = &'a [f32]>>(weights: &[f32], output: &mut [f32], values: impl Fn() -> I) {
    let complete = output.len() / COLUMNS * COLUMNS;
    let (columns, rest) = output.as_chunks_mut::<COLUMNS>();
    for (number, output) in columns.iter_mut().enumerate() {
        let mut sums = [0.0; COLUMNS];
        for (weight, values) in weights.iter().zip(values()) {
            let Some(values) = values[number * COLUMNS..].first_chunk::<COLUMNS>() else { continue };
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += weight * value;
            }
        }
        *output = sums;
    }
    if rest.is_empty() {
        return;
    }
    rest.fill(0.0);
    for (weight, values) in weights.iter().zip(values()) {
        for (output, value) in rest.iter_mut().zip(&values[complete..]) {
            *output += weight * value;
        }
    }
}

/// The dot product of two rows. It is inlined because its caller decides which instructions are used.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
