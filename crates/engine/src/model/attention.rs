//! Attention of one token over everything before it.

use crate::cache::{Kv, Table};

/// Sums that are kept side by side, so that the compiler can use wide registers.
const LANES: usize = 16;

/// What queries of one token, all heads, find among the keys and values of `length` tokens.
pub(super) fn attend(
    queries: &[f32],
    kv: &Kv,
    layer: usize,
    table: &Table<'_>,
    length: usize,
    kv_heads: usize,
    found: &mut [f32],
) {
    let head_width = kv.head_width();
    let shared = queries.len() / head_width / kv_heads;
    #[expect(clippy::cast_precision_loss, reason = "heads are small")]
    let scale = 1.0 / (head_width as f32).sqrt();
    let mut weights = vec![0.0; length];
    for (head, (query, found)) in
        queries.chunks_exact(head_width).zip(found.chunks_exact_mut(head_width)).enumerate()
    {
        let kv_head = head / shared;
        let mut most = f32::NEG_INFINITY;
        for (place, keys) in kv.keys(layer, kv_head, table, length).enumerate() {
            let weight = dot(query, keys) * scale;
            weights[place] = weight;
            most = most.max(weight);
        }
        let mut sum = 0.0;
        for weight in &mut weights {
            *weight = (*weight - most).exp();
            sum += *weight;
        }
        found.fill(0.0);
        for (weight, values) in weights.iter().zip(kv.values(layer, kv_head, table, length)) {
            let weight = weight / sum;
            for (found, value) in found.iter_mut().zip(values) {
                *found += weight * value;
            }
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
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
